/* SPDX-License-Identifier: MIT */
/* Rings to one stream of events: each domain without gaps, the domains by clock. */
#include "tracefmt/merge.h"
#include "tracefmt/pages.h"

#include <string.h>

/* Records searched in each ring for a missing one. */
#define SEARCH_DEPTH 32
/* Records between the one that is read and the one that the processor fetches: other processors have written them. */
#define FETCH_AHEAD 16
/* The longest wait for a gap while a ring runs full: hooks wait 20 times as long for room. */
#define PRESSED_GAP_NS 1000000ull
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
		if (!tfmt_view_ring(m->view, &m->geometry, i))
			return true;
	}
	return false;
}

uint64_t tfmt_merge_nr_torn(const struct tfmt_merge *m)
{
	return m->torn.records;
}

/* ---- what is whole --------------------------------------------------------------------------- */

static inline bool record_is_whole(const struct tfmt_merge *m, const struct tfmt_record *r, uint64_t position)
{
	return r->valid == (m->geometry.has_checks ? tfmt_record_check(r, position) : (uint32_t)(position + 1));
}

static bool slot_is_whole(const struct tfmt_merge *m, const struct tfmt_ring *ring, uint64_t position)
{
	return record_is_whole(m, &ring->record[position & (m->geometry.ring_capacity - 1)], position);
}

static void note_torn(struct tfmt_merge *m, const void *at)
{
	if (!tfmt_torn_any(&m->torn))
		m->torn.offset = (uint64_t)((const uint8_t *)at - m->view->base);
}

static void page_is_torn(struct tfmt_merge *m, uint16_t i)
{
	if (m->page_is_torn[i])
		return;
	m->page_is_torn[i] = true;
	note_torn(m, m->head[i].ring);
	m->torn.pages++;
}

/*
 * The position after a ring's last record. Of a process that has ended the head may be older than the records, or
 * anything, where the machine went down: it is checked by the record before it, and records that are whole count, too.
 */
static uint64_t ring_end(struct tfmt_merge *m, uint16_t i)
{
	const struct tfmt_ring *ring = m->head[i].ring;
	uint64_t head = __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE), from = m->position[i], first;

	if (!m->is_dead || !m->geometry.has_checks)
		return head;
	if (head > from && head - from > m->geometry.ring_capacity && !slot_is_whole(m, ring, head - 1)) {
		page_is_torn(m, i);
		head = from;
	}
	if (head < from)
		head = from;
	for (first = head; head - first < m->geometry.ring_capacity && slot_is_whole(m, ring, head);)
		head++;
	return head;
}

/* The thread whose records a ring holds; 0: nobody knows. */
static uint32_t ring_thread(struct tfmt_merge *m, uint16_t i)
{
	const struct tfmt_ring *ring = m->head[i].ring;

	if (!m->is_dead || !m->geometry.has_checks || ring->thread_check == tfmt_thread_check(ring->thread))
		return ring->thread;
	page_is_torn(m, i);
	return 0;
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
 * Copy the record at a position before the head; false if it is not whole. Nobody writes it meanwhile: it was stored
 * before the head that was read, and its slot is free only when the tail has passed it; a reader of a process that runs
 * looks whether that has happened.
 */
static bool merge_read(const struct tfmt_merge *m, const struct tfmt_ring *ring, uint64_t position,
		       struct tfmt_record *rec)
{
	uint64_t mask = m->geometry.ring_capacity - 1;
	const struct tfmt_record *slot = &ring->record[position & mask];

	__builtin_prefetch(&ring->record[(position + FETCH_AHEAD) & mask]);
	memcpy(rec, slot, sizeof(*rec));
	return record_is_whole(m, rec, position);
}

/* ---- queues ---------------------------------------------------------------------------------- */

static uint16_t queue_meld(struct tfmt_merge *m, uint16_t a, uint16_t b)
{
	uint16_t first = a, second = b;

	if (a == TFMT_RING_NONE || b == TFMT_RING_NONE)
		return a == TFMT_RING_NONE ? b : a;
	if (m->head[b].record.order < m->head[a].record.order) {
		first = b;
		second = a;
	}
	m->head[second].sibling = m->head[first].child;
	m->head[first].child = second;
	return first;
}

/* What is left of a queue without its first ring: its children, melded in pairs, then all pairs. */
static uint16_t queue_rest(struct tfmt_merge *m, uint16_t first)
{
	uint16_t next = m->head[first].child, pairs = TFMT_RING_NONE, rest = TFMT_RING_NONE;

	while (next != TFMT_RING_NONE) {
		uint16_t a = next, b = m->head[a].sibling;

		next = b == TFMT_RING_NONE ? b : m->head[b].sibling;
		a = queue_meld(m, a, b);
		m->head[a].sibling = pairs;
		pairs = a;
	}
	while (pairs != TFMT_RING_NONE) {
		next = m->head[pairs].sibling;
		rest = queue_meld(m, rest, pairs);
		pairs = next;
	}
	return rest;
}

static void queue_add(struct tfmt_merge *m, uint16_t i)
{
	unsigned domain = tfmt_domain(m->head[i].record.kind, m->head[i].record.device);
	struct tfmt_merge_queue *q = &m->queue[domain];

	if (!q->is_listed) {
		q->is_listed = true;
		q->first = TFMT_RING_NONE;
		m->listed[m->nr_listed++] = (uint8_t)domain;
	}
	m->head[i].child = m->head[i].sibling = TFMT_RING_NONE;
	q->first = queue_meld(m, q->first, i);
}

/* A record that is not whole is missing, and those after it are not. */
static void skip_torn(struct tfmt_merge *m, uint16_t i)
{
	struct tfmt_merge_head *h = &m->head[i];

	note_torn(m, &h->ring->record[m->position[i] & (m->geometry.ring_capacity - 1)]);
	m->torn.records++;
	m->nr_overwritten += !h->overwritten;
	h->overwritten++;
}

/*
 * Whose the records at a ring's position are: the next record that passes the ring on says so; without one they are
 * its latest thread's.
 */
static uint32_t thread_at(struct tfmt_merge *m, uint16_t i)
{
	const struct tfmt_merge_head *h = &m->head[i];
	uint32_t latest = m->is_dead ? 0 : ring_thread(m, i); /* before the end: a ring is passed on by a record first */
	uint64_t end = m->is_dead ? h->end : __atomic_load_n(&h->ring->head, __ATOMIC_ACQUIRE), p = m->position[i];
	struct tfmt_record rec;

	if (end > p && end - p > m->geometry.ring_capacity)
		p = end - m->geometry.ring_capacity;
	if (m->is_dead && p >= end) /* nobody asks */
		return 0;
	for (; p < end; p++) {
		if (merge_read(m, h->ring, p, &rec) && rec.kind == TFMT_RECORD_THREAD)
			return (uint32_t)rec.size;
	}
	return m->is_dead ? ring_thread(m, i) : latest;
}

/* Queue a ring by its next record of a known kind; it has none, or no more in this batch, and is left out. */
static void merge_queue_ring(struct tfmt_merge *m, uint16_t i)
{
	struct tfmt_merge_head *h = &m->head[i];
	bool is_torn = false;

	for (; h->ring && m->position[i] < h->end; m->position[i]++) {
		if (!merge_read(m, h->ring, m->position[i], &h->record)) {
			skip_torn(m, i);
			is_torn = true;
			continue;
		}
		if (h->record.kind == TFMT_RECORD_THREAD)
			h->thread = (uint32_t)h->record.address;
		else if (is_torn) /* what is missing may have passed the ring on */
			h->thread = thread_at(m, i);
		is_torn = false;
		if (h->record.kind == TFMT_NONE || h->record.kind >= TFMT_NR_KINDS)
			continue;
		h->rank = record_rank(h->record.kind);
		queue_add(m, i);
		return;
	}
}

/* Give a ring met for the first time its position; false if it does not lie within the mapped bytes. */
static bool merge_adopt(struct tfmt_merge *m, uint32_t i)
{
	const struct tfmt_ring *ring = tfmt_view_ring(m->view, &m->geometry, i);

	if (!ring)
		return false;
	m->head[i].ring = ring;
	if (i >= m->nr_given)
		m->position[i] = m->from_given ? 0 : __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE);
	m->head[i].end = ring_end(m, (uint16_t)i);
	m->head[i].thread = thread_at(m, (uint16_t)i);
	m->nr_seen = i + 1;
	if (m->nr_positions < m->nr_seen)
		m->nr_positions = m->nr_seen;
	return true;
}

/* How many rings there are to look at: of a process that has ended all that lie in its file. */
static uint32_t merge_nr_rings(const struct tfmt_merge *m)
{
	const struct tfmt_status *status = (const struct tfmt_status *)m->view->base;
	uint32_t nr = __atomic_load_n(&status->nr_rings, __ATOMIC_ACQUIRE);

	return m->is_dead && m->geometry.has_checks ? TFMT_NR_RINGS : nr;
}

/* Begin a batch with all that the rings hold now. */
static void merge_refresh(struct tfmt_merge *m)
{
	uint32_t nr = merge_nr_rings(m);
	uint32_t i;

	while (m->nr_listed)
		m->queue[m->listed[--m->nr_listed]].is_listed = false;
	for (i = 0; i < nr && i < TFMT_NR_RINGS; i++) {
		struct tfmt_merge_head *h = &m->head[i];

		if (i >= m->nr_seen && !merge_adopt(m, i))
			break;
		if (!m->is_dead)
			h->end = ring_end(m, (uint16_t)i);
		if (h->end <= m->position[i])
			continue;
		if (h->end - m->position[i] > m->geometry.ring_capacity) {
			m->nr_overwritten += !h->overwritten;
			h->overwritten += h->end - m->position[i] - m->geometry.ring_capacity;
			m->position[i] = h->end - m->geometry.ring_capacity;
			h->thread = thread_at(m, (uint16_t)i);
		}
		merge_queue_ring(m, (uint16_t)i);
	}
}

/* ---- gaps ------------------------------------------------------------------------------------ */

/* A ring that will run over if the merge goes on waiting. */
static bool merge_is_pressed(const struct tfmt_merge *m)
{
	uint32_t i;

	for (i = 0; i < m->nr_seen; i++) {
		const struct tfmt_merge_head *h = &m->head[i];

		if (h->end - __atomic_load_n(&h->ring->tail, __ATOMIC_RELAXED) >= m->geometry.ring_capacity / 4 * 3)
			return true;
	}
	return false;
}

/* Whether ring i holds a missing record of the domain a little after its next one. */
static bool merge_hides(const struct tfmt_merge *m, uint32_t i, unsigned domain, uint64_t before)
{
	const struct tfmt_ring *ring = m->head[i].ring;
	struct tfmt_record rec;
	uint64_t p;

	for (p = m->position[i]; p < m->head[i].end && p < m->position[i] + SEARCH_DEPTH; p++) {
		if (merge_read(m, ring, p, &rec) && tfmt_domain(rec.kind, rec.device) == domain && rec.order < before)
			return true;
	}
	return false;
}

/*
 * A missing record may lie in this batch after one of another domain whose clock was read late. Returns
 * the domain whose first record is to be taken to get there, or -1.
 */
static int merge_search(const struct tfmt_merge *m, unsigned domain, uint64_t before)
{
	uint32_t i;

	for (i = 0; i < m->nr_listed; i++) {
		const struct tfmt_merge_queue *q = &m->queue[m->listed[i]];

		if (q->first != TFMT_RING_NONE && m->head[q->first].record.order <= m->order[m->listed[i]] &&
		    merge_hides(m, q->first, domain, before))
			return m->listed[i];
	}
	return -1;
}

/* ---- the stream ------------------------------------------------------------------------------ */

static bool head_is_before(const struct tfmt_merge_head *a, const struct tfmt_merge_head *b)
{
	return a->record.time_ns != b->record.time_ns ? a->record.time_ns < b->record.time_ns : a->rank < b->rank;
}

static const struct tfmt_merge_head *first_of(const struct tfmt_merge *m, int domain)
{
	return &m->head[m->queue[domain].first];
}

/*
 * Choose the domain with the earliest record that is due (*due), and the one with the earliest that still waits
 * for another (*waiting); -1 if there is none. A record that was passed over when it was missing is due at once.
 */
static void merge_choose(struct tfmt_merge *m, int *due, int *waiting)
{
	uint32_t i = 0;

	*due = *waiting = -1;
	while (i < m->nr_listed) {
		int domain = m->listed[i];
		int *best;

		if (m->queue[domain].first == TFMT_RING_NONE) {
			m->queue[domain].is_listed = false;
			m->listed[i] = m->listed[--m->nr_listed];
			continue;
		}
		best = first_of(m, domain)->record.order <= m->order[domain] ? due : waiting;
		if (*best < 0 || head_is_before(first_of(m, domain), first_of(m, *best)))
			*best = domain;
		i++;
	}
}

/* Before the oldest record of a ring that is left, or in the place of all. */
static void merge_tell_overwritten(struct tfmt_merge *m, uint16_t i, uint64_t time_ns, struct tfmt_event *ev)
{
	*ev = (struct tfmt_event){
		.kind = TFMT_LOST,
		.time_ns = time_ns,
		.order = m->order[TFMT_DOMAIN_DRIVER],
		.size = m->head[i].overwritten,
		.thread = m->head[i].thread,
		.device = TFMT_DEVICE_NONE,
		.alloc_ordinal = TFMT_NO_ORDINAL,
	};
	m->head[i].overwritten = 0;
	m->nr_overwritten--;
}

/* Field by field: a compound literal is cleared first, by an instruction that takes longer than all the rest. */
static inline void merge_fill(struct tfmt_event *ev, const struct tfmt_record *rec, uint32_t thread)
{
	ev->time_ns = rec->time_ns;
	ev->address = rec->address;
	ev->size = rec->size;
	ev->aux = rec->aux;
	ev->order = rec->order;
	ev->python_stack = rec->python_stack;
	ev->native_stack = rec->native_stack;
	ev->shape = rec->shape;
	ev->thread = thread;
	ev->stream = rec->stream;
	ev->function = rec->function;
	ev->flags = rec->flags;
	ev->kind = rec->kind;
	ev->device = rec->device;
	ev->ordinal = 0;
	ev->alloc_ordinal = TFMT_NO_ORDINAL;
	ev->before = false;
}

/* Where a run of records of one ring and one domain ends, while no other ring is taken from. */
struct merge_limit {
	uint64_t order;   /* the next of this domain in another ring */
	uint64_t time_ns; /* of the earliest first record of the other domains */
	uint8_t rank;
};

static struct merge_limit merge_limit(const struct tfmt_merge *m, unsigned domain)
{
	uint16_t rest = m->queue[domain].first;
	struct merge_limit limit = {
		.order = rest == TFMT_RING_NONE ? UINT64_MAX : m->head[rest].record.order,
		.time_ns = UINT64_MAX,
	};

	for (uint32_t i = 0; i < m->nr_listed; i++) {
		const struct tfmt_merge_head *other;

		if (m->listed[i] == domain || m->queue[m->listed[i]].first == TFMT_RING_NONE)
			continue;
		other = first_of(m, m->listed[i]);
		if (other->record.time_ns < limit.time_ns ||
		    (other->record.time_ns == limit.time_ns && other->rank < limit.rank)) {
			limit.time_ns = other->record.time_ns;
			limit.rank = other->rank;
		}
	}
	return limit;
}

/*
 * Copy records of a ring that is in no queue, as long as they are what tfmt_merge_next() would give: of the domain,
 * due, and before all others. Most records come so, and are copied once. Returns how many.
 */
static uint32_t merge_run(struct tfmt_merge *m, uint16_t i, unsigned domain, struct tfmt_event *ev, uint32_t max)
{
	const struct tfmt_ring *ring = m->head[i].ring;
	struct merge_limit limit = merge_limit(m, domain);
	uint64_t mask = m->geometry.ring_capacity - 1, position = m->position[i], order = m->order[domain];
	uint32_t thread = m->head[i].thread, nr = 0;

	for (; nr < max && position < m->head[i].end; nr++, position++) {
		const struct tfmt_record *slot = &ring->record[position & mask];

		/* Not what is still being written: its writer would have to fetch it back. */
		if (m->head[i].end - position > FETCH_AHEAD)
			__builtin_prefetch(&ring->record[(position + FETCH_AHEAD) & mask]);
		if (!record_is_whole(m, slot, position))
			break;
		merge_fill(&ev[nr], slot, thread);
		if (ev[nr].kind == TFMT_NONE || ev[nr].kind >= TFMT_NR_KINDS ||
		    tfmt_domain(ev[nr].kind, ev[nr].device) != domain || ev[nr].order > order ||
		    ev[nr].order >= limit.order || ev[nr].time_ns > limit.time_ns ||
		    (ev[nr].time_ns == limit.time_ns && record_rank(ev[nr].kind) >= limit.rank))
			break;
		order += order == ev[nr].order;
	}
	m->position[i] = position;
	m->order[domain] = order;
	return nr;
}

/* Take the first record of a domain, and up to `max` in all that come right after it. Returns how many. */
static uint32_t merge_take(struct tfmt_merge *m, int domain, struct tfmt_event *ev, uint32_t max)
{
	uint16_t i = m->queue[domain].first;
	const struct tfmt_record *rec = &m->head[i].record;
	uint32_t nr = 1;

	if (m->head[i].overwritten) {
		merge_tell_overwritten(m, i, rec->time_ns, ev);
		return 1;
	}
	merge_fill(ev, rec, m->head[i].thread);
	if (m->order[domain] <= rec->order)
		m->order[domain] = rec->order + 1;
	m->queue[domain].first = queue_rest(m, i);
	m->position[i]++;
	if (max > 1)
		nr += merge_run(m, i, (unsigned)domain, ev + 1, max - 1);
	merge_queue_ring(m, i);
	return nr;
}

/*
 * The earliest record waits, and none that is due is earlier. What is missing has been numbered by a thread that
 * has not yet published it: it will, and be due then. A gap noticed for the first time may be none: the rings'
 * heads are not read at one instant, so they are read again. Returns as tfmt_merge_next() does, or AGAIN.
 */
static int merge_gap(struct tfmt_merge *m, int domain, int due, uint64_t now_ns, uint64_t gap_ns, struct tfmt_event *ev)
{
	uint64_t lowest = first_of(m, domain)->record.order, waited;
	int hiding;
	bool pressed;

	if (m->gap_order[domain] != m->order[domain] + 1) {
		m->gap_order[domain] = m->order[domain] + 1;
		m->gap_since[domain] = now_ns;
		return AGAIN;
	}
	hiding = merge_search(m, (unsigned)domain, lowest);
	if (hiding >= 0) {
		return (int)merge_take(m, hiding, ev, 1);
	}
	pressed = merge_is_pressed(m);
	waited = now_ns - m->gap_since[domain];
	if (waited >= gap_ns || (pressed && waited >= PRESSED_GAP_NS)) {
		m->order[domain] = lowest;
		return AGAIN;
	}
	/* Better out of order by clock than a full ring, where what is missing may find no room. */
	if (due < 0 || !pressed)
		return 0;
	return (int)merge_take(m, due, ev, 1);
}

/* Rings that no whole record is left of: nobody knows when it was. Returns as tfmt_merge_next() does. */
static int merge_rest_is_lost(struct tfmt_merge *m, struct tfmt_event *ev)
{
	for (uint16_t i = 0; i < m->nr_seen; i++) {
		if (m->head[i].overwritten && m->position[i] >= m->head[i].end) {
			merge_tell_overwritten(m, i, 0, ev);
			return 1;
		}
	}
	return 0;
}

/* As tfmt_merge_next(), but up to `max` events that follow one another; returns how many. */
static uint32_t merge_some(struct tfmt_merge *m, uint64_t now_ns, uint64_t gap_ns, struct tfmt_event *ev, uint32_t max)
{
	bool fresh = false;
	int due, waiting, got;

	for (;;) {
		merge_choose(m, &due, &waiting);
		if (due >= 0 && (waiting < 0 || !head_is_before(first_of(m, waiting), first_of(m, due))))
			return merge_take(m, due, ev, max);
		if (!fresh) {
			merge_refresh(m);
			fresh = true;
			continue;
		}
		got = waiting < 0 ? 0 : merge_gap(m, waiting, due, now_ns, gap_ns, ev);
		if (!got && m->nr_overwritten && (!gap_ns || m->from_given)) /* else a whole one may yet come */
			return (uint32_t)merge_rest_is_lost(m, ev);
		if (got != AGAIN)
			return (uint32_t)got;
		merge_refresh(m);
	}
}

int tfmt_merge_next(struct tfmt_merge *m, uint64_t now_ns, uint64_t gap_ns, struct tfmt_event *ev)
{
	return (int)merge_some(m, now_ns, gap_ns, ev, 1);
}

uint32_t tfmt_merge_events(struct tfmt_merge *m, uint64_t now_ns, uint64_t gap_ns, struct tfmt_event *ev, uint32_t max)
{
	uint32_t nr = 0, got = 1;

	while (got && nr < max) {
		got = merge_some(m, now_ns, gap_ns, &ev[nr], max - nr);
		nr += got;
	}
	return nr;
}
