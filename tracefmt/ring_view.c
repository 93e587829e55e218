/* SPDX-License-Identifier: MIT */
/* The geometry of a mapped ring file, and its definitions; nothing in it is trusted. */
#include "tracefmt/merge.h"
#include "tracefmt/pages.h"

#include <assert.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define DEFINITION_BYTES_MAX (1ull << 32)
#define RING_CAPACITY_MAX (1u << 26)
#define SCAN_LAPS 16 /* so many times the bytes of the ring are looked at to find an entry after a torn place */
#define ENTRY_BYTES_1 24 /* of an entry in version 1, before its payload */

static_assert(sizeof(struct tfmt_record) == TFMT_RECORD_BYTES, "a record is one cache line");
static_assert(sizeof(struct tfmt_status) == 4096, "the status is one page");
static_assert(sizeof(struct tfmt_ring) == 4096, "a ring's header is one page");
static_assert(offsetof(struct tfmt_definition_entry, check) == ENTRY_BYTES_1, "version 1 had all but the check");

uint64_t tfmt_status_check(const struct tfmt_status *s)
{
	const size_t from = offsetof(struct tfmt_status, version), to = offsetof(struct tfmt_status, nr_rings);

	return XXH64((const uint8_t *)s + from, to - from, 0);
}

uint64_t tfmt_entry_check(const struct tfmt_definition_entry *e, uint64_t position, const void *payload)
{
	return XXH64(payload, e->payload_bytes, XXH64(e, offsetof(struct tfmt_definition_entry, check), position));
}

/* Version 1 had no checks. */
static bool status_is_known(const struct tfmt_status *s)
{
	return s->magic == TFMT_RING_MAGIC &&
	       (s->version == 1 || (s->version == TFMT_RING_VERSION && s->check == tfmt_status_check(s)));
}

int tfmt_view_geometry(const struct tfmt_ring_view *view, struct tfmt_geometry *g)
{
	const struct tfmt_status *s = (const struct tfmt_status *)view->base;

	if (view->bytes < sizeof(*s) || !status_is_known(s))
		return TFMT_E_DAMAGED;
	*g = (struct tfmt_geometry){
		.definition_offset = s->definition_offset,
		.definition_bytes = s->definition_bytes,
		.ring_offset = s->ring_offset,
		.ring_stride = s->ring_stride,
		.ring_capacity = s->ring_capacity,
		.entry_bytes = s->version == 1 ? ENTRY_BYTES_1 : sizeof(struct tfmt_definition_entry),
		.has_checks = s->version != 1,
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

/* Can the fixed part of an entry be right, of which so many bytes may be there? */
static bool entry_is_possible(const struct tfmt_merge *m, const struct tfmt_definition_entry *e, uint64_t room)
{
	return e->entry_bytes % 8 == 0 && e->entry_bytes <= room && e->payload_bytes <= m->geometry.definition_bytes &&
	       e->entry_bytes == m->geometry.entry_bytes + ((uint64_t)e->payload_bytes + 7) / 8 * 8 &&
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

/*
 * Read the entry at a position, at most `room` bytes long, its payload to its place in m->assembled. Returns 0,
 * TFMT_E_NOMEM, or TFMT_E_DAMAGED if it cannot be right.
 */
static int definition_entry(struct tfmt_merge *m, uint64_t position, uint64_t room, struct tfmt_definition_entry *e)
{
	const struct tfmt_geometry *g = &m->geometry;

	if (room < g->entry_bytes)
		return TFMT_E_DAMAGED;
	definition_copy(m, position, e, g->entry_bytes);
	if (!entry_is_possible(m, e, room))
		return TFMT_E_DAMAGED;
	if (merge_reserve(m, (size_t)e->whole_bytes + 1))
		return TFMT_E_NOMEM;
	definition_copy(m, position + g->entry_bytes, m->assembled + e->offset, e->payload_bytes);
	if (g->has_checks && e->check != tfmt_entry_check(e, position, m->assembled + e->offset))
		return TFMT_E_DAMAGED;
	return 0;
}

/* All entries of the definition that begins at *position. Returns 1 (*e is the last one), 0, or as above. */
static int definition_whole(struct tfmt_merge *m, uint64_t *position, uint64_t end, struct tfmt_definition_entry *e)
{
	struct tfmt_definition_entry first = { 0 };
	uint64_t p = *position, got = 0;

	while (p < end) {
		int err = definition_entry(m, p, end - p, e);

		if (err)
			return err;
		if (!got)
			first = *e;
		if (e->offset != got || e->type != first.type || e->id != first.id ||
		    e->whole_bytes != first.whole_bytes || (!e->payload_bytes && e->whole_bytes))
			return TFMT_E_DAMAGED;
		got += e->payload_bytes;
		p += e->entry_bytes;
		if (got == e->whole_bytes) {
			*position = p;
			return 1;
		}
	}
	return 0;
}

/*
 * Where the definitions end. Of a process that has ended the head may be older than they are, or anything, where the
 * machine went down: what is whole counts, as far as the ring can hold it.
 */
static uint64_t definitions_end(struct tfmt_merge *m, uint64_t position, uint64_t head)
{
	uint64_t farthest = position + m->geometry.definition_bytes;
	struct tfmt_definition_entry e;

	if (!m->is_dead || !m->geometry.has_checks)
		return head;
	if (head > farthest || (head <= position && !definition_entry(m, position, m->geometry.definition_bytes, &e)))
		return farthest;
	return head;
}

/* The next definition after a torn place, of a process that has ended; what lies between is missing. */
static int definition_after(struct tfmt_merge *m, uint64_t *position, uint64_t end, struct tfmt_definition_entry *e)
{
	int got = TFMT_E_DAMAGED;

	if (!m->is_dead || !m->geometry.has_checks)
		return got;
	if (!tfmt_torn_any(&m->torn))
		m->torn.offset = m->geometry.definition_offset + (*position & (m->geometry.definition_bytes - 1));
	m->torn.definitions++;
	for (uint64_t work = 0; got == TFMT_E_DAMAGED && *position < end; work += 8) {
		if (work > SCAN_LAPS * m->geometry.definition_bytes)
			return got;
		*position += 8;
		got = definition_whole(m, position, end, e);
		if (entry_is_possible(m, e, end - *position)) /* its payload has been looked at */
			work += e->payload_bytes;
	}
	return got;
}

int tfmt_merge_definition(struct tfmt_merge *m, uint64_t *position, uint32_t *type, uint32_t *id,
			  const uint8_t **payload, size_t *len)
{
	const struct tfmt_status *s = (const struct tfmt_status *)m->view->base;
	uint64_t head = __atomic_load_n(&s->definition_head, __ATOMIC_ACQUIRE);
	struct tfmt_definition_entry e;
	int got;

	if (m->view->bytes - m->geometry.definition_offset < m->geometry.definition_bytes)
		return *position < head ? TFMT_E_DAMAGED : 0;
	head = definitions_end(m, *position, head);
	if (*position >= head)
		return 0;
	if (head - *position > m->geometry.definition_bytes)
		return TFMT_E_DAMAGED;
	got = definition_whole(m, position, head, &e);
	if (got == TFMT_E_DAMAGED)
		got = definition_after(m, position, head, &e);
	if (got <= 0)
		return got;
	*type = e.type;
	*id = e.id;
	*payload = m->assembled;
	*len = e.whole_bytes;
	return 1;
}
