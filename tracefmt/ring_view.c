/* SPDX-License-Identifier: MIT */
/* The geometry of a mapped ring file, and its definitions; nothing in it is trusted. */
#include "tracefmt/merge.h"
#include "tracefmt/pages.h"

#include <assert.h>
#include <string.h>

#define DEFINITION_BYTES_MAX (1ull << 32)
#define RING_CAPACITY_MAX (1u << 26)

static_assert(sizeof(struct tfmt_record) == TFMT_RECORD_BYTES, "a record is one cache line");
static_assert(sizeof(struct tfmt_status) == 4096, "the status is one page");
static_assert(sizeof(struct tfmt_ring) == 4096, "a ring's header is one page");

int tfmt_view_geometry(const struct tfmt_ring_view *view, struct tfmt_geometry *g)
{
	const struct tfmt_status *s = (const struct tfmt_status *)view->base;

	if (view->bytes < sizeof(*s) || s->magic != TFMT_RING_MAGIC || s->version != TFMT_VERSION)
		return TFMT_E_DAMAGED;
	*g = (struct tfmt_geometry){
		.definition_offset = s->definition_offset,
		.definition_bytes = s->definition_bytes,
		.ring_offset = s->ring_offset,
		.ring_stride = s->ring_stride,
		.ring_capacity = s->ring_capacity,
	};
	if (g->definition_offset < sizeof(*s) || g->definition_offset % 8 ||
	    g->definition_offset > view->bytes || g->definition_bytes < 64 ||
	    g->definition_bytes > DEFINITION_BYTES_MAX || (g->definition_bytes & (g->definition_bytes - 1)))
		return TFMT_E_DAMAGED;
	if (g->ring_offset < sizeof(*s) || g->ring_offset % TFMT_RECORD_BYTES || !g->ring_capacity ||
	    g->ring_capacity > RING_CAPACITY_MAX || (g->ring_capacity & (g->ring_capacity - 1)) ||
	    g->ring_stride != sizeof(struct tfmt_ring) + g->ring_capacity * TFMT_RECORD_BYTES)
		return TFMT_E_DAMAGED;
	return 0;
}

const struct tfmt_ring *tfmt_view_ring(const struct tfmt_ring_view *view, const struct tfmt_geometry *g,
				       uint32_t i)
{
	if (view->ring)
		return view->ring[i];
	if (view->bytes < g->ring_offset || (view->bytes - g->ring_offset) / g->ring_stride <= i)
		return NULL;
	return (const struct tfmt_ring *)(view->base + g->ring_offset + i * g->ring_stride);
}

uint64_t tfmt_view_newest(const struct tfmt_ring_view *view, const struct tfmt_geometry *g)
{
	const struct tfmt_status *s = (const struct tfmt_status *)view->base;
	uint32_t nr = __atomic_load_n(&s->nr_rings, __ATOMIC_ACQUIRE);
	const struct tfmt_ring *ring;
	uint64_t newest = 0;

	for (uint32_t i = 0; i < nr && i < TFMT_NR_RINGS && (ring = tfmt_view_ring(view, g, i)); i++) {
		uint64_t head = __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE);
		const struct tfmt_record *last = &ring->record[(head - 1) & (g->ring_capacity - 1)];

		if (head && last->time_ns > newest)
			newest = last->time_ns;
	}
	return newest;
}

/* ---- definitions ----------------------------------------------------------------------------- */

/* Copy bytes from a position of the definition ring, around its end. */
static void definition_copy(const struct tfmt_merge *m, uint64_t position, void *to, size_t len)
{
	const uint8_t *area = m->view->base + m->geometry.definition_offset;
	uint64_t at = position & (m->geometry.definition_bytes - 1);
	uint64_t until_end = m->geometry.definition_bytes - at;

	if (len <= until_end) {
		memcpy(to, area + at, len);
		return;
	}
	memcpy(to, area + at, until_end);
	memcpy((uint8_t *)to + until_end, area, len - until_end);
}

/* Read an entry's fixed part; false if it cannot be right. */
static bool definition_entry(const struct tfmt_merge *m, uint64_t position, uint64_t head,
			     struct tfmt_definition_entry *e)
{
	if (head - position < sizeof(*e))
		return false;
	definition_copy(m, position, e, sizeof(*e));
	return e->entry_bytes % 8 == 0 && e->entry_bytes <= head - position &&
	       e->payload_bytes <= m->geometry.definition_bytes &&
	       e->entry_bytes == sizeof(*e) + ((uint64_t)e->payload_bytes + 7) / 8 * 8 &&
	       e->whole_bytes <= m->geometry.definition_bytes && e->offset <= e->whole_bytes &&
	       e->payload_bytes <= e->whole_bytes - e->offset;
}

static int merge_reserve(struct tfmt_merge *m, size_t bytes)
{
	void *grown;

	if (bytes <= m->assembled_bytes)
		return 0;
	bytes = (bytes + 0xffff) & ~(size_t)0xffff;
	grown = tfmt_pages_grow(m->assembled, m->assembled_bytes, bytes);
	if (!grown)
		return TFMT_E_NOMEM;
	m->assembled = grown;
	m->assembled_bytes = bytes;
	return 0;
}

int tfmt_merge_definition(struct tfmt_merge *m, uint64_t *position, uint32_t *type, uint32_t *id,
			  const uint8_t **payload, size_t *len)
{
	const struct tfmt_status *s = (const struct tfmt_status *)m->view->base;
	uint64_t head = __atomic_load_n(&s->definition_head, __ATOMIC_ACQUIRE);
	uint64_t p = *position, got = 0;
	struct tfmt_definition_entry e, first = { 0 };

	if (p >= head)
		return 0;
	if (head - p > m->geometry.definition_bytes ||
	    m->view->bytes - m->geometry.definition_offset < m->geometry.definition_bytes)
		return TFMT_E_DAMAGED;
	while (p < head) {
		if (!definition_entry(m, p, head, &e))
			return TFMT_E_DAMAGED;
		if (!got)
			first = e;
		if (e.offset != got || e.type != first.type || e.id != first.id ||
		    e.whole_bytes != first.whole_bytes || (got && !e.payload_bytes))
			return TFMT_E_DAMAGED;
		if (merge_reserve(m, e.whole_bytes + 1))
			return TFMT_E_NOMEM;
		definition_copy(m, p + sizeof(e), m->assembled + got, e.payload_bytes);
		got += e.payload_bytes;
		p += e.entry_bytes;
		if (got == e.whole_bytes) {
			*position = p;
			*type = e.type;
			*id = e.id;
			*payload = m->assembled;
			*len = (size_t)got;
			return 1;
		}
		if (!e.payload_bytes)
			return TFMT_E_DAMAGED;
	}
	return 0;
}
