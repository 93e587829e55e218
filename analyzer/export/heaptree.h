/* SPDX-License-Identifier: MIT */
/*
 * A tree of bytes by stack, as massif has it: below the top the frames that allocated, below each its callers. What is
 * less than a hundredth of the top is one line.
 */
#ifndef VT_HEAPTREE_H
#define VT_HEAPTREE_H

#include <stdio.h>

#include "analyzer/export/stackframes.h"

struct heaptree_node {
	uint32_t parent; /* the top is 0 */
	uint64_t bytes;
	struct frame frame;
};

/* Zero before first use. */
struct heaptree {
	struct heaptree_node *node; /* [0] is the top */
	size_t nr_nodes;

	/* private */
	size_t room;
	struct keyset keys; /* parent and frame */
};

/* Begin a new tree. */
void heaptree_clear(struct heaptree *t);

/* Add bytes of a stack, whose frames must live until the tree is cleared; older frames of deep ones are left out. */
void heaptree_add(struct heaptree *t, const struct frames *f, uint64_t bytes);

/* Write it; `title` is the top's text. */
void heaptree_write(const struct heaptree *t, FILE *out, const char *title);
void heaptree_release(struct heaptree *t);

#endif
