/* SPDX-License-Identifier: MIT */
/* Lines of Python source as text: words, names, brackets, parameters, arguments. What callsite.h reads with. */
#ifndef VT_CALLTEXT_H
#define VT_CALLTEXT_H

#include "analyzer/pysource/callsite.h"

#define CALLTEXT_MAX 1024

bool calltext_is_name(char c);

/* A line, terminated and without leading blanks; false if it cannot be had. */
bool calltext_line(char buf[static CALLTEXT_MAX], struct sourcetext *s, const struct tfmt_code *code, uint32_t line);

/* How many blanks a line begins with; SIZE_MAX of one that has nothing else, or cannot be had. */
size_t calltext_indentation(struct sourcetext *s, const struct tfmt_code *code, uint32_t line);

/* `text` begins with this name as a whole word. */
bool calltext_begins_with(const char *text, const char *name, size_t len);

/* Whole words only; NULL if there is none. */
const char *calltext_find_word(const char *text, const char *word);

/* Brackets that are opened less those that are closed. */
int calltext_open_brackets(const char *text, size_t len);

/*
 * The nr-th of what the text lists, up to the bracket that closes it, or its end: *len characters, blanks
 * around it left out. NULL if there are not so many.
 */
const char *calltext_listed(const char *text, uint32_t nr, size_t *len);

/* What follows "self." at the beginning of the text; NULL if it does not begin so. */
const char *calltext_member_of(const char *text, const char *owner);

void calltext_copy(char out[static CALLSITE_NAME_MAX], const char *from, size_t len);

/* What a method calls its own object: "self", or what else its first parameter is called. */
void calltext_owner(char out[static CALLSITE_NAME_MAX], struct sourcetext *s, const struct tfmt_code *code);

/* The line from which on names of this code may be bound: of the function around it, if it is within one. */
uint32_t calltext_first_line(struct sourcetext *s, const struct tfmt_code *code);

/* Which of the function's parameters has this name, 0 the first behind a method's own object; -1: none. */
int calltext_parameter(struct sourcetext *s, const struct tfmt_code *code, const char *name, size_t len);

/*
 * The function that this code's is defined in, as a code that calltext_parameter() reads; `name` keeps its
 * name. false: it is defined in none.
 */
bool calltext_enclosing(struct tfmt_code *outer, char name[static CALLTEXT_MAX], struct sourcetext *s,
			const struct tfmt_code *code);

/* "run" of "Net.run" and "run"; *len its length. */
const char *calltext_function(const struct tfmt_code *code, size_t *len);

#endif
