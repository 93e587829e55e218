/* SPDX-License-Identifier: MIT */
/*
 * JSON documents that commands print, made side by side: each command runs in a process of its own, a copy of this one
 * that never returns, and leaves what it writes in memory. So a command that fails takes nothing else along.
 */
#ifndef VT_DOCUMENTS_H
#define VT_DOCUMENTS_H

#include <stdbool.h>
#include <stddef.h>

#define DOCUMENTS_ARGUMENTS 8

/* A document that is wanted. Zero all but the first three. */
struct document {
	const char *name;                          /* in the page */
	int (*run)(int argc, const char **argv);   /* the command; results on stdout, messages on stderr */
	const char *argument[DOCUMENTS_ARGUMENTS]; /* NULL-terminated, argument[0] the command's name */

	char *text;     /* what it printed if that is a whole JSON text, compact; else NULL */
	char *message;  /* what it said, its lines joined; "" = nothing */
	int status;     /* exit status; 128 + N after signal N */
	int out, err, process; /* private */
};

/* Run them, as many at once as there are processors, and wait for all. Nothing may be buffered for stdout. */
void documents_run(struct document *d, size_t nr);
void documents_release(struct document *d, size_t nr);

#endif
