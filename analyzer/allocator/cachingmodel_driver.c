/* SPDX-License-Identifier: MIT */
/* How the model takes memory from the driver and gives it back: segments, and pages of expandable ones. */
#include "analyzer/allocator/cachingmodel_inside.h"

#include <stdlib.h>

#include "analyzer/allocator/torch.h"
#include "analyzer/base/heap.h"

#define ENDLESS_BYTES (2 * ALLOCCONF_REQUEST_MAX) /* addresses of an expandable segment where the GPU has no end */

/* ---- what there is ------------------------------------------------------------------------------ */

/* Bytes that the driver would still give. */
static uint64_t left(const struct cachingmodel *m)
{
	uint64_t used = m->figures.reserved + m->others;

	if (!m->capacity)
		return UINT64_MAX;
	return used < m->capacity ? m->capacity - used : 0;
}

static void reserve(struct cachingmodel *m, uint64_t bytes, uint64_t calls)
{
	struct cachingmodel_figures *f = &m->figures;

	f->reserved += bytes;
	f->takes += calls;
	if (f->reserved <= f->peak_reserved)
		return;
	f->peak_reserved = f->reserved;
	m->at_peak = true;
}

static uint64_t page_bytes(const struct cachingmodel *m, const struct modelblock *b)
{
	return m->pool[m->list[b->list].pool].small ? TORCH_SMALL_SEGMENT : m->conf.large_segment_bytes;
}

/* ---- ordinary segments -------------------------------------------------------------------------- */

static uint32_t take_segment(struct cachingmodel *m, uint32_t list, uint64_t size, const struct cachingmodel_request *r)
{
	uint64_t charged = (size + TORCH_DRIVER_GRANULE - 1) / TORCH_DRIVER_GRANULE * TORCH_DRIVER_GRANULE, address;

	if (charged > left(m) || charged > m->next_address)
		return 0;
	address = r->segment && r->segment_bytes == size ? r->segment : (m->next_address -= charged);
	reserve(m, size, 1);
	return modelblock_new(m, list, address, size);
}

static bool is_whole(const struct modelblock *b)
{
	return !b->arena && !b->prev && !b->next;
}

/* A free block that is all of its segment goes back. */
static void give_segment(struct cachingmodel *m, uint32_t n)
{
	modelblock_take_free(m, n);
	m->figures.reserved -= m->block[n].size;
	m->figures.gives++;
	modelblock_drop(m, n);
}

/* ---- expandable segments ------------------------------------------------------------------------ */

/* A range that holds so much, as one unmapped block; 0: no range does. */
static uint32_t new_arena(struct cachingmodel *m, uint32_t list, uint64_t least)
{
	uint64_t total = m->capacity ? m->capacity + m->capacity / 8 : ENDLESS_BYTES, page, size;
	uint32_t n = modelblock_new(m, list, 0, 0);

	page = page_bytes(m, &m->block[n]);
	size = (total + page - 1) / page * page;
	if (size < least || size > m->next_address) {
		modelblock_drop(m, n);
		return 0;
	}
	m->next_address -= size;
	m->arena = heap_grow(m->arena, &m->arenas_room, (size_t)m->nr_arenas + 1, sizeof(*m->arena));
	m->arena[m->nr_arenas++] = (struct modelarena){ m->next_address, size, false };
	m->block[n].address = m->next_address;
	m->block[n].size = size;
	m->block[n].arena = m->nr_arenas;
	m->block[n].mapped = false;
	modelblock_add_free(m, n);
	return n;
}

static bool is_free(const struct cachingmodel *m, uint32_t n)
{
	return n && !m->block[n].allocated && !m->block[n].pending;
}

/* Do this block and those after it, free or unmapped, add up to so much? */
static bool has_room(const struct cachingmodel *m, uint32_t n, uint64_t size)
{
	uint64_t bytes = 0;

	for (; bytes < size && is_free(m, n); n = m->block[n].next)
		bytes += m->block[n].size;
	return bytes >= size;
}

/* The block with the lowest address from which on there is room, some of it unmapped; of a new range if there is none; 0: there can be none. */
static uint32_t find_room(struct cachingmodel *m, uint32_t list, uint64_t size)
{
	const struct freeblocks *unmapped = &m->list[list].unmapped;
	const struct freeblocks_entry *e;

	for (struct freeblocks_place p = { 0 }; (e = freeblocks_at(unmapped, p)); p = freeblocks_next(unmapped, p)) {
		uint32_t n = e->block;

		if (is_free(m, m->block[n].prev))
			n = m->block[n].prev;
		if (has_room(m, n, size))
			return n;
	}
	return new_arena(m, list, size);
}

/* Map as many pages of an unmapped block as hold so much; it is then a free one, with what was free around it. */
static bool map(struct cachingmodel *m, uint32_t n, uint64_t size)
{
	uint64_t page = page_bytes(m, &m->block[n]), pages = (size + page - 1) / page, bytes = pages * page;
	uint64_t charged = (page + TORCH_DRIVER_GRANULE - 1) / TORCH_DRIVER_GRANULE * TORCH_DRIVER_GRANULE;
	uint32_t rest;

	if (pages > left(m) / charged)
		return false;
	modelblock_take_free(m, n);
	m->block[n].mapped = true;
	if (bytes < m->block[n].size) {
		rest = modelblock_new(m, m->block[n].list, m->block[n].address + bytes, m->block[n].size - bytes);
		m->block[rest].arena = m->block[n].arena;
		m->block[rest].mapped = false;
		modelblock_put_after(m, rest, n);
		modelblock_add_free(m, rest);
		m->block[n].size = bytes;
	}
	modelblock_merge(m, n, m->block[n].prev);
	modelblock_merge(m, n, m->block[n].next);
	modelblock_add_free(m, n);
	reserve(m, bytes, pages);
	return true;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint32_t take_pages(struct cachingmodel *m, uint32_t list, uint64_t size)
{
	uint32_t n = find_room(m, list, size);

	if (!n)
		return 0;
	if (!m->block[n].mapped && !map(m, n, smaller(m->block[n].size, size)))
		return 0;
	while (m->block[n].size < size) {
		uint32_t next = m->block[n].next;

		if (!map(m, next, smaller(size - m->block[n].size, m->block[next].size)))
			return 0;
		n = next; /* it has taken in the one before it */
	}
	modelblock_take_free(m, n);
	return n;
}

/* The pages that lie in a free block as a whole go back. */
static void give_pages(struct cachingmodel *m, uint32_t n)
{
	struct modelblock *b = &m->block[n];
	uint64_t page = page_bytes(m, b), base = m->arena[b->arena - 1].base, offset = b->address - base;
	uint64_t from = (offset + page - 1) / page * page, to = (offset + b->size) / page * page;
	uint64_t before = from - offset, after;
	uint32_t rest;

	if (from >= to)
		return;
	modelblock_take_free(m, n);
	after = offset + b->size - to;
	if (before) {
		rest = modelblock_new(m, m->block[n].list, m->block[n].address, before);
		m->block[rest].arena = m->block[n].arena;
		modelblock_put_before(m, rest, n);
		modelblock_add_free(m, rest);
	}
	if (after) {
		rest = modelblock_new(m, m->block[n].list, base + to, after);
		m->block[rest].arena = m->block[n].arena;
		modelblock_put_after(m, rest, n);
		modelblock_add_free(m, rest);
	}
	b = &m->block[n];
	b->address = base + from;
	b->size = to - from;
	b->mapped = false;
	m->figures.reserved -= b->size;
	m->figures.gives += b->size / page;
	modelblock_merge(m, n, m->block[n].prev);
	modelblock_merge(m, n, m->block[n].next);
	if (!m->block[n].prev && !m->block[n].next) { /* nothing of the range is mapped: it ends */
		m->arena[m->block[n].arena - 1].gone = true;
		modelblock_drop(m, n);
		return;
	}
	modelblock_add_free(m, n);
}

/* ---- giving back -------------------------------------------------------------------------------- */

static void give_list(struct cachingmodel *m, uint32_t list)
{
	uint32_t *block = NULL;
	size_t nr = 0, room = 0;
	const struct freeblocks *f = &m->list[list].free;
	const struct freeblocks_entry *e;

	for (struct freeblocks_place p = { 0 }; (e = freeblocks_at(f, p)); p = freeblocks_next(f, p)) {
		if (!m->block[e->block].arena && !is_whole(&m->block[e->block]))
			continue;
		block = heap_grow(block, &room, nr + 1, sizeof(*block));
		block[nr++] = e->block;
	}
	for (size_t i = 0; i < nr; i++) {
		if (m->block[block[i]].arena)
			give_pages(m, block[i]);
		else
			give_segment(m, block[i]);
	}
	free(block);
}

/* What of a free block could go back. */
static uint64_t whole_bytes(const struct cachingmodel *m, uint32_t n)
{
	const struct modelblock *b = &m->block[n];
	uint64_t page, offset, from, to;

	if (!b->arena)
		return is_whole(b) ? b->size : 0;
	page = page_bytes(m, b);
	offset = b->address - m->arena[b->arena - 1].base;
	from = (offset + page - 1) / page * page;
	to = (offset + b->size) / page * page;
	return to > from ? to - from : 0;
}

uint64_t cachingmodel_whole(const struct cachingmodel *m)
{
	const struct freeblocks_entry *e;
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < m->nr_lists; i++) {
		const struct freeblocks *f = &m->list[i].free;
		const struct modelpool *pool = &m->pool[m->list[i].pool];

		if (pool->private_id != CACHINGMODEL_COMMON && !pool->ended)
			continue;
		for (struct freeblocks_place p = { 0 }; (e = freeblocks_at(f, p)); p = freeblocks_next(f, p))
			bytes += whole_bytes(m, e->block);
	}
	return bytes;
}

void modeldriver_give_pool(struct cachingmodel *m, uint32_t pool)
{
	for (uint32_t i = 0; i < m->nr_lists; i++)
		if (m->list[i].pool == pool)
			give_list(m, i);
}

void modeldriver_give_all(struct cachingmodel *m)
{
	for (uint32_t i = 0; i < m->nr_pools; i++)
		if (m->pool[i].private_id == CACHINGMODEL_COMMON || m->pool[i].ended)
			modeldriver_give_pool(m, i);
}

bool modeldriver_give_some(struct cachingmodel *m, uint32_t list, uint64_t size)
{
	struct freeblocks *f = &m->list[list].free;
	uint64_t least = m->conf.max_split_bytes, need = size > least ? size : least, given = 0;
	const struct freeblocks_entry *e;

	if (least == UINT64_MAX)
		return false;
	e = freeblocks_at(f, freeblocks_from(f, need, 0));
	if (e && !m->block[e->block].arena) {
		give_segment(m, e->block);
		return true;
	}
	while (given < need && (e = freeblocks_last(f)) && e->size >= least && !m->block[e->block].arena) {
		given += e->size;
		give_segment(m, e->block);
	}
	return given >= need;
}

/* Whole segments of the common large pool whose age is at least this; how many bytes were given back. */
static uint64_t give_older(struct cachingmodel *m, double age, uint64_t *total_age, uint64_t *nr)
{
	uint64_t given = 0;

	for (uint32_t i = 0; i < m->nr_lists; i++) {
		const struct modelpool *pool = &m->pool[m->list[i].pool];
		struct freeblocks_place p = { 0 };
		const struct freeblocks_entry *e;

		if (pool->small || pool->private_id != CACHINGMODEL_COMMON)
			continue;
		while ((e = freeblocks_at(&m->list[i].free, p))) {
			const struct modelblock *b = &m->block[e->block];
			uint64_t own = pool->searches - b->age_base, size = e->size, address = e->address;

			if (is_whole(b) && (double)own >= age) {
				*total_age -= own;
				--*nr;
				given += size;
				give_segment(m, e->block);
				p = freeblocks_from(&m->list[i].free, size, address);
			} else {
				p = freeblocks_next(&m->list[i].free, p);
			}
		}
	}
	return given;
}

void modeldriver_collect(struct cachingmodel *m)
{
	uint64_t threshold = (uint64_t)(m->conf.gc_threshold * (double)m->allowed);
	uint64_t target, given = 0, total_age = 0, nr = 0, more;

	if (m->figures.reserved <= threshold)
		return;
	target = m->figures.reserved - threshold;
	for (uint32_t i = 0; i < m->nr_lists; i++) {
		const struct modelpool *pool = &m->pool[m->list[i].pool];
		const struct freeblocks_entry *e;

		if (pool->small || pool->private_id != CACHINGMODEL_COMMON)
			continue;
		for (struct freeblocks_place p = { 0 }; (e = freeblocks_at(&m->list[i].free, p));
		     p = freeblocks_next(&m->list[i].free, p)) {
			const struct modelblock *b = &m->block[e->block];

			if (b->prev || b->next)
				continue;
			total_age += pool->searches - b->age_base;
			nr++;
		}
	}
	while (given < target && nr) {
		more = give_older(m, (double)total_age / (double)nr, &total_age, &nr);
		if (!more)
			break;
		given += more;
	}
}

uint32_t modeldriver_take(struct cachingmodel *m, uint32_t list, uint64_t size, const struct cachingmodel_request *r)
{
	uint64_t segment = allocconf_segment(&m->conf, size);

	if (m->allowed != UINT64_MAX && m->figures.reserved + segment > m->allowed)
		return 0;
	return pool_grows(m, &m->pool[m->list[list].pool]) ? take_pages(m, list, size)
							    : take_segment(m, list, segment, r);
}
