/* SPDX-License-Identifier: MIT */
/*
 * sentence: puts the facts of a finding into its sentence (analyzer/findings/sentences.def has the rules), or into JSON.
 */
#ifndef VT_SENTENCE_H
#define VT_SENTENCE_H

#include "analyzer/findings/said.h"
#include "analyzer/ui/emit.h"

#define SENTENCE_MAX 512

/* Returns buf; "" if nothing is said. What is too long for it is cut. A fact that is missing shows as "?". */
const char *sentence_text(char buf[static SENTENCE_MAX], const struct said *s);

/* What the sentence is called: "leak_of_steps"; NULL if nothing is said. Static. */
const char *sentence_name(enum sentence sentence);

/*
 * A member of an object, or with key NULL an element of an array: { "says": name, each fact by its key }. Bytes have keys that
 * end in "bytes", times such that end in "ns". Null if nothing is said.
 */
void sentence_json(struct emit *e, const char *key, const struct said *s);

/* In words, an element of an array; nothing where nothing is said. */
void sentence_json_text(struct emit *e, const struct said *s);

/* Arrays of several: in words, and as sentence_json() has each; those that say nothing are left out. */
void sentence_json_texts(struct emit *e, const char *key, const struct said *said, size_t nr);
void sentence_json_facts(struct emit *e, const char *key, const struct said *said, size_t nr);

#endif
