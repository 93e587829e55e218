/* SPDX-License-Identifier: MIT */
/*
 * The keys of a config.json (Hugging Face's). What is wrong with one is kept for one message: the caller looks at
 * *wrong when it has read all.
 */
#ifndef VT_MODELKEYS_H
#define VT_MODELKEYS_H

#include <json-c/json.h>
#include <stdbool.h>

struct modelkeys {
	struct json_object *object;
	const char **wrong; /* the name of a key whose value no model can have; NULL: none */
};

/* A key's value; NULL: it is not there, or null. */
struct json_object *modelkeys_find(const struct modelkeys *k, const char *name);

/* The first of up to three names (NULL: fewer) that is there, a whole number of at least 0; `otherwise`: none is. */
double modelkeys_number(const struct modelkeys *k, double otherwise, const char *a, const char *b, const char *c);

/* The same, of at least 1. */
double modelkeys_size(const struct modelkeys *k, double otherwise, const char *a, const char *b, const char *c);
bool modelkeys_flag(const struct modelkeys *k, const char *name, bool otherwise);
const char *modelkeys_text(const struct modelkeys *k, const char *name); /* "": none */

/* Ends the name of the class that the file was written by ("BertForMaskedLM") so? `otherwise`: where it does not say. */
bool modelkeys_is_class(const struct modelkeys *k, const char *end, const char *otherwise);

/* How many labels a classifier tells apart; 2 where the file does not say, as in transformers. */
double modelkeys_labels(const struct modelkeys *k);

#endif
