/* SPDX-License-Identifier: MIT */
/*
 * What patterns look at: the tensors' blocks that were live on a device at one moment, and the request that failed then.
 *
 * Nothing here is decided; a pattern that is found is a fact about these blocks, and what it means for the program is said
 * by the room that has asked.
 */
#ifndef VT_MOMENT_H
#define VT_MOMENT_H

#include "analyzer/purpose/category.h"

/* What a block is beside its life and category. */
struct moment_block {
	uint32_t place;          /* of the lines that hold blocks: its index */
	struct tfmt_shape shape; /* nr_dims 0: not known, or a scalar */
	bool is_shaped;
	bool has_graph; /* allocated by a forward call that made autograd nodes */
	bool is_native; /* a census saw its tensor, which no object of Python's holds: autograd does, or a library */
	bool is_detached; /* a census saw that an object of Python's holds it, though made for a graph, without a grad_fn */
	bool is_unseen; /* censuses have seen no tensor of it: no variable of the program leads to one */
};

struct moment_request {
	uint64_t bytes; /* 0: none failed */
	uint32_t python_stack;
	enum phase phase;
	const char *operation; /* that asked, as ATen names it: "bmm"; "" = not known */
};

struct moment {
	const struct replay_device *device;
	const struct category_block *live;  /* by order of allocation */
	const struct moment_block *block;   /* as live */
	size_t nr_blocks, nr_places;
	uint64_t allocated;    /* bytes */
	uint32_t step;         /* 1 the first; 0 = there are none */
	uint64_t step_ordinal; /* where that step begins */
	uint32_t nr_begun;     /* backward passes that had begun */
	struct moment_request request;
};

/* Whose blocks this one is among: its stacks, its shape. */
const struct group *moment_group(const struct moment *at, size_t block);

/* How blocks like this one have fared so far; NULL: none has been freed. */
const struct lives_fates *moment_fates(const struct moment *at, size_t block);

/* Is a graph of autograd's known to hold a block, by the call that made it, or by a census? */
bool moment_is_in_graph(const struct moment *at, size_t block);

/* Neither part of the model nor made for its update. */
bool moment_is_passing(enum category c);

/* The product of the first dimensions of a shape. */
uint64_t moment_elements(const struct tfmt_shape *s, uint32_t nr_dims);

#endif
