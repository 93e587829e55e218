/* SPDX-License-Identifier: MIT */
/*
 * Matrices of attention, one weight for each query and key. They are known by the queries and keys that they are
 * the product of: [.., rows, width] and [.., columns, width], or, where those are views of what one layer made,
 * [batch, rows, heads * width]. As many columns as rows are a sequence that looks at itself; else it looks at another.
 */
#ifndef VT_ATTENTION_H
#define VT_ATTENTION_H

#include "analyzer/patterns/moment.h"

/* So many matrices, each rows x columns. */
struct attention_product {
	uint64_t nr, rows, columns;
	uint64_t batch; /* of [batch, heads, rows, columns]; else 0 */
};

struct attention {
	struct attention_product each; /* of the largest kind */
	uint64_t bytes;
	uint64_t masks; /* bytes of those with fewer than `each`: what is added to several, a mask or bias */
	uint32_t nr_blocks;
	size_t largest;
	bool is_asked;      /* the request is one more, or the first */
	bool is_mask_asked; /* and it is for a mask: one for each sample, by fused attention */
	bool varies;        /* masks have fewer than `each` */
	bool has_scores;    /* not all of them are masks of fused attention */
};

/* The matrices of the moment, and whether one more was asked for. */
void attention_find(struct attention *m, const struct moment *at);

bool attention_is_square(const struct attention_product *p);

#endif
