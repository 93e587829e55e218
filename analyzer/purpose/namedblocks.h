/* SPDX-License-Identifier: MIT */
/* The blocks of a device at a moment by their names, each with what it is for. */
#ifndef VT_NAMEDBLOCKS_H
#define VT_NAMEDBLOCKS_H

#include "analyzer/names/namegroups.h"
#include "analyzer/purpose/category.h"

/*
 * Put the blocks that categories_find() has found for a moment into groups, by enum category, and what is left of `total`,
 * the bytes that were allocated then, with those that have no name. The groups are to be released.
 */
void namedblocks_find(struct namegroups *g, const struct replay_process *process, const struct categories *c,
		      enum lives_moment moment, uint64_t total);

/* The name of a block at a moment; false: none is known. */
bool namedblocks_name(struct named *out, const struct replay_process *process, const struct life *life,
		      enum lives_moment moment);

/*
 * The outermost container of a variable's that leads to a block, by the latest census that has seen it: a loaded checkpoint.
 * false: none is known.
 */
struct namedblocks_container {
	const struct tfmt_census *census;
	uint32_t object;
	bool is_alone; /* nothing else holds the block */
};
bool namedblocks_container(struct namedblocks_container *out, const struct replay_process *process, const struct life *life);
void namedblocks_container_name(struct objectname *name, const struct namedblocks_container *container);

/*
 * The blocks at a device's peak that the stack of a group (index into the books' groups) has allocated, with what they are
 * called and enum category 0 for all. The groups are to be released.
 */
void namedblocks_of_stack(struct namegroups *g, const struct replay_device *d, uint32_t group);

/* The same of those at any moment that a Python stack has allocated. */
void namedblocks_of_python(struct namegroups *g, const struct replay_device *d, uint32_t python_stack,
			   enum lives_moment moment);

/* Of what tensors held at a device's peak: what has a name, and that whose category no census tells. */
struct namedblocks_share {
	uint64_t named_bytes, inferred_bytes;
};
struct namedblocks_share namedblocks_share(const struct replay_device *d);

#endif
