/* SPDX-License-Identifier: MIT */
/*
 * The events of a snapshot, all devices by time. What was there before the first entry comes first; what the entries leave
 * open at their end is set right, so that the trace ends with what the snapshot has.
 */
#include "analyzer/imports/snapshottrace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/imports/snapshotdefine.h"
#include "analyzer/imports/snapshothost.h"
#include "analyzer/imports/snapshotplay.h"
#include "analyzer/imports/snapshotranges.h"
#include "analyzer/imports/tracemaker.h"

#define PAGES_MAX (1u << 24)
#define CUDA_OUT_OF_MEMORY 2 /* cudaErrorMemoryAllocation, CUDA_ERROR_OUT_OF_MEMORY */

struct snapshottrace {
	struct snapshot *s;
	struct tracemaker t;
	struct snapshotplay play[TFMT_NR_DEVICES];
	size_t at[TFMT_NR_DEVICES]; /* the next entry */
	struct snapshotranges ranges;
	struct snapshothost host;
	uint64_t time_ns;           /* of what is written next */
	uint64_t nr_pages;          /* written so far */
};

/* ---- single events -------------------------------------------------------------------------------- */

static struct tfmt_event event(const struct snapshottrace *w, const struct snapshotplay *p, enum tfmt_kind kind,
			       uint32_t stack)
{
	struct tfmt_event ev = { .time_ns = w->time_ns, .kind = (uint8_t)kind, .device = (uint8_t)p->device };

	snapshotdefine_stack(w->s, stack, &ev);
	return ev;
}

static void tell(struct snapshottrace *w, const struct snapshotplay *p, unsigned action, uint64_t address, uint64_t size)
{
	struct tfmt_event ev = event(w, p, TFMT_ALLOCATOR, 0);

	ev.address = address;
	ev.size = size;
	ev.aux = action;
	tracemaker_event(&w->t, &ev);
}

/* TENSOR_FREE; the block ends for good, or its memory waits for other streams. */
static void write_free(struct snapshottrace *w, struct snapshotplay *p, const struct addressmap_entry *b, uint32_t stack,
		       bool is_pending)
{
	struct tfmt_event ev = event(w, p, TFMT_TENSOR_FREE, stack);

	ev.address = b->address;
	ev.size = b->size;
	ev.aux = p->reserved;
	tell(w, p, TFMT_ALLOCATOR_FREE_REQUESTED, b->address, b->requested);
	if (!is_pending)
		tell(w, p, TFMT_ALLOCATOR_FREE_COMPLETED, b->address, b->requested);
	tracemaker_event(&w->t, &ev);
	snapshotplay_free(p, b->address, is_pending);
}

/* A block whose memory waits for other streams is one that was handed out and freed. */
static void write_alloc(struct snapshottrace *w, struct snapshotplay *p, struct addressmap_entry b)
{
	struct tfmt_event ev = event(w, p, TFMT_TENSOR_ALLOC, b.stack);
	bool is_pending = b.state == SNAPSHOT_PENDING;

	b.state = SNAPSHOT_ALLOCATED;
	b.size = snapshotplay_alloc(p, b);
	ev.address = b.address;
	ev.size = b.size;
	ev.aux = p->reserved;
	ev.stream = b.stream;
	ev.flags |= b.is_private ? TFMT_FLAG_CAPTURING : 0;
	tell(w, p, TFMT_ALLOCATOR_ALLOC, b.address, b.requested ? b.requested : b.size);
	tracemaker_event(&w->t, &ev);
	if (is_pending)
		write_free(w, p, &b, 0, true);
}

static void write_driver(struct snapshottrace *w, const struct snapshotplay *p, enum tfmt_kind kind, enum tfmt_space space,
			 const struct addressmap_entry *range)
{
	struct tfmt_event ev = event(w, p, kind, range->stack);

	snapshotdefine_call(w->s, range->stack, &ev);
	ev.address = range->address;
	ev.size = range->size;
	ev.flags = (uint16_t)space;
	if (kind == TFMT_MAP)
		ev.aux = range->address; /* the handle is called as its place */
	tracemaker_event(&w->t, &ev);
}

/* ---- segments ------------------------------------------------------------------------------------- */

static void write_take(struct snapshottrace *w, struct snapshotplay *p, struct addressmap_entry segment)
{
	write_driver(w, p, TFMT_DRIVER_ALLOC, TFMT_SPACE_DEVICE, &segment);
	snapshotplay_take(p, segment);
}

static void write_give(struct snapshottrace *w, struct snapshotplay *p, struct addressmap_entry segment)
{
	write_driver(w, p, TFMT_DRIVER_FREE, TFMT_SPACE_DEVICE, &segment);
	snapshotplay_give(p, segment.address);
}

/*
 * Each page is memory of its own, so that any can go without the others. A file may claim as many as it likes: those of
 * real ones are a million at most, and what is beyond goes and comes as a whole.
 */
static void each_page(struct snapshottrace *w, struct snapshotplay *p, const struct addressmap_entry *range,
		      enum tfmt_kind kind)
{
	uint64_t page = snapshotplay_page_bytes(p, range->address), end = range->address + range->size;
	struct addressmap_entry part = *range;

	if (w->nr_pages > PAGES_MAX || range->size / page > PAGES_MAX - w->nr_pages)
		page = range->size;
	w->nr_pages += range->size / page;
	for (; part.address < end; part.address += part.size) {
		part.size = end - part.address < page ? end - part.address : page;
		write_driver(w, p, kind, TFMT_SPACE_HANDLE, &part);
		if (kind == TFMT_DRIVER_ALLOC)
			write_driver(w, p, TFMT_MAP, TFMT_SPACE_DEVICE, &part);
	}
}

static void write_map(struct snapshottrace *w, struct snapshotplay *p, struct addressmap_entry range)
{
	each_page(w, p, &range, TFMT_DRIVER_ALLOC);
	snapshotplay_map(p, range.address, range.size);
}

static void write_unmap(struct snapshottrace *w, struct snapshotplay *p, struct addressmap_entry range)
{
	write_driver(w, p, TFMT_UNMAP, TFMT_SPACE_DEVICE, &range);
	each_page(w, p, &range, TFMT_DRIVER_FREE);
	snapshotplay_unmap(p, range.address, range.size);
}

/* ---- the beginning and the end -------------------------------------------------------------------- */

/* Blocks of known size first, then the others from the highest address on: each ends where the next begins at the latest. */
static void place_blocks(struct snapshottrace *w, struct snapshotplay *p)
{
	struct addressmap_entry *block = addressmap_sorted(&p->now.blocks);
	size_t nr = p->now.blocks.nr;

	addressmap_release(&p->now.blocks);
	for (size_t i = 0; i < nr; i++)
		if (block[i].size)
			write_alloc(w, p, block[i]);
	for (size_t i = nr; i-- > 0;)
		if (!block[i].size)
			write_alloc(w, p, block[i]);
	free(block);
}

static void write_beginning(struct snapshottrace *w, struct snapshotplay *p)
{
	struct addressmap_entry *segment = addressmap_sorted(&p->now.segments);

	for (size_t i = 0; i < p->now.segments.nr; i++)
		write_driver(w, p, TFMT_DRIVER_ALLOC, TFMT_SPACE_DEVICE, &segment[i]);
	free(segment);
	for (size_t i = 0; i < p->reach.nr; i++)
		write_driver(w, p, TFMT_DRIVER_ALLOC, TFMT_SPACE_RESERVED,
			     &(struct addressmap_entry){ .address = p->reach.range[i].address,
							 .size = p->reach.range[i].size });
	for (size_t i = 0; i < p->now.pages.nr; i++)
		each_page(w, p,
			  &(struct addressmap_entry){ .address = p->now.pages.range[i].address,
						      .size = p->now.pages.range[i].size },
			  TFMT_DRIVER_ALLOC);
	place_blocks(w, p);
}

static bool is_same(const struct addressmap_entry *a, const struct addressmap_entry *b)
{
	return a && b && a->size == b->size;
}

/* What the end does not have goes, what it has besides comes. */
static void settle_blocks(struct snapshottrace *w, struct snapshotplay *p)
{
	struct addressmap_entry *block = addressmap_sorted(&p->now.blocks);
	size_t nr = p->now.blocks.nr;

	for (size_t i = 0; i < nr; i++) {
		const struct addressmap_entry *end = addressmap_find(&p->end.blocks, block[i].address);

		if (is_same(end, &block[i]) && end->state == block[i].state && !addressmap_find(&p->late, block[i].address))
			continue;
		if (block[i].state == SNAPSHOT_PENDING)
			snapshotplay_free(p, block[i].address, false);
		else
			write_free(w, p, &block[i], 0, false);
		p->nr_unexplained++;
	}
	free(block);
}

static void settle_segments(struct snapshottrace *w, struct snapshotplay *p)
{
	struct addressmap_entry *now = addressmap_sorted(&p->now.segments), *end = addressmap_sorted(&p->end.segments);
	size_t nr_now = p->now.segments.nr;

	for (size_t i = 0; i < nr_now; i++)
		if (!is_same(addressmap_find(&p->end.segments, now[i].address), &now[i])) {
			write_give(w, p, now[i]);
			p->nr_unexplained++;
		}
	for (size_t i = 0; i < p->end.segments.nr; i++)
		if (!is_same(addressmap_find(&p->now.segments, end[i].address), &end[i])) {
			write_take(w, p, end[i]);
			p->nr_unexplained++;
		}
	free(now);
	free(end);
}

static void settle_late(struct snapshottrace *w, struct snapshotplay *p)
{
	struct addressmap_entry *end = addressmap_sorted(&p->end.blocks);

	for (size_t i = 0; i < p->end.blocks.nr; i++)
		if (!is_same(addressmap_find(&p->now.blocks, end[i].address), &end[i])) {
			write_alloc(w, p, end[i]);
			p->nr_unexplained++;
		}
	free(end);
}

/* The parts of one list of ranges that the other does not have. */
static void each_missing(struct snapshottrace *w, struct snapshotplay *p, const struct pageranges *from,
			 const struct pageranges *have, void (*fn)(struct snapshottrace *, struct snapshotplay *,
								   struct addressmap_entry))
{
	struct pageranges missing = { 0 };

	for (size_t i = 0; i < from->nr; i++)
		pageranges_add(&missing, from->range[i].address, from->range[i].size, 1);
	for (size_t i = 0; i < have->nr; i++)
		pageranges_remove(&missing, have->range[i].address, have->range[i].size);
	for (size_t i = 0; i < missing.nr; i++)
		fn(w, p,
		   (struct addressmap_entry){ .address = missing.range[i].address, .size = missing.range[i].size });
	p->nr_unexplained += missing.nr;
	pageranges_release(&missing);
}

static void write_end(struct snapshottrace *w, struct snapshotplay *p)
{
	settle_blocks(w, p);
	each_missing(w, p, &p->now.pages, &p->end.pages, write_unmap);
	each_missing(w, p, &p->end.pages, &p->now.pages, write_map);
	settle_segments(w, p);
	settle_late(w, p);
}

/* ---- entries -------------------------------------------------------------------------------------- */

/*
 * The allocator asks the driver for a segment before it gives up, unless a limit of the user's forbids it: that there was
 * not so much says which it was.
 */
static void write_refusal(struct snapshottrace *w, const struct snapshotplay *p, const struct snapshot_entry *e)
{
	struct tfmt_event ev = event(w, p, TFMT_MEMORY_INFO, 0);

	ev.size = e->address;
	tracemaker_event(&w->t, &ev);
	ev = event(w, p, TFMT_ALLOC_FAILED, e->stack);
	snapshotdefine_call(w->s, e->stack, &ev);
	ev.size = snapshotplay_segment_bytes(p, e->size);
	ev.aux = CUDA_OUT_OF_MEMORY;
	if (e->address < ev.size)
		tracemaker_event(&w->t, &ev);
}

static void write_oom(struct snapshottrace *w, const struct snapshotplay *p, const struct snapshot_entry *e)
{
	struct tfmt_event ev = event(w, p, TFMT_TENSOR_OOM, e->stack);

	write_refusal(w, p, e);
	tell(w, p, TFMT_ALLOCATOR_OOM, e->address, e->size);
	ev.address = p->allocated;
	ev.size = e->size;
	ev.aux = p->reserved;
	ev.stream = e->stream;
	tracemaker_event(&w->t, &ev);
}

/* Is the free that was asked for done at once, as nearly always? */
static bool is_done_at_once(const struct snapshot_device *d, size_t at)
{
	return at + 1 < d->nr_entries && d->entry[at + 1].action == TFMT_ALLOCATOR_FREE_COMPLETED &&
	       d->entry[at + 1].address == d->entry[at].address;
}

static void write_free_of(struct snapshottrace *w, struct snapshotplay *p, const struct snapshot_entry *e, bool is_pending)
{
	const struct addressmap_entry *b = addressmap_find(&p->now.blocks, e->address);
	struct addressmap_entry freed;

	if (!b)
		return;
	freed = *b;
	if (freed.state == SNAPSHOT_ALLOCATED)
		write_free(w, p, &freed, e->stack, is_pending);
	else if (!is_pending) {
		tell(w, p, TFMT_ALLOCATOR_FREE_COMPLETED, freed.address, freed.requested);
		snapshotplay_free(p, freed.address, false);
	}
}

static struct addressmap_entry entry_range(const struct snapshot *s, const struct snapshot_entry *e)
{
	uint32_t none = s->has_stacks ? SNAPSHOTDEFINE_NO_PYTHON : 0;

	return (struct addressmap_entry){ .address = e->address,
					  .size = e->size,
					  .requested = e->size,
					  .stack = e->stack ? e->stack : none,
					  .stream = e->stream,
					  .state = SNAPSHOT_ALLOCATED,
					  .is_private = e->is_private };
}

/* The allocator hands out an address again: what was there has been freed, which no entry says. */
static void write_alloc_of(struct snapshottrace *w, struct snapshotplay *p, const struct snapshot_entry *e)
{
	const struct addressmap_entry *before = addressmap_find(&p->now.blocks, e->address);
	struct addressmap_entry b = entry_range(w->s, e);

	if (before) {
		const struct addressmap_entry freed = *before;

		if (freed.state == SNAPSHOT_ALLOCATED)
			write_free(w, p, &freed, 0, false);
		else
			snapshotplay_free(p, freed.address, false);
		p->nr_unexplained++;
	}
	b.size = snapshotplay_known_size(p, e);
	write_alloc(w, p, b);
}

/* Returns how many entries that was: a free that is done at once is two. */
static size_t write_entry(struct snapshottrace *w, struct snapshotplay *p, size_t at)
{
	const struct snapshot_device *d = &w->s->device[p->device];
	const struct snapshot_entry *e = &d->entry[at];
	const struct addressmap_entry *g;
	bool at_once;

	snapshotranges_label(&w->ranges, w->s, &w->t, w->time_ns, p->device, e->label);
	switch (e->action) {
	case TFMT_ALLOCATOR_ALLOC:
		write_alloc_of(w, p, e);
		break;
	case TFMT_ALLOCATOR_FREE_REQUESTED:
		at_once = is_done_at_once(d, at);
		write_free_of(w, p, e, !at_once);
		return 1 + at_once;
	case TFMT_ALLOCATOR_FREE_COMPLETED:
		write_free_of(w, p, e, false);
		break;
	case TFMT_ALLOCATOR_SEGMENT_ALLOC:
		write_take(w, p, entry_range(w->s, e));
		break;
	case TFMT_ALLOCATOR_SEGMENT_FREE:
		g = addressmap_find(&p->now.segments, e->address);
		if (g)
			write_give(w, p, *g);
		break;
	case TFMT_ALLOCATOR_SEGMENT_MAP:
		write_map(w, p, entry_range(w->s, e));
		break;
	case TFMT_ALLOCATOR_SEGMENT_UNMAP:
		write_unmap(w, p, entry_range(w->s, e));
		break;
	case TFMT_ALLOCATOR_OOM:
		write_oom(w, p, e);
		break;
	default: /* a snapshot was taken */
		break;
	}
	return 1;
}

/* ---- all devices ---------------------------------------------------------------------------------- */

/* The device whose next entry is the earliest; -1: there is none left. */
static int next_device(const struct snapshottrace *w)
{
	int next = -1;

	for (uint32_t i = 0; i < w->s->nr_devices; i++) {
		const struct snapshot_device *d = &w->s->device[i];

		if (w->at[i] < d->nr_entries && (next < 0 || d->entry[w->at[i]].time_us <
								     w->s->device[next].entry[w->at[next]].time_us))
			next = (int)i;
	}
	return next;
}

/* Without times each entry is a microsecond after the one before, so that they have an order. */
static void set_time(struct snapshottrace *w, const struct snapshot_entry *e)
{
	w->time_ns = w->s->has_times ? e->time_us * NS_PER_US : w->time_ns + NS_PER_US;
}

static void write_entries(struct snapshottrace *w)
{
	int next;

	while ((next = next_device(w)) >= 0 && !w->t.err) {
		const struct snapshot_entry *e = &w->s->device[next].entry[w->at[next]];

		set_time(w, e);
		snapshotranges_until(&w->ranges, w->s, &w->t, w->time_ns);
		snapshothost_until(&w->host, w->s, &w->t, w->time_ns);
		w->at[next] += write_entry(w, &w->play[next], w->at[next]);
	}
	snapshotranges_until(&w->ranges, w->s, &w->t, UINT64_MAX);
	snapshothost_until(&w->host, w->s, &w->t, UINT64_MAX);
}

static uint64_t earlier_time_us(const struct snapshot_device *d, uint64_t first)
{
	for (size_t k = 0; k < d->nr_entries; k++)
		if (d->entry[k].time_us && d->entry[k].time_us < first)
			first = d->entry[k].time_us;
	return first;
}

static uint64_t first_time_us(const struct snapshot *s)
{
	uint64_t first = earlier_time_us(&s->host, UINT64_MAX);

	for (uint32_t i = 0; i < s->nr_devices; i++)
		first = earlier_time_us(&s->device[i], first);
	return first == UINT64_MAX ? 0 : first;
}

struct tfmt_header snapshottrace_header(const struct snapshot *s)
{
	uint64_t start = first_time_us(s) * NS_PER_US;

	return (struct tfmt_header){ .start_mono_ns = start,
				     .start_real_ns = start,
				     .image_start_ns = start,
				     .storage = TFMT_STORAGE_ANONYMOUS };
}

int snapshottrace_write(struct snapshot *s, const struct tfmt_header *header, int fd, struct snapshottrace_result *result)
{
	struct snapshottrace *w = heap_alloc(1, sizeof(*w));
	int err;

	w->s = s;
	w->time_ns = header->start_mono_ns;
	tracemaker_open(&w->t, fd, header);
	snapshotdefine_all(s, &w->t);
	for (uint32_t i = 0; i < s->nr_devices; i++) {
		snapshotplay_begin(&w->play[i], s, i);
		write_beginning(w, &w->play[i]);
	}
	snapshothost_begin(&w->host, s, &w->t, w->time_ns);
	write_entries(w);
	result->nr_unexplained += w->host.nr_unexplained;
	for (uint32_t i = 0; i < s->nr_devices; i++) {
		write_end(w, &w->play[i]);
		result->nr_unexplained += w->play[i].nr_unexplained;
		snapshotplay_release(&w->play[i]);
	}
	snapshotranges_release(&w->ranges);
	snapshothost_release(&w->host);
	err = tracemaker_close(&w->t);
	result->nr_events = w->t.nr_events;
	result->error = w->t.error;
	free(w);
	return err;
}
