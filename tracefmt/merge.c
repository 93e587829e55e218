/* SPDX-License-Identifier: MIT */
/* Rings to one stream of events: each domain without gaps, the domains by clock. */
#include "tracefmt/merge.h"
#include "tracefmt/pages.h"

#include <string.h>

/* Records searched in each ring for a missing one before it is given up. */
#define SEARCH_DEPTH 32
/* The longest wait for a gap while a ring runs full: hooks wait longer than this for room. */
#define PRESSED_GAP_NS 15000000ull
/* Nothing was taken, but there is more to look at. */
#define AGAIN 2

int tfmt_merge_open(struct tfmt_merge **out, const struct tfmt_ring_view *view, const uint64_t *order,
		    const uint64_t *from, uint32_t nr_from)
{
	struct tfmt_geometry g;
	struct tfmt_merge *m;

	*out = NULL;
	if (tfmt_view_geometry(view, &g))
		return TFMT_E_DAMAGED;
	m = tfmt_pages_new(sizeof(*m));
	if (!m)
		return TFMT_E_NOMEM;
	m->view = view;
	m->geometry = g;
	if (order)
		memcpy(m->order, order, sizeof(m->order));
	if (from) {
		m->from_given = true;
		m->nr_given = nr_from < TFMT_NR_RINGS ? nr_from : TFMT_NR_RINGS;
		memcpy(m->position, from, m->nr_given * sizeof(*from));
		m->nr_positions = m->nr_given;
	}
	*out = m;
	return 0;
}

void tfmt_merge_close(struct tfmt_merge *m)
{
	if (!m)
		return;
	tfmt_pages_free(m->assembled, m->assembled_bytes);
	tfmt_pages_free(m, sizeof(*m));
}

uint32_t tfmt_merge_positions(const struct tfmt_merge *m, const uint64_t **positions)
{
	*positions = m->position;
	return m->nr_positions;
}

bool tfmt_merge_is_cut(const struct tfmt_merge *m)
{
	const struct tfmt_status *status = (const struct tfmt_status *)m->view->base;
	uint32_t nr = __atomic_load_n(&status->nr_rings, __ATOMIC_ACQUIRE), i;

	for (i = 0; i < nr && i < TFMT_NR_RINGS; i++) {
		if (m->ended[i] || !tfmt_view_ring(m->view, &m->geometry, i))
			return true;
	}
	return false;
}

/* ---- heads ----------------------------------------------------------------------------------- */

/*
 * A tensor's memory is allocated before it and freed after it, so driver allocations come before tensor
 * allocations of the same time, and tensor frees before driver frees.
 */
static uint8_t record_rank(unsigned kind)
{
	switch (kind) {
	case TFMT_TENSOR_FREE:
		return 0;
	case TFMT_TENSOR_ALLOC:
		return 2;
	case TFMT_TENSOR_OOM:
		return 3;
	default:
		return 1;
	}
}

/*
 * Copy the record at a position; false if it is not whole. Nobody overwrites it meanwhile: its slot is free
 * only when the tail has passed it, and a reader of a process that runs looks whether that has happened.
 */
static bool merge_read(const struct tfmt_merge *m, const struct tfmt_ring *ring, uint64_t position,
		       struct tfmt_record *rec)
{
	const struct tfmt_record *slot = &ring->record[position & (m->geometry.ring_capacity - 1)];

	if (__atomic_load_n(&slot->valid, __ATOMIC_ACQUIRE) != (uint32_t)(position + 1))
		return false;
	memcpy(rec, slot, sizeof(*rec));
	return true;
}

/* Look at a head's next record of a known kind; false if the ring has no more for this batch. */
static bool merge_load_head(struct tfmt_merge *m, struct tfmt_merge_head *h)
{
	const struct tfmt_ring *ring = tfmt_view_ring(m->view, &m->geometry, h->ring);
	struct tfmt_record rec;

	for (; ring && m->position[h->ring] < h->end; m->position[h->ring]++) {
		if (!merge_read(m, ring, m->position[h->ring], &rec)) {
			m->ended[h->ring] = true;
			return false;
		}
		if (rec.kind == TFMT_NONE || rec.kind >= TFMT_NR_KINDS)
			continue;
		h->time = rec.time_ns;
		h->order = rec.order;
		h->domain = (uint16_t)tfmt_domain(rec.kind, rec.device);
		h->rank = record_rank(rec.kind);
		return true;
	}
	return false;
}

/* The head's record is done with. */
static void merge_advance(struct tfmt_merge *m, uint32_t i)
{
	m->position[m->head[i].ring]++;
	if (!merge_load_head(m, &m->head[i]))
		m->head[i] = m->head[--m->nr_heads];
}

/* Give a ring met for the first time its position. */
static void merge_adopt(struct tfmt_merge *m, const struct tfmt_ring *ring, uint32_t i)
{
	if (i >= m->nr_given)
		m->position[i] = m->from_given ? 0 : __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE);
	m->nr_seen = i + 1;
	if (m->nr_positions < m->nr_seen)
		m->nr_positions = m->nr_seen;
}

/* Begin a batch with all that the rings hold now. */
static void merge_refresh(struct tfmt_merge *m)
{
	const struct tfmt_status *status = (const struct tfmt_status *)m->view->base;
	uint32_t nr = __atomic_load_n(&status->nr_rings, __ATOMIC_ACQUIRE);
	uint32_t i;

	m->nr_heads = 0;
	for (i = 0; i < nr && i < TFMT_NR_RINGS; i++) {
		const struct tfmt_ring *ring = tfmt_view_ring(m->view, &m->geometry, i);
		struct tfmt_merge_head *h = &m->head[m->nr_heads];

		if (!ring)
			break;
		if (i >= m->nr_seen)
			merge_adopt(m, ring, i);
		h->ring = i;
		h->end = __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE);
		if (m->ended[i] || h->end <= m->position[i])
			continue;
		if (h->end - m->position[i] > m->geometry.ring_capacity)
			m->position[i] = h->end - m->geometry.ring_capacity;
		if (merge_load_head(m, h))
			m->nr_heads++;
	}
}

/* ---- gaps ------------------------------------------------------------------------------------ */

/* A ring that will run over if the merge goes on waiting. */
static bool merge_is_pressed(const struct tfmt_merge *m)
{
	uint32_t i;

	for (i = 0; i < m->nr_heads; i++) {
		const struct tfmt_ring *ring = tfmt_view_ring(m->view, &m->geometry, m->head[i].ring);

		if (ring && m->head[i].end - __atomic_load_n(&ring->tail, __ATOMIC_RELAXED) >=
				    m->geometry.ring_capacity / 4 * 3)
			return true;
	}
	return false;
}

/*
 * A missing record may lie in this batch behind one of another domain whose clock was read late. Returns
 * the head to take first, or -1.
 */
static int merge_search(const struct tfmt_merge *m, unsigned domain, uint64_t before)
{
	struct tfmt_record rec;
	uint64_t p;
	uint32_t i;

	for (i = 0; i < m->nr_heads; i++) {
		const struct tfmt_merge_head *h = &m->head[i];
		const struct tfmt_ring *ring = tfmt_view_ring(m->view, &m->geometry, h->ring);

		if (!ring || h->order != m->order[h->domain])
			continue;
		for (p = m->position[h->ring]; p < h->end && p < m->position[h->ring] + SEARCH_DEPTH; p++) {
			if (merge_read(m, ring, p, &rec) && tfmt_domain(rec.kind, rec.device) == domain &&
			    rec.order >= m->order[domain] && rec.order < before)
				return (int)i;
		}
	}
	return -1;
}

/* The lowest order that a head of the domain has. */
static uint64_t merge_lowest(const struct tfmt_merge *m, unsigned domain)
{
	uint64_t lowest = UINT64_MAX;
	uint32_t i;

	for (i = 0; i < m->nr_heads; i++) {
		if (m->head[i].domain == domain && m->head[i].order < lowest)
			lowest = m->head[i].order;
	}
	return lowest;
}

static void merge_give_up(struct tfmt_merge *m, unsigned domain, uint64_t lowest, uint64_t time,
			  struct tfmt_event *ev)
{
	*ev = (struct tfmt_event){
		.kind = TFMT_LOST,
		.time_ns = time,
		.order = m->order[domain],
		.size = lowest - m->order[domain],
		.device = domain == TFMT_DOMAIN_DRIVER ? TFMT_DEVICE_NONE : (uint8_t)domain,
		.alloc_ordinal = TFMT_NO_ORDINAL,
	};
	m->order[domain] = lowest;
}

/* ---- the stream ------------------------------------------------------------------------------ */

static bool head_is_before(const struct tfmt_merge_head *a, const struct tfmt_merge_head *b)
{
	return a->time != b->time ? a->time < b->time : a->rank < b->rank;
}

/*
 * Choose the earliest head whose order is due (*due), and the earliest that still waits for another
 * (*waiting); -1 if there is none. Records given up before are dropped: they are counted as lost.
 */
static void merge_choose(struct tfmt_merge *m, int *due, int *waiting)
{
	uint32_t i = 0;

	*due = *waiting = -1;
	while (i < m->nr_heads) {
		const struct tfmt_merge_head *h = &m->head[i];
		uint64_t next = m->order[h->domain];
		int *best = h->order == next ? due : waiting;

		if (h->order < next) {
			merge_advance(m, i);
			continue;
		}
		if (*best < 0 || head_is_before(h, &m->head[*best]))
			*best = (int)i;
		i++;
	}
}

static bool merge_take(struct tfmt_merge *m, uint32_t i, struct tfmt_event *ev)
{
	struct tfmt_merge_head *h = &m->head[i];
	const struct tfmt_ring *ring = tfmt_view_ring(m->view, &m->geometry, h->ring);
	struct tfmt_record rec;

	if (!ring || !merge_read(m, ring, m->position[h->ring], &rec)) {
		m->ended[h->ring] = true;
		*h = m->head[--m->nr_heads];
		return false;
	}
	*ev = (struct tfmt_event){
		.time_ns = rec.time_ns,
		.address = rec.address,
		.size = rec.size,
		.aux = rec.aux,
		.order = rec.order,
		.python_stack = rec.python_stack,
		.native_stack = rec.native_stack,
		.shape = rec.shape,
		.thread = ring->thread,
		.stream = rec.stream,
		.function = rec.function,
		.flags = rec.flags,
		.kind = rec.kind,
		.device = rec.device,
		.alloc_ordinal = TFMT_NO_ORDINAL,
	};
	m->order[h->domain] = h->order + 1;
	merge_advance(m, i);
	return true;
}

/*
 * The head that waits is earlier than any that is due (-1: none). If its predecessor is among those, only
 * its clock was read early. A gap noticed for the first time may be none: the rings' heads are not read at
 * one instant, so they are read again. Returns as tfmt_merge_next() does, or AGAIN.
 */
static int merge_gap(struct tfmt_merge *m, uint32_t waiting, int due, uint64_t now_ns, uint64_t gap_ns,
		     struct tfmt_event *ev)
{
	unsigned domain = m->head[waiting].domain;
	uint64_t lowest = merge_lowest(m, domain), waited;
	int hidden;
	bool pressed;

	if (due >= 0 && lowest == m->order[domain])
		return merge_take(m, (uint32_t)due, ev) ? 1 : AGAIN;
	if (m->gap_order[domain] != m->order[domain] + 1) {
		m->gap_order[domain] = m->order[domain] + 1;
		m->gap_since[domain] = now_ns;
		return AGAIN;
	}
	pressed = merge_is_pressed(m);
	waited = now_ns - m->gap_since[domain];
	if (waited < gap_ns && (waited < PRESSED_GAP_NS || !pressed)) {
		/* Better out of order by clock than a full ring, where what is missing may find no room. */
		return due >= 0 && pressed && merge_take(m, (uint32_t)due, ev);
	}
	hidden = merge_search(m, domain, lowest);
	if (hidden >= 0)
		return merge_take(m, (uint32_t)hidden, ev) ? 1 : AGAIN;
	merge_give_up(m, domain, lowest, m->head[waiting].time, ev);
	return 1;
}

int tfmt_merge_next(struct tfmt_merge *m, uint64_t now_ns, uint64_t gap_ns, struct tfmt_event *ev)
{
	bool fresh = false;
	int due, waiting, got;

	for (;;) {
		merge_choose(m, &due, &waiting);
		if (due >= 0 && (waiting < 0 || !head_is_before(&m->head[waiting], &m->head[due]))) {
			if (merge_take(m, (uint32_t)due, ev))
				return 1;
		} else if (!fresh) {
			merge_refresh(m);
			fresh = true;
		} else {
			got = waiting < 0 ? 0 : merge_gap(m, (uint32_t)waiting, due, now_ns, gap_ns, ev);
			if (got != AGAIN)
				return got;
			merge_refresh(m);
		}
	}
}
