/* SPDX-License-Identifier: MIT */
/*
 * TOML files, as a tree of C structs; toml++ reads them (toml.cc, the only C++ here).
 *
 * Single-threaded. The tree belongs to the file: toml_close() frees all of it.
 */
#ifndef VT_TOML_H
#define VT_TOML_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum toml_type {
	TOML_TABLE,
	TOML_ARRAY,
	TOML_STRING,
	TOML_INTEGER,
	TOML_FLOAT,
	TOML_BOOLEAN,
	TOML_TIME, /* dates and times: their value is not offered */
};

/* What messages call a type: "a table", "a string" ... */
const char *toml_type_name(enum toml_type type);

struct toml_node {
	const char *key; /* NULL in an array */
	enum toml_type type;
	unsigned line, column; /* from 1 */
	const char *string;    /* TOML_STRING, NUL-terminated */
	int64_t integer;       /* TOML_INTEGER */
	double number;         /* TOML_FLOAT, and TOML_INTEGER as a double */
	bool boolean;          /* TOML_BOOLEAN */
	struct toml_node *first; /* member of a table or an array, in order of the file */
	struct toml_node *next;	 /* sibling */
};

struct toml_file;

/*
 * Read PATH. Returns the file with *root set to its top table, or NULL with *reason (malloc'ed, the caller
 * frees it; NULL when there is no memory for it) and *line, 0 when the file could not be read at all.
 */
struct toml_file *toml_open(const char *path, const struct toml_node **root, char **reason, unsigned *line);

void toml_close(struct toml_file *file);

#ifdef __cplusplus
}
#endif

#endif
