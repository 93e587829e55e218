/* SPDX-License-Identifier: MIT */
/* Requests and frees of the model: which block is taken, when it is cut, and what is tried when there is none. */
#include "analyzer/allocator/cachingmodel.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/allocator/cachingmodel_inside.h"
#include "analyzer/allocator/torch.h"
#include "analyzer/base/heap.h"

#define ADDRESSES_END (1ull << 63) /* segments lie below it, each below the one before, as the kernel maps memory */

void cachingmodel_set_conf(struct cachingmodel *m, const struct allocconf *conf)
{
	m->conf = *conf;
}

struct cachingmodel *cachingmodel_open(const struct allocconf *conf, uint64_t capacity)
{
	struct cachingmodel *m = heap_alloc(1, sizeof(*m));

	m->conf = *conf;
	m->capacity = capacity;
	m->allowed = capacity && conf->fraction < 1 ? (uint64_t)(conf->fraction * (double)capacity) : UINT64_MAX;
	m->next_address = ADDRESSES_END;
	return m;
}

void cachingmodel_close(struct cachingmodel *m)
{
	if (!m)
		return;
	for (uint32_t i = 0; i < m->nr_lists; i++) {
		freeblocks_release(&m->list[i].free);
		freeblocks_release(&m->list[i].unmapped);
	}
	free(m->block);
	free(m->pool);
	free(m->list);
	free(m->arena);
	free(m->slot);
	free(m->pending);
	free(m);
}

void cachingmodel_set_others(struct cachingmodel *m, uint64_t bytes)
{
	m->others = bytes;
}

const struct cachingmodel_figures *cachingmodel_figures(const struct cachingmodel *m)
{
	return &m->figures;
}

/* ---- where to look ------------------------------------------------------------------------------ */

static bool is_list(const struct cachingmodel *m, uint32_t list, const struct cachingmodel_request *r, bool small)
{
	const struct modellist *l = &m->list[list];
	const struct modelpool *p = &m->pool[l->pool];

	return l->stream == r->stream && p->small == small && p->private_id == r->private_id;
}

/* Index + 1 of the list for a request, 0: there is none. */
static uint32_t find_list(const struct cachingmodel *m, const struct cachingmodel_request *r, bool small)
{
	if (m->latest_list < m->nr_lists && is_list(m, m->latest_list, r, small))
		return m->latest_list + 1;
	for (uint32_t i = 0; i < m->nr_lists; i++)
		if (is_list(m, i, r, small))
			return i + 1;
	return 0;
}

static uint32_t get_pool(struct cachingmodel *m, uint32_t private_id, bool small)
{
	for (uint32_t i = 0; i < m->nr_pools; i++)
		if (m->pool[i].private_id == private_id && m->pool[i].small == small)
			return i;
	m->pool = heap_grow(m->pool, &m->pools_room, (size_t)m->nr_pools + 1, sizeof(*m->pool));
	m->pool[m->nr_pools] = (struct modelpool){ .private_id = private_id, .small = small };
	return m->nr_pools++;
}

static uint32_t get_list(struct cachingmodel *m, const struct cachingmodel_request *r, bool small)
{
	uint32_t found = find_list(m, r, small);

	if (!found) {
		m->list = heap_grow(m->list, &m->lists_room, (size_t)m->nr_lists + 1, sizeof(*m->list));
		m->list[m->nr_lists] =
		    (struct modellist){ .pool = get_pool(m, r->private_id, small), .stream = r->stream };
		found = ++m->nr_lists;
	}
	m->latest_list = found - 1;
	return found - 1;
}

/* ---- a free block ------------------------------------------------------------------------------- */

/* What a block at the end of what is mapped counts for: what it can grow to. */
static uint64_t growable_size(const struct cachingmodel *m, uint32_t n)
{
	uint32_t next = m->block[n].next;

	return m->block[n].size + (next && !m->block[next].mapped ? m->block[next].size : 0);
}

/* Of expandable segments: a larger block is better than one that could grow further. */
static uint32_t prefer_not_growing(const struct cachingmodel *m, const struct freeblocks *f, struct freeblocks_place p)
{
	uint32_t n = freeblocks_at(f, p)->block;
	const struct freeblocks_entry *next;

	while ((next = freeblocks_at(f, freeblocks_next(f, p))) &&
	       growable_size(m, next->block) < growable_size(m, n)) {
		p = freeblocks_next(f, p);
		n = next->block;
	}
	return n;
}

/* The free block that PyTorch takes for a rounded request; 0 = none. */
static uint32_t find_free(const struct cachingmodel *m, uint32_t list, uint64_t size)
{
	const struct freeblocks *f = &m->list[list].free;
	struct freeblocks_place p = freeblocks_from(f, size, 0);
	const struct freeblocks_entry *e = freeblocks_at(f, p);
	uint64_t max_split = m->conf.max_split_bytes;
	uint32_t n;

	if (!e)
		return 0;
	n = m->block[e->block].arena ? prefer_not_growing(m, f, p) : e->block;
	if (size < max_split)
		return m->block[n].size >= max_split ? 0 : n;
	return m->block[n].size - size >= m->conf.unsplit_rounding_bytes ? 0 : n;
}

bool cachingmodel_is_cached(const struct cachingmodel *m, const struct cachingmodel_request *r)
{
	uint64_t size = allocconf_rounded(&m->conf, r->bytes);
	uint32_t list = find_list(m, r, size <= TORCH_SMALL_MAX);

	return list && r->bytes <= ALLOCCONF_REQUEST_MAX && find_free(m, list - 1, size);
}

/* ---- a request ---------------------------------------------------------------------------------- */

static void release(struct cachingmodel *m, uint32_t n)
{
	m->block[n].pending = false;
	modelblock_merge(m, n, m->block[n].prev);
	modelblock_merge(m, n, m->block[n].next);
	modelblock_add_free(m, n);
}

/* What waits for other streams is free once they are synchronised. */
static void synchronise(struct cachingmodel *m)
{
	for (size_t i = 0; i < m->nr_pending; i++) {
		uint32_t n = m->slot[m->pending[i]];

		m->slot[m->pending[i]] = 0;
		release(m, n);
	}
	m->nr_pending = 0;
}

void cachingmodel_empty_cache(struct cachingmodel *m)
{
	synchronise(m);
	modeldriver_give_all(m);
}

/* A block from the driver, after giving it back what is cached where that is needed; 0 = there is none. */
static uint32_t get_new(struct cachingmodel *m, uint32_t list, uint64_t size, const struct cachingmodel_request *r)
{
	uint32_t n;

	if (m->allowed != UINT64_MAX && m->conf.gc_threshold > 0)
		modeldriver_collect(m);
	n = modeldriver_take(m, list, size, r);
	if (!n && modeldriver_give_some(m, list, size))
		n = modeldriver_take(m, list, size, r);
	if (!n && !r->capturing) {
		cachingmodel_empty_cache(m);
		m->figures.retries++;
		n = modeldriver_take(m, list, size, r);
	}
	return n;
}

static bool is_cut(struct cachingmodel *m, uint32_t n, uint64_t size)
{
	uint64_t rest = m->block[n].size - size;

	if (pool_of(m, &m->block[n])->small || m->block[n].arena)
		return rest >= TORCH_ROUND;
	return size < m->conf.max_split_bytes && rest > TORCH_REST_MAX;
}

/* The part that is not needed is free again. */
static void cut(struct cachingmodel *m, uint32_t n, uint64_t size)
{
	uint32_t rest =
	    modelblock_new(m, m->block[n].list, m->block[n].address + size, m->block[n].size - size);

	m->block[rest].arena = m->block[n].arena;
	modelblock_put_after(m, rest, n);
	modelblock_add_free(m, rest);
	m->block[n].size = size;
}

static void hand_out(struct cachingmodel *m, uint32_t n, uint32_t slot)
{
	struct cachingmodel_figures *f = &m->figures;
	size_t had = m->slots_room;

	m->slot = heap_grow(m->slot, &m->slots_room, (size_t)slot + 1, sizeof(*m->slot));
	if (had < m->slots_room)
		memset(&m->slot[had], 0, (m->slots_room - had) * sizeof(*m->slot));
	m->slot[slot] = n;
	m->block[n].allocated = true;
	f->allocated += m->block[n].size;
	if (f->allocated > f->peak_allocated)
		f->peak_allocated = f->allocated;
	if (m->at_peak)
		f->allocated_at_peak = f->allocated;
	m->at_peak = false;
}

/* What no GPU has is asked for: PyTorch gives back all that is cached before it says so. */
static bool refuse(struct cachingmodel *m, const struct cachingmodel_request *r)
{
	if (!r->capturing) {
		cachingmodel_empty_cache(m);
		m->figures.retries++;
	}
	return false;
}

bool cachingmodel_alloc(struct cachingmodel *m, const struct cachingmodel_request *r)
{
	uint64_t size = allocconf_rounded(&m->conf, r->bytes);
	uint32_t list, n;

	if (r->bytes > ALLOCCONF_REQUEST_MAX)
		return refuse(m, r);
	list = get_list(m, r, size <= TORCH_SMALL_MAX);
	m->pool[m->list[list].pool].searches++;
	n = find_free(m, list, size);
	if (n)
		modelblock_take_free(m, n);
	else
		n = get_new(m, list, size, r);
	if (!n)
		return false;
	if (is_cut(m, n, size))
		cut(m, n, size);
	hand_out(m, n, r->slot);
	return true;
}

/* ---- frees -------------------------------------------------------------------------------------- */

void cachingmodel_free(struct cachingmodel *m, uint32_t slot, bool pending)
{
	uint32_t n = slot < m->slots_room ? m->slot[slot] : 0;

	if (!n || !m->block[n].allocated)
		return;
	m->block[n].allocated = false;
	m->figures.allocated -= m->block[n].size;
	if (pending) {
		m->block[n].pending = true;
		m->pending = heap_grow(m->pending, &m->pending_room, m->nr_pending + 1, sizeof(*m->pending));
		m->pending[m->nr_pending++] = slot;
		return;
	}
	m->slot[slot] = 0;
	release(m, n);
}

void cachingmodel_complete(struct cachingmodel *m, uint32_t slot)
{
	uint32_t n;

	for (size_t i = 0; i < m->nr_pending; i++) {
		if (m->pending[i] != slot)
			continue;
		m->pending[i] = m->pending[--m->nr_pending];
		n = m->slot[slot];
		m->slot[slot] = 0;
		release(m, n);
		return;
	}
}

void cachingmodel_end_private(struct cachingmodel *m, uint32_t private_id)
{
	for (uint32_t i = 0; i < m->nr_pools; i++) {
		if (m->pool[i].private_id != private_id)
			continue;
		m->pool[i].ended = true;
		modeldriver_give_pool(m, i);
	}
}
