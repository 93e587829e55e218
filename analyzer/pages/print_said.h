/* SPDX-License-Identifier: MIT */
/* What findings say, on a page: in lines that fit on a screen; in JSON the sentence's name and its facts, each in its unit. */
#ifndef VT_PRINT_SAID_H
#define VT_PRINT_SAID_H

#include "analyzer/findings/sentence.h"
#include "analyzer/ui/emit.h"

/*
 * In lines of at most 80 columns, the first after `lead`, the others after `indent`; returns how many they are, 0 if nothing is said.
 * Without an e it only counts them.
 */
unsigned print_said(struct emit *e, const char *lead, const char *indent, struct said said);

/* The same in one line: as a heading, or beside a label. Text alone. */
void print_said_heading(struct emit *e, struct said said);
void print_said_label(struct emit *e, const char *label, struct said said);

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
