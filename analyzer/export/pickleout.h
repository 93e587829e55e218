/* SPDX-License-Identifier: MIT */
/*
 * A Python pickle, protocol 4, with those opcodes alone that the viewer of PyTorch's snapshots understands. Values go on the
 * pickle machine's stack; a list or dictionary is begun empty and filled in batches. What is kept in its memo has a number
 * from 1, and is named by that from then on.
 */
#ifndef VT_PICKLEOUT_H
#define VT_PICKLEOUT_H

#include <stdint.h>
#include <stdio.h>

enum pickleout_op {
	PICKLE_MARK = '(',      /* begin a batch of items, or of keys and values */
	PICKLE_LIST = ']',      /* an empty list */
	PICKLE_DICT = '}',      /* an empty dictionary */
	PICKLE_APPENDS = 'e',   /* put the batch into the list below the mark */
	PICKLE_SETITEMS = 'u',  /* put the batch into the dictionary below the mark */
	PICKLE_SETITEM = 's',   /* put a key and a value into the dictionary below them */
	PICKLE_TUPLE2 = 0x86,   /* of the last two values */
	PICKLE_TRUE = 0x88,
	PICKLE_FALSE = 0x89,
	PICKLE_STOP = '.',
};

/* Zero but for `out` before first use. */
struct pickleout {
	FILE *out;
	uint32_t nr_memo;
};

void pickleout_begin(struct pickleout *p);
static inline void pickleout_op(struct pickleout *p, enum pickleout_op op)
{
	putc_unlocked(op, p->out);
}

void pickleout_number(struct pickleout *p, uint64_t value);

/* What of the text is not UTF-8 becomes '?'. */
void pickleout_text(struct pickleout *p, const char *text);

/* Keep the value on top of the stack in the memo; returns its number. */
uint32_t pickleout_keep(struct pickleout *p);
void pickleout_get(struct pickleout *p, uint32_t number);

/* The text that is kept under *number, which is 0 before it has been written. */
static inline void pickleout_shared_text(struct pickleout *p, uint32_t *number, const char *text)
{
	if (*number) {
		pickleout_get(p, *number);
		return;
	}
	pickleout_text(p, text);
	*number = pickleout_keep(p);
}

#endif
