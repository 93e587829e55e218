/* SPDX-License-Identifier: MIT */
/* What is asked of the segments and blocks of one device; nothing changes. */
#include "analyzer/allocator/segments.h"

#include <stddef.h>

#include "analyzer/allocator/blocktree.h"

const struct segments_pool *segments_find_pool(const struct segments *s, uint16_t stream, bool small,
					       uint32_t private_id)
{
	for (uint32_t i = 0; i < s->nr_pools; i++) {
		const struct segments_pool *p = &s->pool[i];

		if (p->stream == stream && p->small == small && p->private_id == private_id)
			return p;
	}
	return NULL;
}

static void search_largest(const struct segments *s, uint32_t n, uint32_t pool, uint64_t *most)
{
	if (!n || s->block[n].max_free <= *most)
		return;
	if (blocktree_free_bytes(&s->block[n]) > *most && s->segment[s->block[n].segment].pool == pool)
		*most = s->block[n].size;
	search_largest(s, s->block[n].left, pool, most);
	search_largest(s, s->block[n].right, pool, most);
}

uint64_t segments_largest_of(const struct segments *s, uint32_t pool)
{
	uint64_t most = 0;

	search_largest(s, s->root, pool, &most);
	return most;
}

bool segments_fits(const struct segments *s, uint32_t pool, uint64_t size)
{
	uint64_t most = size - 1; /* what is smaller is not looked at */

	search_largest(s, s->root, pool, &most);
	return most >= size;
}

uint64_t segments_largest_free(const struct segments *s)
{
	return s->root ? s->block[s->root].max_free : 0;
}

void segments_each(const struct segments *s, bool at_mark,
		   void (*fn)(void *ctx, const struct segments_block *b, const struct segment *g), void *ctx)
{
	for (uint32_t n = 1; n <= s->nr_blocks; n++) {
		const struct segments_block *b = &s->block[n];

		if (segments_is_taken(b) && (!at_mark || b->number <= s->mark))
			fn(ctx, b, &s->segment[b->segment]);
	}
	for (size_t i = 0; at_mark && i < s->nr_gone; i++)
		fn(ctx, &s->gone[i].block, &s->gone[i].segment);
}

const struct segments_block *segments_at(const struct segments *s, uint64_t address)
{
	uint32_t n = blocktree_holding(s, address);

	return n ? &s->block[n] : NULL;
}
