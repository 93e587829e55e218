/* SPDX-License-Identifier: MIT */
/* Pieces of page-locked memory between the entries of devices. */
#include "analyzer/imports/snapshothost.h"

#include <stdlib.h>

#include "analyzer/imports/snapshotdefine.h"

static void write_event(const struct snapshot *s, struct tracemaker *t, enum tfmt_kind kind, uint64_t time_ns,
			const struct addressmap_entry *piece)
{
	struct tfmt_event ev = { .kind = (uint8_t)kind, .time_ns = time_ns, .address = piece->address, .size = piece->size,
				 .flags = TFMT_SPACE_PINNED };

	snapshotdefine_call(s, piece->stack, &ev);
	tracemaker_event(t, &ev);
}

static struct addressmap_entry piece_of(const struct snapshot_entry *e)
{
	return (struct addressmap_entry){ .address = e->address, .size = e->size, .stack = e->stack };
}

/* One entry undone. */
static void undo(struct snapshothost *h, const struct snapshot_entry *e)
{
	if (e->action == TFMT_ALLOCATOR_SEGMENT_ALLOC)
		addressmap_remove(&h->now, e->address);
	else if (e->action == TFMT_ALLOCATOR_SEGMENT_FREE)
		addressmap_put(&h->now, piece_of(e));
}

void snapshothost_begin(struct snapshothost *h, const struct snapshot *s, struct tracemaker *t, uint64_t time_ns)
{
	struct addressmap_entry *piece;

	for (size_t i = 0; i < s->nr_host_segments; i++) {
		const struct snapshot_segment *g = &s->host_segment[i];

		addressmap_put(&h->now, (struct addressmap_entry){ .address = g->address, .size = g->size, .stack = g->stack });
	}
	for (size_t i = s->host.nr_entries; i-- > 0;)
		undo(h, &s->host.entry[i]);
	piece = addressmap_sorted(&h->now);
	for (size_t i = 0; i < h->now.nr; i++)
		write_event(s, t, TFMT_DRIVER_ALLOC, time_ns, &piece[i]);
	free(piece);
}

static void give(struct snapshothost *h, const struct snapshot *s, struct tracemaker *t, uint64_t time_ns, uint64_t address)
{
	const struct addressmap_entry *live = addressmap_find(&h->now, address);

	if (!live)
		return;
	write_event(s, t, TFMT_DRIVER_FREE, time_ns, live);
	addressmap_remove(&h->now, address);
}

static void take(struct snapshothost *h, const struct snapshot *s, struct tracemaker *t, uint64_t time_ns,
		 struct addressmap_entry piece)
{
	if (addressmap_find(&h->now, piece.address)) {
		give(h, s, t, time_ns, piece.address);
		h->nr_unexplained++;
	}
	write_event(s, t, TFMT_DRIVER_ALLOC, time_ns, &piece);
	addressmap_put(&h->now, piece);
}

/* What the end does not have goes, what it has besides comes. */
static void settle(struct snapshothost *h, const struct snapshot *s, struct tracemaker *t)
{
	struct addressmap end = { 0 };
	struct addressmap_entry *now = addressmap_sorted(&h->now);
	size_t nr_now = h->now.nr;

	for (size_t i = 0; i < s->nr_host_segments; i++)
		addressmap_put(&end, (struct addressmap_entry){ .address = s->host_segment[i].address,
								.size = s->host_segment[i].size,
								.stack = s->host_segment[i].stack });
	for (size_t i = 0; i < nr_now; i++) {
		const struct addressmap_entry *kept = addressmap_find(&end, now[i].address);

		if (kept && kept->size == now[i].size)
			continue;
		give(h, s, t, t->time_ns, now[i].address);
		h->nr_unexplained++;
	}
	free(now);
	now = addressmap_sorted(&end);
	for (size_t i = 0; i < end.nr; i++) {
		if (addressmap_find(&h->now, now[i].address))
			continue;
		take(h, s, t, t->time_ns, now[i]);
		h->nr_unexplained++;
	}
	free(now);
	addressmap_release(&end);
}

void snapshothost_until(struct snapshothost *h, const struct snapshot *s, struct tracemaker *t, uint64_t time_ns)
{
	for (; h->next < s->host.nr_entries; h->next++) {
		const struct snapshot_entry *e = &s->host.entry[h->next];
		uint64_t at_ns = s->has_times ? e->time_us * NS_PER_US : t->time_ns;

		if (at_ns > time_ns)
			return;
		if (e->action == TFMT_ALLOCATOR_SEGMENT_ALLOC)
			take(h, s, t, at_ns, piece_of(e));
		else if (e->action == TFMT_ALLOCATOR_SEGMENT_FREE)
			give(h, s, t, at_ns, e->address);
	}
	if (time_ns == UINT64_MAX)
		settle(h, s, t);
}

void snapshothost_release(struct snapshothost *h)
{
	addressmap_release(&h->now);
}
