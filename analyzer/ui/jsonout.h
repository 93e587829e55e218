/* SPDX-License-Identifier: MIT */
/*
 * A streaming JSON writer: commas, indentation and escaping. It cannot write an invalid document as long as
 * begin and end calls match and keys are given inside objects. Single-threaded; write errors stay in the FILE
 * (ferror).
 */
#ifndef VT_JSONOUT_H
#define VT_JSONOUT_H

#include <stdbool.h>
#include <stdio.h>

#define JSONOUT_DEPTH_MAX 32

struct jsonout {
	FILE *out;
	bool compact;   /* everything on one line */
	unsigned depth; /* open scopes; scope[0] is outside of all */
	struct {
		bool is_array, has_members;
	} scope[JSONOUT_DEPTH_MAX + 1];
};

/* Open an object ('{') or array ('['). Deeper than JSONOUT_DEPTH_MAX aborts: that is a bug of the caller. */
void jsonout_begin(struct jsonout *j, const char *key, char bracket);

/* Close the innermost scope; after the outermost one the line ends. */
void jsonout_end(struct jsonout *j);

/* A value that is JSON already (a number, true, null), and a string of any bytes (NULL = null). */
void jsonout_value(struct jsonout *j, const char *key, const char *json);
void jsonout_string(struct jsonout *j, const char *key, const char *text);

/* Are members of the current scope without keys? */
bool jsonout_in_array(const struct jsonout *j);

#endif
