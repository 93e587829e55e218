/* SPDX-License-Identifier: MIT */
/*
 * Functions and lines of native addresses, read from the files that the traced process had mapped.
 *
 * Files are found by their recorded path and believed only if their build id is the recorded one: a library
 * that was rebuilt since would name wrong lines. Separate debug information is used where the system has it.
 * Nothing is looked up before it is asked for, and every answer is kept.
 */
#ifndef VT_SYMBOLS_H
#define VT_SYMBOLS_H

#include "tracefmt/tracefmt.h"

struct symbols;

/* What is known of one address. Strings belong to the symbols and live as long. */
struct symbol {
	const char *function; /* demangled, the innermost inlined one; NULL if unknown */
	const char *file;     /* NULL if unknown */
	uint32_t line;        /* 0 if unknown */
};

/* To be given to symbols_free(). */
struct symbols *symbols_new(void);
void symbols_free(struct symbols *s);

/*
 * The symbol at `address` of `module`, which may be NULL (nothing is known then). For a return address
 * the caller passes the address less 1, inside the call. Never fails: what is not known is NULL or 0.
 */
struct symbol symbols_find(struct symbols *s, const struct tfmt_module *module, uint64_t address);

#endif
