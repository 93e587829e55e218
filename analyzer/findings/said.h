/* SPDX-License-Identifier: MIT */
/* said: a sentence of the table (sentences.def) and the facts that belong into it. */
#ifndef VT_SAID_H
#define VT_SAID_H

#include <stddef.h>

#include "analyzer/findings/fact.h"

#define SAID_FACTS_MAX 8

enum sentence {
	SAY_nothing,
#define SENTENCE(name, text) SAY_##name,
#include "analyzer/findings/sentences.def"
#undef SENTENCE
	NR_SENTENCES
};

struct said {
	enum sentence sentence; /* SAY_nothing: nothing is said */
	unsigned nr_facts;
	struct fact fact[SAID_FACTS_MAX]; /* those that are known, each key once */
};

/* Facts that are absent are left out; so are those beyond SAID_FACTS_MAX, which no sentence has. */
struct said said_of(enum sentence sentence, const struct fact *facts, size_t nr_facts);

/* SAID(leak_of_steps, fact_bytes("kept", bytes), fact_count("steps", nr)), or SAID(collect, NO_FACTS). */
#define SAID(name, ...)                                                                                                   \
	said_of(SAY_##name, (const struct fact[]){ __VA_ARGS__ }, sizeof((const struct fact[]){ __VA_ARGS__ }) / sizeof(struct fact))
#define NO_FACTS { .key = NULL }
#define SAID_NOTHING ((struct said){ .sentence = SAY_nothing })

/* Of this key; NULL: it has none. */
const struct fact *said_fact(const struct said *s, const char *key);

#endif
