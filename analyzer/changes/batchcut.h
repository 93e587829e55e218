/* SPDX-License-Identifier: MIT */
/*
 * Cuts of a batch: fewer samples, or shorter ones, and what each block would have taken then.
 *
 * The *batch* is the first dimension of the largest input of the window that an activation has as well, the *length*
 * its second where it is text (whole numbers of two dimensions), else the one of three dimensions that no parameter
 * has: the others are features. Of sequences that were put together into one tensor, padded, these are how many there
 * are, and the longest one's length.
 */
#ifndef VT_BATCHCUT_H
#define VT_BATCHCUT_H

#include "analyzer/changes/jobpart.h"

#define BATCHCUT_ROWS_MAX 8

struct batchcut {
	size_t input;		/* block */
	uint64_t batch, length; /* of the job as it was; length 0: there is none, or it cannot be told from others */
	bool is_feature;	/* some features are as many as the batch is long */
	uint64_t rows[BATCHCUT_ROWS_MAX]; /* of samples, as they are seen */
	unsigned nr_rows;
	bool of_length;		/* what is cut */
	uint64_t whole, part;	/* it is cut from the one to the other */
};

/* Of the whole batch. false: there is no input. */
bool batchcut_init(struct batchcut *c, const struct jobpart *j);

/*
 * Is most of what forward keeps for pairs of the batch's rows, as [n, n] and [n, n, 48] of [n, 3]? In parts they would be fewer pairs:
 * another result.
 */
bool batchcut_is_of_pairs(const struct batchcut *c, const struct jobpart *j);

/* How often what is cut is a factor of a block's size: 0 where it does not follow it, 2 of matrices of attention by length. */
unsigned batchcut_power(const struct batchcut *c, const struct jobpart *j, size_t block);

/* The bytes of a block, and of the request that failed, with this cut. */
uint64_t batchcut_size(const struct batchcut *c, const struct jobpart *j, size_t block);
uint64_t batchcut_asked(const struct batchcut *c, const struct jobpart *j);

#endif
