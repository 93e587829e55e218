/* SPDX-License-Identifier: MIT */
/*
 * Holders of memory (holders/holders.h) as rows of a table: figures, shapes, and the stack that allocated
 * them.
 */
#ifndef VT_PRINT_HOLDERS_H
#define VT_PRINT_HOLDERS_H

#include "analyzer/holders/holders.h"
#include "analyzer/replay/replay.h"
#include "analyzer/ui/emit.h"

/*
 * Where the blocks of a holder come from, in words: "allocated at train.py:31 in __init__", or why that is
 * not known. Returns buf.
 */
const char *print_origin(char *buf, size_t size, const struct replay *m, struct replay_process *p,
			 const struct holder *h);

struct print_holders_options {
	uint64_t top;       /* rows at most; 0 = all */
	uint64_t min_bytes; /* rows smaller than this are left out */
	bool verbose;       /* whole stacks and paths */
	bool tidy;          /* verbose, but with short paths, and frames that only wrap a module's call are counted */
	bool by_site;       /* for the first page: one line each, the origin in place of shapes and a stack */
	uint32_t frames;    /* of the program's own below each row, unless verbose; 0 = the usual 6 */
};

/* Begin, fill and end the table "groups"; rows of several processes and devices may follow one another. */
void print_holders_begin(struct emit *e);

/* The same for the first page, `what` for the head of the column of origins; it must live until the end. */
void print_holders_page_begin(struct emit *e, const char *what);
void print_holders_rows(struct emit *e, const struct replay *m, const struct holders_query *q,
			const struct holders *h, const struct print_holders_options *o);
void print_holders_end(struct emit *e);

#endif
