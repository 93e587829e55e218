/* SPDX-License-Identifier: MIT */
/* Figures of a whole job, and events in effect. */
#include "tracefmt/history.h"
#include "tracefmt/ledger.h"
#include "tracefmt/pages.h"
#include "tracefmt/varint.h"

#include <string.h>

#define FUNCTIONS (1u << 16) /* as many as there are ids */
#define SHAPES_MAX (1u << 24)
#define OPEN_MAX 8192 /* beyond, the oldest are forgotten: some programs never end their ranges */

struct tfmt_history *tfmt_history_new(const struct tfmt_totals *totals, uint8_t time_shift)
{
	struct tfmt_history *h = tfmt_pages_new(sizeof(*h));

	if (!h)
		return NULL;
	h->totals = totals;
	h->time_shift = time_shift;
	h->open_room = 256;
	h->nr_shapes = 4096;
	h->open = tfmt_pages_new(h->open_room * sizeof(*h->open));
	h->shape_bytes = tfmt_pages_new(h->nr_shapes * sizeof(*h->shape_bytes));
	h->is_driver = tfmt_pages_new(FUNCTIONS);
	h->in_backward = tfmt_pages_new(TFMT_HISTORY_THREADS);
	if (h->open && h->shape_bytes && h->is_driver && h->in_backward)
		return h;
	tfmt_history_free(h);
	return NULL;
}

void tfmt_history_free(struct tfmt_history *h)
{
	if (!h)
		return;
	tfmt_pages_free(h->open, h->open_room * sizeof(*h->open));
	tfmt_pages_free(h->shape_bytes, h->nr_shapes * sizeof(*h->shape_bytes));
	tfmt_pages_free(h->is_driver, FUNCTIONS);
	tfmt_pages_free(h->in_backward, TFMT_HISTORY_THREADS);
	tfmt_pages_free(h, sizeof(*h));
}

/* ---- definitions ----------------------------------------------------------------------------- */

static void define_shape(struct tfmt_history *h, uint32_t id, const uint8_t *payload, size_t len)
{
	struct tfmt_cursor c = { payload, payload + len, false };
	uint32_t room = h->nr_shapes;
	uint64_t bytes;
	void *grown;

	tfmt_varint_get(&c); /* element type */
	bytes = tfmt_varint_get(&c);
	if (c.bad || id >= SHAPES_MAX)
		return;
	while (room <= id)
		room *= 2;
	if (room > h->nr_shapes) {
		grown = tfmt_pages_grow(h->shape_bytes, h->nr_shapes * sizeof(*h->shape_bytes),
					room * sizeof(*h->shape_bytes));
		if (!grown)
			return;
		h->shape_bytes = grown;
		h->nr_shapes = room;
	}
	h->shape_bytes[id] = bytes;
}

/* The owners of modelled memory that are the driver itself: FORMAT.md. */
static void define_function(struct tfmt_history *h, uint32_t id, const uint8_t *payload, size_t len)
{
	struct tfmt_cursor c = { payload, payload + len, false };
	const uint8_t *s;
	size_t bytes;

	if (id >= FUNCTIONS || !tfmt_string_get(&c, &s, &bytes))
		return;
	for (size_t i = 0; i < bytes; i++)
		bytes = s[i] == ',' ? i : bytes;
	h->is_driver[id] = bytes == 7 && !memcmp(s, "context", 7) ? 1 : bytes == 4 && !memcmp(s, "code", 4) ? 2 : 0;
}

void tfmt_history_define(struct tfmt_history *h, uint32_t type, uint32_t id, const uint8_t *payload, size_t len)
{
	if (type == TFMT_DEF_SHAPE)
		define_shape(h, id, payload, len);
	else if (type == TFMT_DEF_FUNCTION)
		define_function(h, id, payload, len);
}

/* ---- figures --------------------------------------------------------------------------------- */

static uint64_t *figure(struct tfmt_history *h, unsigned device, enum tfmt_figure which)
{
	return &h->figures.of[device][which];
}

static void raise(struct tfmt_history *h, unsigned device, enum tfmt_figure which, uint64_t value)
{
	if (*figure(h, device, which) < value)
		*figure(h, device, which) = value;
}

static bool is_device_memory(unsigned space)
{
	return space == TFMT_SPACE_DEVICE || space == TFMT_SPACE_HANDLE || space == TFMT_SPACE_POOL ||
	       space == TFMT_SPACE_ARRAY;
}

static void driver_add(struct tfmt_history *h, unsigned device, int64_t bytes)
{
	h->driver[device] += (uint64_t)bytes;
	if (bytes <= 0 || (int64_t)h->driver[device] <= (int64_t)*figure(h, device, TFMT_FIGURE_DRIVER_PEAK))
		return;
	*figure(h, device, TFMT_FIGURE_DRIVER_PEAK) = h->driver[device];
	*figure(h, device, TFMT_FIGURE_DRIVER_PEAK_TIME) = h->time_ns;
	*figure(h, device, TFMT_FIGURE_DRIVER_PEAK_ALLOCATED) = tfmt_history_total(h->totals->allocated, device);
	*figure(h, device, TFMT_FIGURE_DRIVER_PEAK_RESERVED) = tfmt_history_total(h->totals->reserved, device);
	*figure(h, device, TFMT_FIGURE_DRIVER_PEAK_TENSORS) = tfmt_history_total(h->totals->allocated, device);
	*figure(h, device, TFMT_FIGURE_DRIVER_PEAK_TORCH) = tfmt_history_total(h->totals->reserved, device);
	*figure(h, device, TFMT_FIGURE_DRIVER_PEAK_CONTEXT) = h->context[device];
	*figure(h, device, TFMT_FIGURE_DRIVER_PEAK_CODE) = h->code[device];
	h->driver_peak_is_new[device] = true;
}

static void block_add(struct tfmt_history *h, const struct tfmt_block *b, const struct tfmt_origin *o, bool enters)
{
	unsigned device = tfmt_history_row(b->device);
	int64_t bytes = enters ? (int64_t)b->size : -(int64_t)b->size;

	if (b->group == TFMT_GROUP_TENSOR) {
		uint64_t shape = tfmt_history_shape(h, b->shape);

		h->requested[device] += enters ? shape : 0 - shape;
	} else if (b->group != TFMT_GROUP_MAPPING && o->flags & TFMT_FLAG_MODELLED && h->is_driver[o->function]) {
		*(h->is_driver[o->function] == 1 ? &h->context[device] : &h->code[device]) += (uint64_t)bytes;
		raise(h, device, TFMT_FIGURE_BEYOND_PEAK, h->context[device] + h->code[device]);
	} else if (b->group != TFMT_GROUP_MAPPING && is_device_memory(b->space)) {
		driver_add(h, device, bytes);
	}
}

void tfmt_history_enter(struct tfmt_history *h, const struct tfmt_block *b, const struct tfmt_origin *o)
{
	block_add(h, b, o, true);
}

void tfmt_history_leave(struct tfmt_history *h, const struct tfmt_block *b, const struct tfmt_origin *o)
{
	block_add(h, b, o, false);
}

void tfmt_history_freed(struct tfmt_history *h, const struct tfmt_block *b, const struct tfmt_origin *o, bool taken)
{
	uint64_t *frees = figure(h, tfmt_history_row(b->device), TFMT_FIGURE_DRIVER_FREES);

	if (b->group == TFMT_GROUP_TENSOR || b->group == TFMT_GROUP_MAPPING || !is_device_memory(b->space) ||
	    o->flags & TFMT_FLAG_MODELLED)
		return;
	/* None may have been counted of a block whose number was in use twice meanwhile. */
	*frees = taken ? *frees + 1 : *frees - !!*frees;
}

void tfmt_history_tensor_peak(struct tfmt_history *h, unsigned device, uint64_t allocated, uint64_t reserved)
{
	*figure(h, device, TFMT_FIGURE_TENSOR_PEAK) = allocated;
	*figure(h, device, TFMT_FIGURE_TENSOR_PEAK_TIME) = h->time_ns;
	*figure(h, device, TFMT_FIGURE_TENSOR_PEAK_RESERVED) = reserved;
	*figure(h, device, TFMT_FIGURE_TENSOR_PEAK_DRIVER) = h->driver[device];
}

static void tensor_reserved(struct tfmt_history *h, unsigned device, uint64_t bytes)
{
	tfmt_history_reserved(h->figures.of[device], bytes, tfmt_history_total(h->totals->allocated, device));
}

static void tensor_alloc(struct tfmt_history *h, unsigned device, const struct tfmt_event *ev)
{
	uint64_t allocated = tfmt_history_total(h->totals->allocated, device);

	if (h->passes.peak[device] < allocated)
		h->passes.peak[device] = allocated;
	++*figure(h, device, TFMT_FIGURE_TENSOR_ALLOCS);
	*figure(h, device, TFMT_FIGURE_UNSHAPED) += !tfmt_history_shape(h, ev->shape);
	raise(h, device, TFMT_FIGURE_REQUESTED_PEAK, h->requested[device]);
	if (h->driver_peak_is_new[device]) {
		*figure(h, device, TFMT_FIGURE_DRIVER_PEAK_TENSORS) = allocated;
		*figure(h, device, TFMT_FIGURE_DRIVER_PEAK_TORCH) = ev->aux;
	}
	h->driver_peak_is_new[device] = false;
	tensor_reserved(h, device, ev->aux);
	if (allocated > *figure(h, device, TFMT_FIGURE_TENSOR_PEAK))
		tfmt_history_tensor_peak(h, device, allocated, ev->aux);
}

static void tensor_free(struct tfmt_history *h, unsigned device, const struct tfmt_event *ev)
{
	++*figure(h, device, TFMT_FIGURE_TENSOR_FREES);
	*figure(h, TFMT_FIGURES_PROCESS, TFMT_FIGURE_UNMATCHED_FREES) += ev->alloc_ordinal == TFMT_NO_ORDINAL;
	h->driver_peak_is_new[device] = false;
	tensor_reserved(h, device, ev->aux);
}

static void tensor_oom(struct tfmt_history *h, unsigned device, const struct tfmt_event *ev)
{
	++*figure(h, device, TFMT_FIGURE_TENSOR_OOMS);
	tensor_reserved(h, device, ev->aux);
	*figure(h, device, TFMT_FIGURE_OOM_ASKED) = ev->size;
	*figure(h, device, TFMT_FIGURE_OOM_TIME) = h->time_ns;
	*figure(h, device, TFMT_FIGURE_OOM_ALLOCATED) = tfmt_history_total(h->totals->allocated, device);
	*figure(h, device, TFMT_FIGURE_OOM_RESERVED) = ev->aux;
	*figure(h, device, TFMT_FIGURE_OOM_DRIVER) = h->driver[device];
}

static void driver_alloc(struct tfmt_history *h, unsigned device, const struct tfmt_event *ev)
{
	uint64_t managed = 0;

	if (is_device_memory(ev->flags & TFMT_SPACE_MASK) && !(ev->flags & TFMT_FLAG_MODELLED))
		++*figure(h, device, TFMT_FIGURE_DRIVER_ALLOCS);
	if ((ev->flags & TFMT_SPACE_MASK) == TFMT_SPACE_MANAGED) {
		for (unsigned i = 0; i < TFMT_NR_DEVICES; i++)
			managed += h->totals->managed[i];
	}
	raise(h, TFMT_FIGURES_PROCESS, TFMT_FIGURE_MANAGED_PEAK, managed);
	raise(h, TFMT_FIGURES_PROCESS, TFMT_FIGURE_PINNED_PEAK, h->totals->pinned);
}

static void memory_info(struct tfmt_history *h, unsigned device, const struct tfmt_event *ev)
{
	uint64_t used = ev->aux > ev->size ? ev->aux - ev->size : 0;

	++*figure(h, device, TFMT_FIGURE_SAMPLES);
	if (used > h->driver[device])
		raise(h, device, TFMT_FIGURE_BEYOND_PEAK, used - h->driver[device]);
}

static void graph_reserved(struct tfmt_history *h, unsigned device, uint64_t bytes)
{
	driver_add(h, device, -(int64_t)h->graph[device]);
	driver_add(h, device, (int64_t)bytes);
	h->graph[device] = bytes;
}

static void count(struct tfmt_history *h, const struct tfmt_event *ev)
{
	unsigned device = tfmt_history_row(ev->device);

	*figure(h, device, TFMT_FIGURE_EVENTS) += ev->kind != TFMT_LOST;
	switch (ev->kind) {
	case TFMT_TENSOR_ALLOC:
		tensor_alloc(h, device, ev);
		break;
	case TFMT_TENSOR_FREE:
		tensor_free(h, device, ev);
		break;
	case TFMT_TENSOR_OOM:
		tensor_oom(h, device, ev);
		break;
	case TFMT_DRIVER_ALLOC:
		driver_alloc(h, device, ev);
		break;
	case TFMT_DRIVER_FREE:
		*figure(h, TFMT_FIGURES_PROCESS, TFMT_FIGURE_UNMATCHED_FREES) += ev->alloc_ordinal == TFMT_NO_ORDINAL;
		break;
	case TFMT_ALLOC_FAILED:
		++*figure(h, device, TFMT_FIGURE_DRIVER_REFUSALS);
		*figure(h, device, TFMT_FIGURE_DRIVER_REFUSED) = ev->size;
		break;
	case TFMT_MEMORY_INFO:
		memory_info(h, device, ev);
		break;
	case TFMT_POOL_INFO:
		if (!ev->address)
			graph_reserved(h, device, ev->size);
		break;
	case TFMT_RESET:
		if (!ev->aux)
			graph_reserved(h, device, 0);
		break;
	default:
		break;
	}
}

/* ---- events in effect ------------------------------------------------------------------------ */

static void open_remove(struct tfmt_history *h, uint32_t i)
{
	memmove(&h->open[i], &h->open[i + 1], (h->nr_open - i - 1) * sizeof(*h->open));
	h->nr_open--;
}

static int open_add(struct tfmt_history *h, const struct tfmt_event *ev)
{
	if (h->nr_open == OPEN_MAX)
		open_remove(h, 0);
	if (h->nr_open == h->open_room) {
		size_t bytes = h->open_room * sizeof(*h->open);
		void *grown = tfmt_pages_grow(h->open, bytes, 2 * bytes);

		if (!grown)
			return TFMT_E_NOMEM;
		h->open = grown;
		h->open_room *= 2;
	}
	h->open[h->nr_open++] = *ev;
	return 0;
}

/* Does this event end what the other began, or take its place? */
static bool ends(const struct tfmt_event *ev, const struct tfmt_event *begun)
{
	bool same_thread = ev->thread == begun->thread;

	switch (ev->kind) {
	case TFMT_RANGE_POP:
		return begun->kind == TFMT_RANGE_PUSH && same_thread && begun->size == ev->size;
	case TFMT_RANGE_END:
		return begun->kind == TFMT_RANGE_START && begun->aux == ev->aux;
	case TFMT_PHASE_END:
		return begun->kind == TFMT_PHASE_BEGIN && same_thread && begun->address == ev->address;
	case TFMT_OBJECT_NEW:
	case TFMT_OBJECT_GONE:
		return begun->kind == TFMT_OBJECT_NEW && begun->address == ev->address &&
		       !((begun->flags ^ ev->flags) & TFMT_SPACE_MASK) && begun->device == ev->device &&
		       (begun->aux == ev->aux || ev->kind == TFMT_OBJECT_GONE);
	case TFMT_MEMORY_INFO:
	case TFMT_PROCESS_INFO:
	case TFMT_GRAPH_LAUNCH:
	case TFMT_SETTINGS:
		return begun->kind == ev->kind && begun->device == ev->device;
	case TFMT_POOL_INFO:
		return begun->kind == ev->kind && begun->device == ev->device && begun->address == ev->address;
	default:
		return false;
	}
}

static void open_end(struct tfmt_history *h, const struct tfmt_event *ev)
{
	uint32_t i = h->nr_open;

	while (i && !ends(ev, &h->open[i - 1]))
		i--;
	if (i)
		open_remove(h, i - 1);
}

/* After lost events it is not known which of a thread's ranges are open. */
static void open_forget(struct tfmt_history *h, uint32_t thread)
{
	uint32_t nr = 0;

	for (uint32_t i = 0; i < h->nr_open; i++) {
		const struct tfmt_event *ev = &h->open[i];

		if (ev->thread == thread && (ev->kind == TFMT_RANGE_PUSH || ev->kind == TFMT_PHASE_BEGIN))
			continue;
		h->open[nr++] = *ev;
	}
	h->nr_open = nr;
}

/* Modules are many, and nothing is asked of them later. */
static bool is_remembered(const struct tfmt_event *ev)
{
	unsigned what = ev->flags & TFMT_SPACE_MASK;

	return what != TFMT_OBJECT_MODULE && what != TFMT_OBJECT_LIBRARY;
}

static int follow(struct tfmt_history *h, const struct tfmt_event *ev)
{
	switch (ev->kind) {
	case TFMT_RANGE_PUSH:
	case TFMT_RANGE_START:
	case TFMT_PHASE_BEGIN:
		return open_add(h, ev);
	case TFMT_RANGE_POP:
	case TFMT_RANGE_END:
	case TFMT_PHASE_END:
	case TFMT_OBJECT_GONE:
		open_end(h, ev);
		return 0;
	case TFMT_OBJECT_NEW:
		if (!is_remembered(ev))
			return 0;
		open_end(h, ev);
		return open_add(h, ev);
	case TFMT_MEMORY_INFO:
	case TFMT_PROCESS_INFO:
	case TFMT_POOL_INFO:
	case TFMT_SETTINGS:
		open_end(h, ev);
		return open_add(h, ev);
	case TFMT_GRAPH_LAUNCH: /* whose memory it is that is reserved for graphs: the first one's that had some */
		if (h->graph[tfmt_history_row(ev->device)])
			return 0;
		open_end(h, ev);
		return open_add(h, ev);
	case TFMT_LOST:
		open_forget(h, ev->thread);
		return 0;
	default:
		return 0;
	}
}

/* ---- phases ---------------------------------------------------------------------------------- */

void tfmt_history_phase(struct tfmt_history *h, const struct tfmt_event *ev)
{
	uint8_t *in_backward = ev->thread < TFMT_HISTORY_THREADS ? &h->in_backward[ev->thread] : NULL;
	bool passing = ev->kind == TFMT_PHASE_BEGIN || ev->kind == TFMT_PHASE_END;
	uint64_t *passes = figure(h, TFMT_FIGURES_PROCESS, TFMT_FIGURE_PASSES);

	if (passing && ev->address == TFMT_PHASE_BACKWARD) {
		if (in_backward)
			*in_backward = ev->aux || ev->kind == TFMT_PHASE_BEGIN;
		if (ev->kind == TFMT_PHASE_BEGIN && !ev->aux)
			tfmt_passes_note(&h->passes, ++*passes, h->latest_ns, &h->figures, h->totals);
		h->has_begun = true;
	} else if (ev->kind == TFMT_LOST && in_backward) {
		*in_backward = 0;
	}
}

int tfmt_history_after(struct tfmt_history *h, const struct tfmt_event *ev)
{
	if (!(ev->flags & TFMT_FLAG_TEARDOWN))
		count(h, ev);
	return ev->kind < TFMT_MEMORY_INFO ? 0 : follow(h, ev);
}
