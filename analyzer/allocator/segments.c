/* SPDX-License-Identifier: MIT */
/* Segments and blocks of one device, and what their bytes add up to. */
#include "analyzer/allocator/segments.h"

#include <stdlib.h>

#include "analyzer/allocator/blocktree.h"
#include "analyzer/allocator/torch.h"
#include "analyzer/base/heap.h"

void segments_release(struct segments *s)
{
	free(s->block);
	free(s->segment);
	free(s->pool);
	free(s->reservation);
	free(s->gone);
	*s = (struct segments){ 0 };
}

/* ---- looking for blocks ------------------------------------------------------------------------- */

static uint32_t find_exact(const struct segments *s, uint64_t address)
{
	uint32_t n = blocktree_floor(s, address);

	return n && s->block[n].address == address ? n : 0;
}

/* ---- what is counted ---------------------------------------------------------------------------- */

/* Bytes of a free block that the allocator could give back to the driver. */
static uint64_t whole_bytes(const struct segment *g, const struct segments_block *b)
{
	uint64_t from, to;

	if (!g->page_bytes)
		return b->size == g->size ? b->size : 0;
	from = (b->address - g->address + g->page_bytes - 1) / g->page_bytes;
	to = (b->address + b->size - g->address) / g->page_bytes;
	return to > from ? (to - from) * g->page_bytes : 0;
}

/* A block enters the totals (sign 1) or leaves them (-1: as unsigned arithmetic has it). */
static void count(struct segments *s, uint32_t n, uint64_t sign)
{
	const struct segments_block *b = &s->block[n];
	struct segment *g = &s->segment[b->segment];
	struct segments_pool *pool;
	uint64_t whole;

	if (b->state == SEGMENTS_IDLE)
		return;
	if (b->state != SEGMENTS_FREE) {
		g->nr_blocks += (uint32_t)sign;
		*(b->state == SEGMENTS_LIVE ? &s->live_bytes : &s->pending_bytes) += sign * b->size;
		if (b->requested) {
			s->requested_bytes += sign * b->requested;
			s->known_bytes += sign * b->size;
		}
		return;
	}
	pool = &s->pool[g->pool];
	whole = whole_bytes(g, b);
	s->free_bytes += sign * b->size;
	s->whole_bytes += sign * whole;
	pool->free_bytes += sign * b->size;
	pool->whole_bytes += sign * whole;
	if (pool->private_id != SEGMENTS_SHARED && pool->private_id != SEGMENTS_OTHER)
		s->held_bytes += sign * whole;
	if (!g->page_bytes)
		s->split_bytes += sign * (b->size - whole);
}

/* ---- blocks and segments ------------------------------------------------------------------------ */

static uint32_t block_new(struct segments *s)
{
	uint32_t n = s->free_block;

	if (n) {
		s->free_block = s->block[n].left;
		return n;
	}
	s->block = heap_grow(s->block, &s->blocks_room, (size_t)s->nr_blocks + 2, sizeof(*s->block));
	if (!s->nr_blocks)
		s->block[0] = (struct segments_block){ 0 };
	return ++s->nr_blocks;
}

/* Its number; 0: it would have no size. */
static uint32_t add_block(struct segments *s, uint64_t address, uint64_t size, uint32_t segment, uint8_t state)
{
	uint32_t n;

	if (!size)
		return 0;
	n = block_new(s);
	s->random = s->random * 1664525 + 1013904223;
	s->block[n] = (struct segments_block){
		.address = address, .size = size, .priority = s->random, .segment = segment, .state = state
	};
	s->root = blocktree_insert(s, s->root, n);
	count(s, n, 1);
	return n;
}

/* A block ends; if it was live at the mark it is kept as it was. */
static void bury(struct segments *s, uint32_t n)
{
	const struct segments_block *b = &s->block[n];

	if (!segments_is_taken(b) || b->number > s->mark)
		return;
	s->gone = heap_grow(s->gone, &s->gone_room, s->nr_gone + 1, sizeof(*s->gone));
	s->gone[s->nr_gone++] = (struct segments_gone){ *b, s->segment[b->segment] };
}

static void drop_block(struct segments *s, uint32_t n)
{
	bury(s, n);
	count(s, n, -1ull);
	s->root = blocktree_remove(s, s->root, n);
	s->block[n] = (struct segments_block){ .left = s->free_block };
	s->free_block = n;
}

/* A block changes: leave the totals, change, enter them again. */
static void set_block(struct segments *s, uint32_t n, uint64_t size, uint8_t state)
{
	count(s, n, -1ull);
	s->block[n].size = size;
	s->block[n].state = state;
	count(s, n, 1);
	blocktree_changed(s, s->root, n);
}

/* Index + 1 of a new segment. */
static uint32_t segment_new(struct segments *s, uint64_t address, uint64_t size, uint64_t page_bytes)
{
	uint32_t index = s->free_segment;

	if (index) {
		s->free_segment = s->segment[index - 1].pool;
	} else {
		s->segment = heap_grow(s->segment, &s->segments_room, (size_t)s->nr_segments + 1, sizeof(*s->segment));
		index = ++s->nr_segments;
	}
	s->segment[index - 1] = (struct segment){ .address = address, .size = size, .page_bytes = page_bytes };
	return index;
}

static void segment_drop(struct segments *s, uint32_t index)
{
	struct segment *g = &s->segment[index];

	if (g->used)
		s->nr_used--;
	s->forced_bytes -= g->forced_bytes;
	*g = (struct segment){ .gone = true, .pool = s->free_segment };
	s->free_segment = index + 1;
}

static uint32_t pool_get(struct segments *s, uint16_t stream, bool small, uint32_t private_id)
{
	const struct segments_pool *known = segments_find_pool(s, stream, small, private_id);

	if (known)
		return (uint32_t)(known - s->pool);
	s->pool = heap_grow(s->pool, &s->pools_room, (size_t)s->nr_pools + 1, sizeof(*s->pool));
	s->pool[s->nr_pools] =
	    (struct segments_pool){ .stream = stream, .small = small, .private_id = private_id };
	return s->nr_pools++;
}

/* ---- driver memory ------------------------------------------------------------------------------ */

void segments_take(struct segments *s, uint64_t address, uint64_t size)
{
	uint32_t index;

	if (!size || size > UINT64_MAX - address)
		return;
	segments_give(s, address, size); /* whatever lay there has gone unseen */
	index = segment_new(s, address, size, 0);
	add_block(s, address, size, index - 1, SEGMENTS_IDLE);
}

void segments_reserve(struct segments *s, uint64_t address, uint64_t size)
{
	segments_unreserve(s, address);
	s->reservation = heap_grow(s->reservation, &s->reservations_room, (size_t)s->nr_reservations + 1,
				   sizeof(*s->reservation));
	s->reservation[s->nr_reservations++] = (struct segments_reservation){ .address = address, .size = size };
}

static struct segments_reservation *reservation_of(struct segments *s, uint64_t address)
{
	for (uint32_t i = s->nr_reservations; i-- > 0;)
		if (address - s->reservation[i].address < s->reservation[i].size)
			return &s->reservation[i];
	return NULL;
}

void segments_unreserve(struct segments *s, uint64_t address)
{
	for (uint32_t i = 0; i < s->nr_reservations; i++) {
		struct segments_reservation *r = &s->reservation[i];

		if (r->address != address)
			continue;
		if (r->segment) {
			segments_give(s, r->address, r->size);
			segment_drop(s, r->segment - 1);
		}
		*r = s->reservation[--s->nr_reservations];
		return;
	}
}

/* Join a free block with the free one after it. */
static void join_next(struct segments *s, uint32_t n)
{
	uint64_t end = s->block[n].address + s->block[n].size;
	uint32_t next = find_exact(s, end);
	uint64_t size;

	if (!next || s->block[next].segment != s->block[n].segment || s->block[next].state != s->block[n].state)
		return;
	size = s->block[next].size;
	drop_block(s, next);
	set_block(s, n, s->block[n].size + size, s->block[n].state);
}

static void join_neighbours(struct segments *s, uint32_t n)
{
	uint32_t before = s->block[n].address ? blocktree_holding(s, s->block[n].address - 1) : 0;

	join_next(s, n);
	if (before && s->block[before].segment == s->block[n].segment && s->block[before].state == s->block[n].state)
		join_next(s, before);
}

void segments_map(struct segments *s, uint64_t address, uint64_t size)
{
	struct segments_reservation *r = reservation_of(s, address);
	struct segment *g;
	uint32_t n;

	if (!size || size > UINT64_MAX - address)
		return;
	if (!r) { /* nobody saw the addresses being reserved: as if it were a segment of its own */
		segments_take(s, address, size);
		return;
	}
	segments_give(s, address, size);
	if (!r->segment)
		r->segment = segment_new(s, r->address, 0, size);
	g = &s->segment[r->segment - 1];
	g->size += size;
	g->grown_bytes += size;
	if (g->used)
		s->reserved_bytes += size;
	add_block(s, address, size, r->segment - 1, g->used ? SEGMENTS_FREE : SEGMENTS_IDLE);
	n = find_exact(s, address);
	if (n)
		join_neighbours(s, n);
}

/* The last block that begins in [from, to) or reaches into it; 0 = none. */
static uint32_t last_within(const struct segments *s, uint64_t from, uint64_t to)
{
	uint32_t n = to > from ? blocktree_floor(s, to - 1) : 0;

	return n && s->block[n].address + s->block[n].size > from ? n : 0;
}

/* An allocation of the driver's is freed as a whole, with all that lies in it. */
static void segment_give(struct segments *s, uint32_t index)
{
	const struct segment *g = &s->segment[index];
	uint32_t n;

	while ((n = last_within(s, g->address, g->address + g->size)))
		drop_block(s, n);
	if (g->used)
		s->reserved_bytes -= g->size;
	segment_drop(s, index);
}

/* [from, to) of a block, which is in an expandable segment, is mapped no more. */
static void page_give(struct segments *s, uint32_t n, uint64_t from, uint64_t to)
{
	struct segments_block b = s->block[n];
	struct segment *g = &s->segment[b.segment];
	uint8_t rest = g->used ? SEGMENTS_FREE : SEGMENTS_IDLE; /* a live block has gone unseen */

	drop_block(s, n);
	if (from > b.address)
		add_block(s, b.address, from - b.address, b.segment, rest);
	if (b.address + b.size > to)
		add_block(s, to, b.address + b.size - to, b.segment, rest);
	g->size -= to - from;
	if (g->used)
		s->reserved_bytes -= to - from;
	g->grown_bytes -= g->grown_bytes < to - from ? g->grown_bytes : to - from;
	s->forced_bytes -= g->forced_bytes < to - from ? g->forced_bytes : to - from;
	g->forced_bytes -= g->forced_bytes < to - from ? g->forced_bytes : to - from;
}

void segments_give(struct segments *s, uint64_t address, uint64_t size)
{
	uint64_t end = address + size;
	uint32_t n;

	while ((n = last_within(s, address, end))) {
		const struct segments_block *b = &s->block[n];
		uint64_t from = b->address > address ? b->address : address;
		uint64_t to = b->address + b->size < end ? b->address + b->size : end;

		if (s->segment[b->segment].page_bytes)
			page_give(s, n, from, to);
		else
			segment_give(s, b->segment);
		end = from;
	}
}

/* ---- tensors ------------------------------------------------------------------------------------ */

/* A segment's first tensor: from now on it is the allocator's, and serves this tensor's pool. */
static void segment_use(struct segments *s, uint32_t index, uint32_t pool)
{
	struct segment *g = &s->segment[index];
	const struct segments_reservation *r = g->page_bytes ? reservation_of(s, g->address) : NULL;
	uint64_t end = g->address + (r ? r->size : g->size);
	uint32_t n;

	g->pool = pool;
	g->used = true;
	s->nr_used++;
	s->reserved_bytes += g->size;
	while ((n = last_within(s, g->address, end))) {
		end = s->block[n].address;
		set_block(s, n, s->block[n].size, SEGMENTS_FREE);
	}
}

static void release_block(struct segments *s, uint32_t n)
{
	bury(s, n);
	set_block(s, n, s->block[n].size, SEGMENTS_FREE);
	join_neighbours(s, n);
}

/* The free block that holds all of the request; blocks in its way were freed unseen. 0 = there is none. */
static uint32_t make_room(struct segments *s, const struct segments_request *r)
{
	uint32_t n = blocktree_holding(s, r->address), next;

	if (!n || !r->size || r->size > UINT64_MAX - r->address)
		return 0;
	if (s->block[n].state != SEGMENTS_FREE && s->block[n].state != SEGMENTS_IDLE) {
		release_block(s, n);
		n = blocktree_holding(s, r->address);
	}
	while (s->block[n].address + s->block[n].size < r->address + r->size) {
		next = find_exact(s, s->block[n].address + s->block[n].size);
		if (!next || s->block[next].segment != s->block[n].segment || s->block[n].state == SEGMENTS_IDLE)
			return 0;
		release_block(s, next);
		n = blocktree_holding(s, r->address);
	}
	return n;
}

/* What the request's pool has, before the segment it lies in is used for it. */
static struct segments_outcome outcome_of(struct segments *s, const struct segments_request *r, uint32_t index)
{
	struct segment *g = &s->segment[index];
	bool small = r->size <= TORCH_SMALL_MAX;
	const struct segments_pool *pool =
	    g->used ? &s->pool[g->pool] : segments_find_pool(s, r->stream, small, r->private_id);
	struct segments_outcome o = { .placed = true, .segment = index };
	uint64_t whole;

	o.grown_bytes = g->used ? g->grown_bytes : g->size;
	g->grown_bytes = 0;
	if (!o.grown_bytes || !pool)
		return o;
	o.free_before = pool->free_bytes;
	whole = pool->whole_bytes;
	if (g->used) { /* the new pages are in the figures already */
		o.free_before -= o.grown_bytes < o.free_before ? o.grown_bytes : o.free_before;
		whole -= o.grown_bytes < whole ? o.grown_bytes : whole;
	} else {
		o.fitted = segments_fits(s, (uint32_t)(pool - s->pool), r->size);
	}
	o.stuck_before = o.free_before > whole ? o.free_before - whole : 0;
	return o;
}

/* The request's block, cut out of a free one that holds all of it: what is free before and after it stays. */
static void hand_out(struct segments *s, const struct segments_request *r, uint32_t n)
{
	const struct segments_block b = s->block[n];
	uint64_t before = r->address - b.address;

	if (before) {
		set_block(s, n, before, SEGMENTS_FREE);
		n = add_block(s, r->address, r->size, b.segment, SEGMENTS_IDLE);
	}
	s->block[n].requested = r->requested && r->requested <= r->size ? r->requested : 0;
	s->block[n].since_ns = r->time_ns;
	s->block[n].group = r->group;
	s->block[n].number = ++s->number;
	set_block(s, n, r->size, SEGMENTS_LIVE);
	add_block(s, r->address + r->size, b.size - before - r->size, b.segment, SEGMENTS_FREE);
}

struct segments_outcome segments_alloc(struct segments *s, const struct segments_request *r)
{
	uint32_t n = make_room(s, r), index;
	struct segments_outcome o;

	if (!n) {
		s->unplaced_bytes += r->size;
		return (struct segments_outcome){ 0 };
	}
	index = s->block[n].segment;
	o = outcome_of(s, r, index);
	if (!s->segment[index].used) {
		bool other = o.fitted && r->private_id == SEGMENTS_SHARED;

		segment_use(s, index,
			    pool_get(s, r->stream, r->size <= TORCH_SMALL_MAX,
				     other ? SEGMENTS_OTHER : r->private_id));
	}
	hand_out(s, r, n);
	return o;
}

void segments_free(struct segments *s, uint64_t address, bool pending)
{
	uint32_t n = find_exact(s, address);

	if (!n || s->block[n].state != SEGMENTS_LIVE)
		return;
	if (pending)
		set_block(s, n, s->block[n].size, SEGMENTS_PENDING);
	else
		release_block(s, n);
}

void segments_complete(struct segments *s, uint64_t address)
{
	uint32_t n = find_exact(s, address);

	if (n && s->block[n].state == SEGMENTS_PENDING)
		release_block(s, n);
}

void segments_force(struct segments *s, uint32_t segment, uint64_t bytes)
{
	s->segment[segment].forced_bytes += bytes;
	s->forced_bytes += bytes;
}

void segments_mark(struct segments *s)
{
	s->mark = s->number;
	s->nr_gone = 0;
}
