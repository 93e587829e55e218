/* SPDX-License-Identifier: MIT */
/* A driver's pool, or the driver itself, by bytes. */
#include "analyzer/allocator/plainmodel.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/allocator/torch.h"
#include "analyzer/base/heap.h"

#define UNIT 512ull           /* of a pool, and of what the driver packs */
#define STEP (32ull << 20)    /* by which a pool grows */
#define PACKED_BELOW (1ull << 20)

struct plainmodel {
	bool is_pool;
	uint64_t capacity, others;
	uint64_t packed; /* bytes of small requests, without a pool */
	uint64_t *slot;  /* bytes of what was handed out */
	size_t slots_room;
	struct cachingmodel_figures figures;
};

struct plainmodel *plainmodel_open(const struct allocconf *conf, uint64_t capacity)
{
	struct plainmodel *m = heap_alloc(1, sizeof(*m));

	m->is_pool = conf->backend == ALLOCCONF_ASYNC;
	m->capacity = capacity;
	return m;
}

void plainmodel_close(struct plainmodel *m)
{
	if (m)
		free(m->slot);
	free(m);
}

void plainmodel_set_others(struct plainmodel *m, uint64_t bytes)
{
	m->others = bytes;
}

const struct cachingmodel_figures *plainmodel_figures(const struct plainmodel *m)
{
	return &m->figures;
}

static uint64_t rounded(uint64_t bytes, uint64_t unit)
{
	return (bytes + unit - 1) / unit * unit;
}

/* What the driver has given for so much, when so much of it is packed. */
static uint64_t reserved_for(const struct plainmodel *m, uint64_t allocated, uint64_t packed)
{
	if (m->is_pool)
		return rounded(allocated, STEP);
	return allocated - packed + rounded(packed, TORCH_DRIVER_GRANULE);
}

static uint64_t block_bytes(const struct plainmodel *m, uint64_t bytes)
{
	return rounded(bytes, m->is_pool || bytes < PACKED_BELOW ? UNIT : TORCH_DRIVER_GRANULE);
}

static bool take(struct plainmodel *m, uint64_t need)
{
	struct cachingmodel_figures *f = &m->figures;

	if (m->capacity && need + m->others > m->capacity)
		return false;
	f->takes++;
	f->reserved = need;
	return true;
}

bool plainmodel_alloc(struct plainmodel *m, uint32_t slot, uint64_t bytes)
{
	struct cachingmodel_figures *f = &m->figures;
	uint64_t block = block_bytes(m, bytes), packed = m->packed + (bytes < PACKED_BELOW ? block : 0);
	uint64_t need = reserved_for(m, f->allocated + block, packed);
	size_t had = m->slots_room;

	if (bytes > ALLOCCONF_REQUEST_MAX)
		return false;
	/* The last step of a pool may not fit as a whole. */
	if (need > f->reserved && !take(m, need) && !(m->is_pool && take(m, rounded(f->allocated + block, TORCH_DRIVER_GRANULE))))
		return false;
	m->packed = packed;
	f->allocated += block;
	if (f->allocated > f->peak_allocated)
		f->peak_allocated = f->allocated;
	if (f->reserved > f->peak_reserved) {
		f->peak_reserved = f->reserved;
		f->allocated_at_peak = f->allocated;
	}
	m->slot = heap_grow(m->slot, &m->slots_room, (size_t)slot + 1, sizeof(*m->slot));
	if (had < m->slots_room)
		memset(&m->slot[had], 0, (m->slots_room - had) * sizeof(*m->slot));
	m->slot[slot] = block;
	return true;
}

/* What is reserved beyond what there has to be goes back. */
static void give(struct plainmodel *m)
{
	uint64_t need = reserved_for(m, m->figures.allocated, m->packed);

	if (need >= m->figures.reserved)
		return;
	m->figures.reserved = need;
	m->figures.gives++;
}

void plainmodel_free(struct plainmodel *m, uint32_t slot)
{
	uint64_t block = slot < m->slots_room ? m->slot[slot] : 0;

	if (!block)
		return;
	m->slot[slot] = 0;
	m->figures.allocated -= block;
	if (m->is_pool)
		return;
	if (block % TORCH_DRIVER_GRANULE)
		m->packed -= block;
	give(m);
}

void plainmodel_empty_cache(struct plainmodel *m)
{
	give(m);
}
