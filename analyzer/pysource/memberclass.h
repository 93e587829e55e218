/* SPDX-License-Identifier: MIT */
/*
 * The class whose forward a member of a list runs, by what the source calls to make it: `nn.Conv2d(...)`, a
 * class of the file or its base, what a function of the file returns. And the few forms of text that tell it,
 * all of them in lines that are not terminated.
 */
#ifndef VT_MEMBERCLASS_H
#define VT_MEMBERCLASS_H

#include <stdbool.h>
#include <stdint.h>

#include "analyzer/pysource/sourcetext.h"

#define MEMBERCLASS_MAX 32

/* What is called by this name: becomes the class that runs; "" if nobody knows. */
void memberclass_find(char name[static MEMBERCLASS_MAX], struct sourcetext *sources, const char *file);

/* "nn.Conv2d(" at the beginning of the text (terminated) gives "Conv2d". false if it is no call of a name. */
bool memberclass_of(char out[static MEMBERCLASS_MAX], const char *text);

bool memberclass_is_word(char c);

/* The text begins with the word and, as a whole word, the name behind it. */
bool memberclass_begins(const char *text, size_t len, const char *word, const char *name);

#define MEMBERCLASS_NOWHERE SIZE_MAX

/* The value behind the "=" of an assignment that the text begins with, or the blanks before it; NULL if it does not. */
const char *memberclass_given(const char *text, size_t len);

/* ... of the first assignment in the line; NULL if there is none. An argument by its name is none. */
const char *memberclass_assigned(const char *text, size_t len);

/* Where the value begins that the line gives `name`: nowhere, too, where it is itself ("body = body.cuda()"). */
size_t memberclass_value(const char *text, size_t len, const char *name);

/* Behind "nn.NAME(", which the text begins with; NULL if it does not. */
const char *memberclass_behind(const char *text, size_t len, const char *name);

/* Behind "nn.Sequential(" in "block = lambda i: nn.Sequential(": NULL if the line does not give the name that. */
const char *memberclass_lambda(const char *text, size_t len, const char *name);

#endif
