/* SPDX-License-Identifier: MIT */
/* Tensors of the length before that are there beside the next ones. */
#include "analyzer/patterns/generations.h"

static bool is_long(const struct moment *at, size_t i, const struct growingtensor_series *s, uint64_t length)
{
	const struct tfmt_shape *shape = &at->block[i].shape;

	return at->block[i].is_shaped && shape->nr_dims > s->dim && shape->dims[s->dim] == length;
}

/* How many tensors of this block's line and module, among the first `nr` blocks, are so long? */
static uint32_t nr_long(const struct moment *at, size_t nr, size_t of, const struct growingtensor_series *s, uint64_t length)
{
	const struct category_block *b = at->live;
	uint32_t found = 0;

	for (size_t i = 0; i < nr; i++)
		found += b[i].module == b[of].module && moment_group(at, i)->python_stack == moment_group(at, of)->python_stack &&
			 is_long(at, i, s, length);
	return found;
}

uint32_t generations_find(const struct moment *at, const struct growingtensor_series *s, uint64_t *bytes)
{
	uint32_t nr = 0;

	*bytes = 0;
	for (size_t i = 0; i < at->nr_blocks; i++) {
		if (!at->live[i].module || !is_long(at, i, s, s->last - s->by) ||
		    nr_long(at, i, i, s, s->last - s->by) >= nr_long(at, at->nr_blocks, i, s, s->last))
			continue;
		nr++;
		*bytes += at->live[i].life.size;
	}
	return nr;
}
