/* SPDX-License-Identifier: MIT */
/* What findings say, as JSON: the sentence's name and its facts, each in its unit; or in words. */
#ifndef VT_SAIDJSON_H
#define VT_SAIDJSON_H

#include "analyzer/findings/sentence.h"
#include "analyzer/ui/emit.h"

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
