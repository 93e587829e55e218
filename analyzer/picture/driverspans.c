/* SPDX-License-Identifier: MIT */
/* Pieces of driver memory as they come and go. */
#include "analyzer/picture/driverspans.h"

#include <stdlib.h>

#include "analyzer/base/heap.h"

#define SPANS_MAX 65536 /* when so many are kept, the smaller half of those that have ended is dropped */

/* Where the books put what this event made; 0: it is no memory of a device. */
static const struct block *block_of(const struct books *books, const struct tfmt_event *ev)
{
	static const uint8_t spaces[] = { BLOCK_DRIVER, BLOCK_ARRAY };

	if (ev->kind == TFMT_MAP)
		return books_block(books, BLOCK_MAPPING, ev->address);
	for (size_t i = 0; i < sizeof(spaces); i++) {
		const struct block *b = books_block(books, spaces[i], ev->address);

		if (b && b->ordinal == ev->ordinal)
			return b;
	}
	return NULL;
}

static int larger_first(const void *va, const void *vb)
{
	const struct driverspan *a = va, *b = vb;

	return (a->bytes < b->bytes) - (a->bytes > b->bytes);
}

/* Live ones first, in their order, then what has ended, the largest first: the rest of those goes. */
static void drop_small(struct driverspans *s)
{
	struct driverspan *ended = heap_alloc(s->nr_spans, sizeof(*ended));
	size_t nr_ended = 0, nr_live = 0;

	blocks_close(s->live);
	s->live = blocks_open();
	for (size_t i = 0; i < s->nr_spans; i++) {
		struct driverspan span = s->span[i];

		if (span.until_ns != DRIVERSPANS_LIVE) {
			ended[nr_ended++] = span;
			continue;
		}
		s->span[nr_live] = span;
		blocks_insert(s->live, &(struct block){ .address = span.address, .ordinal = nr_live, .space = span.space });
		nr_live++;
	}
	qsort(ended, nr_ended, sizeof(*ended), larger_first);
	s->nr_spans = nr_live;
	for (size_t i = 0; i < nr_ended / 2; i++)
		s->span[s->nr_spans++] = ended[i];
	s->nr_left_out += nr_ended - nr_ended / 2;
	free(ended);
}

static void end_span(struct driverspans *s, struct block *live, const struct tfmt_event *ev, uint64_t time_ns)
{
	struct driverspan *span = &s->span[live->ordinal];

	span->until_ns = time_ns;
	span->ended_by = ev->ordinal;
	blocks_remove(s->live, live);
}

static void begin_span(struct driverspans *s, const struct replay_process *process, const struct tfmt_event *ev,
		       uint64_t time_ns)
{
	const struct block *b = block_of(process->books, ev);
	const struct block *memory = b && ev->kind == TFMT_MAP ? books_block(process->books, BLOCK_HANDLE, b->handle) : b;
	const struct group *g = memory ? books_group(process->books, memory->group) : NULL;
	struct block *stale;

	if (!g || g->device >= TFMT_NR_DEVICES || (ev->kind != TFMT_MAP && !group_is_device_memory(g)))
		return;
	if (!s->live)
		s->live = blocks_open();
	stale = blocks_find(s->live, b->space, b->address);
	if (stale)
		end_span(s, stale, ev, time_ns);
	if (s->nr_spans >= SPANS_MAX)
		drop_small(s);
	s->span = heap_grow(s->span, &s->room, s->nr_spans + 1, sizeof(*s->span));
	s->span[s->nr_spans] = (struct driverspan){
		.from_ns = time_ns,
		.until_ns = DRIVERSPANS_LIVE,
		.address = b->address,
		.bytes = b->size,
		.begun_by = ev->ordinal,
		.ended_by = TFMT_NO_ORDINAL,
		.group = memory->group,
		.device = g->device,
		.space = b->space,
	};
	blocks_insert(s->live, &(struct block){ .address = b->address, .ordinal = s->nr_spans, .space = b->space });
	s->nr_spans++;
}

/* What is freed begins at its address; what is unmapped may be many pieces. */
static void end_spans(struct driverspans *s, const struct tfmt_event *ev, uint64_t time_ns)
{
	static const uint8_t spaces[] = { BLOCK_DRIVER, BLOCK_ARRAY };

	for (size_t i = 0; s->live && ev->kind == TFMT_DRIVER_FREE && i < sizeof(spaces); i++) {
		struct block *live = blocks_find(s->live, spaces[i], ev->address);

		if (live && s->span[live->ordinal].ended_by == TFMT_NO_ORDINAL) {
			end_span(s, live, ev, time_ns);
			return;
		}
	}
	for (size_t i = 0; ev->kind == TFMT_UNMAP && i < s->nr_spans; i++) {
		const struct driverspan *span = &s->span[i];

		if (span->until_ns == DRIVERSPANS_LIVE && span->space == BLOCK_MAPPING && span->address >= ev->address &&
		    span->address - ev->address < ev->size)
			end_span(s, blocks_find(s->live, BLOCK_MAPPING, span->address), ev, time_ns);
	}
}

/* A free that failed after all, or a context that has gone with all that was its own. */
static void undo_or_reset(struct driverspans *s, const struct replay_process *process, const struct tfmt_event *ev,
			  uint64_t time_ns)
{
	for (size_t i = 0; i < s->nr_spans; i++) {
		struct driverspan *span = &s->span[i];
		bool is_live = span->until_ns == DRIVERSPANS_LIVE;

		if (ev->kind == TFMT_FREE_FAILED && !is_live && span->ended_by == ev->alloc_ordinal &&
		    !blocks_find(s->live, span->space, span->address)) {
			span->until_ns = DRIVERSPANS_LIVE;
			span->ended_by = TFMT_NO_ORDINAL;
			blocks_insert(s->live, &(struct block){ .address = span->address, .ordinal = i, .space = span->space });
		}
		if (ev->kind == TFMT_RESET && is_live && span->device == ev->device &&
		    !books_block(process->books, (enum block_space)span->space, span->address))
			end_span(s, blocks_find(s->live, span->space, span->address), ev, time_ns);
	}
}

void driverspans_observe(struct driverspans *s, const struct replay_process *process, const struct tfmt_event *ev,
			 uint64_t time_ns)
{
	switch (ev->kind) {
	case TFMT_DRIVER_ALLOC:
	case TFMT_MAP:
		if (!books_is_pooled_tensor(process->books, ev))
			begin_span(s, process, ev, time_ns);
		break;
	case TFMT_DRIVER_FREE:
	case TFMT_UNMAP:
		end_spans(s, ev, time_ns);
		break;
	case TFMT_FREE_FAILED:
	case TFMT_RESET:
		undo_or_reset(s, process, ev, time_ns);
		break;
	default:
		break;
	}
}

void driverspans_release(struct driverspans *s)
{
	free(s->span);
	blocks_close(s->live);
	*s = (struct driverspans){ 0 };
}
