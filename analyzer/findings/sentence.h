/* SPDX-License-Identifier: MIT */
/* sentence: puts the facts of a finding into its sentence (sentences.def has the rules). */
#ifndef VT_SENTENCE_H
#define VT_SENTENCE_H

#include "analyzer/findings/said.h"

#define SENTENCE_MAX 1024

/* Returns buf; "" if nothing is said. What is too long for it is cut. A fact that is missing shows as "?". */
const char *sentence_text(char buf[static SENTENCE_MAX], const struct said *s);

/* The words of a sentence that has no facts: "a step". Static. */
const char *sentence_words(enum sentence sentence);

/* What the sentence is called: "leak_of_steps"; NULL if nothing is said. Static. */
const char *sentence_name(enum sentence sentence);

#endif
