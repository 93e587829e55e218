/* SPDX-License-Identifier: MIT */
/* Making requests of a recording's events, and serving them under every setting. */
#include "analyzer/whatif/whatif_inside.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/allocator/torch.h"
#include "analyzer/base/heap.h"

#define PRIVATE_OTHER UINT32_MAX /* a pool apart that is no graph's: a MemPool */

bool whatif_is_exact(const struct whatif_device *d)
{
	return d->compared && !d->differing && !d->is_kept;
}

/* ---- what is asked ------------------------------------------------------------------------------ */

/* The bytes asked for: between two bounds, which are one where they are known. */
struct asked {
	uint64_t least, most;
};

static struct asked asked_bytes(struct whatif_device *d, const struct tfmt_event *ev)
{
	struct tfmt_shape shape;
	uint64_t known = 0, rest;

	if (d->told_bytes && d->told_address == ev->address)
		known = d->told_bytes;
	else if (ev->shape && tfmt_reader_shape(d->process->reader, ev->shape, &shape))
		known = shape.bytes;
	d->told_bytes = 0;
	if (known && known <= ev->size)
		return (struct asked){ known, known };
	d->unknown++;
	d->unknown_bytes += ev->size;
	/* Of large blocks no more than this is left uncut. */
	rest = ev->size <= TORCH_SMALL_MAX ? TORCH_ROUND - 1 : TORCH_REST_MAX;
	known = ev->size > rest ? ev->size - rest : 1;
	if (ev->size > TORCH_SMALL_MAX && known <= TORCH_SMALL_MAX)
		known = TORCH_SMALL_MAX + 1;
	return (struct asked){ known, ev->size };
}

/*
 * Which pool a block is of: that of the range it lies in. Of a range's first block: the graph's that is being captured; a
 * pool apart if the common one would have had a block for it, or has its expandable segment already.
 */
static uint32_t private_of(struct whatif_device *d, const struct tfmt_event *ev, struct arena *arena,
			   const struct cachingmodel_request *r)
{
	bool capturing = ev->flags & TFMT_FLAG_CAPTURING, small = ev->size <= TORCH_SMALL_MAX;

	if (capturing && !d->was_capturing)
		d->capture = ++d->nr_captures;
	d->was_capturing = capturing;
	if (!arena)
		return capturing ? d->capture : CACHINGMODEL_COMMON;
	if (arena->used) {
		if (capturing && arena->private_id) /* the capture shares the pool of an earlier one */
			d->capture = arena->private_id;
		return arena->private_id;
	}
	if (capturing)
		return d->capture;
	if (arena->reserved) {
		for (size_t i = 0; i < d->arenas.nr; i++) {
			const struct arena *a = &d->arenas.arena[i];

			if (a->used && a->reserved && a->stream == ev->stream && a->small == small && !a->private_id)
				return PRIVATE_OTHER;
		}
		return CACHINGMODEL_COMMON;
	}
	return !d->differing && d->recorded.caching && cachingmodel_is_cached(d->recorded.caching, r) ? PRIVATE_OTHER
												   : CACHINGMODEL_COMMON;
}

static void use_arena(struct arena *arena, const struct tfmt_event *ev, struct cachingmodel_request *r)
{
	if (!arena || arena->used)
		return;
	arena->used = true;
	arena->private_id = r->private_id;
	arena->stream = ev->stream;
	arena->small = ev->size <= TORCH_SMALL_MAX;
	if (!arena->reserved) {
		r->segment = arena->address;
		r->segment_bytes = arena->size;
	}
}

static uint64_t others_bytes(const struct whatif_device *d)
{
	const struct residual_figures *f = books_residual(d->process->books, d->ordinal);
	uint64_t taken = f->ledger;

	if (f->has_last && f->last.used > f->last.ledger)
		taken += f->last.used - f->last.ledger;
	return taken > d->books->reserved_bytes ? taken - d->books->reserved_bytes : 0;
}

/* ---- serving ------------------------------------------------------------------------------------ */

/* taking: the call that took memory for the request in the recording, TFMT_NO_ORDINAL if none did. */
static void note_failure(struct tried *t, const struct tfmt_event *ev, uint64_t bytes, uint64_t time_ns, uint64_t taking)
{
	struct cachingmodel_figures f = tried_figures(t);

	if (t->ooms++)
		return;
	t->oom_event = ev->ordinal;
	t->oom_taking = taking == TFMT_NO_ORDINAL ? ev->ordinal : taking;
	t->oom_bytes = bytes;
	t->oom_ns = time_ns;
	t->oom_reserved = f.reserved;
	t->oom_others = t->others;
	t->oom_allocated = f.allocated;
	t->oom_refused = tried_driver_bytes(t, bytes);
}

/* A request that the program was served. */
static void serve(struct tried *t, struct cachingmodel_request r, struct asked asked, uint64_t others,
		  const struct tfmt_event *ev, uint64_t time_ns, uint64_t taking)
{
	if (t->is_over)
		return;
	r.bytes = t->is_least ? asked.least : asked.most;
	tried_set_others(t, others);
	if (tried_alloc(t, &r))
		return;
	note_failure(t, ev, r.bytes, time_ns, taking);
	t->is_over = true;
}

/* One that failed: where it does not, nobody uses the block, as the program went on without. */
static void serve_failed(struct tried *t, const struct cachingmodel_request *r, uint64_t others,
			 const struct tfmt_event *ev, uint64_t time_ns)
{
	if (t->is_over)
		return;
	tried_set_others(t, others);
	if (!tried_alloc(t, r)) {
		note_failure(t, ev, r->bytes, time_ns, TFMT_NO_ORDINAL);
		return;
	}
	t->saved++;
	tried_free(t, r->slot, false);
}

/*
 * A request as other code would have made it, under every setting. taking: as note_failure() has it. Without edits it is the
 * recorded one.
 */
static void serve_all(struct whatif_device *d, struct cachingmodel_request r, struct asked asked, const struct tfmt_event *ev,
		      uint64_t time_ns)
{
	uint64_t others = others_bytes(d);

	if (!asked.most)
		return;
	if (d->torch)
		torchengine_alloc(d->torch, d->ordinal, r.slot, asked.most, r.stream, r.private_id);
	if (d->wants_ideal)
		ideal_alloc(&d->ideal, r.slot, asked.most);
	r.segment = 0;
	for (size_t i = 0; i < d->nr_tried; i++)
		serve(&d->tried[i], r, asked, others, ev, time_ns, d->taking_event);
}

/* The same of a free. */
static void free_all(struct whatif_device *d, uint32_t slot, bool pending)
{
	if (d->torch)
		torchengine_free(d->torch, d->ordinal, slot);
	if (d->wants_ideal)
		ideal_free(&d->ideal, slot);
	for (size_t i = 0; i < d->nr_tried; i++)
		tried_free(&d->tried[i], slot, pending);
}

static void compare(struct whatif_device *d, const struct tfmt_event *ev)
{
	if (ev->before || d->is_pooled || !d->books->reported || !d->recorded.caching)
		return;
	d->compared++;
	if (tried_figures(&d->recorded).reserved == ev->aux)
		return;
	if (!d->differing++)
		d->differing_event = ev->ordinal;
}

/* ---- other code --------------------------------------------------------------------------------- */

/* What other code asks for instead; {0, 0}: nothing. */
static struct asked asked_by_other_code(struct whatif_device *d, const struct cachingmodel_request *r, struct asked asked,
					const struct tfmt_event *ev)
{
	struct edit *e = d->edits ? edits_find(d->edits, ev->ordinal) : NULL;

	if (!e)
		return asked;
	e->least = edit_bytes(e, asked.least);
	e->most = edit_bytes(e, asked.most);
	e->private_id = r->private_id;
	e->stream = r->stream;
	e->slot = r->slot;
	return (struct asked){ e->least, e->most };
}

static uint64_t address_apart(const struct edit *e)
{
	return e->birth | EDITS_ADDRESS_APART;
}

static void do_more(struct whatif_device *d, const struct edit_step *s, const struct tfmt_event *ev, uint64_t time_ns)
{
	struct edit_more *more = &d->edits->more[s->birth];
	uint64_t address = s->birth | EDITS_ADDRESS_MORE;
	struct cachingmodel_request r = { .private_id = CACHINGMODEL_COMMON };

	if (s->kind == EDIT_MORE) {
		r.slot = more->slot = blockslots_new(&d->slots, address);
		serve_all(d, r, (struct asked){ more->bytes, more->bytes }, ev, time_ns);
	} else if (blockslots_end(&d->slots, address, &more->slot)) {
		free_all(d, more->slot, false);
	}
}

static void do_step(struct whatif_device *d, const struct edit_step *s, const struct tfmt_event *ev, uint64_t time_ns)
{
	struct cachingmodel_request r;
	struct edit *e;

	if (s->kind >= EDIT_MORE) {
		do_more(d, s, ev, time_ns);
		return;
	}
	e = edits_find(d->edits, s->birth);
	if (!e || !e->most)
		return;
	if (s->kind == EDIT_APART)
		e->slot = blockslots_new(&d->slots, address_apart(e));
	if (s->kind == EDIT_APART_FREE && !blockslots_end(&d->slots, address_apart(e), &e->slot))
		return;
	if (s->kind == EDIT_FREE || s->kind == EDIT_APART_FREE) {
		free_all(d, e->slot, false);
		return;
	}
	r = (struct cachingmodel_request){ .stream = e->stream, .private_id = e->private_id, .slot = e->slot };
	serve_all(d, r, (struct asked){ e->least, e->most }, ev, time_ns);
}

/* What other code does before this event. */
static void do_steps(struct whatif_device *d, const struct tfmt_event *ev, uint64_t time_ns)
{
	struct edits *e = d->edits;

	for (; e->next < e->nr_steps && e->step[e->next].at <= ev->ordinal; e->next++) {
		bool was_over = d->tried[0].is_over;

		do_step(d, &e->step[e->next], ev, time_ns);
		if (d->tried[0].is_over && !was_over)
			d->failed_step = e->next;
	}
}

/* ---- the recording's requests ------------------------------------------------------------------- */

static void alloc(struct whatif_device *d, const struct tfmt_event *ev, uint64_t time_ns)
{
	struct asked asked = asked_bytes(d, ev);
	struct arena *arena = arenas_find(&d->arenas, ev->address);
	struct cachingmodel_request r = { .bytes = asked.most, .stream = ev->stream,
					  .capturing = ev->flags & TFMT_FLAG_CAPTURING };
	uint64_t others = others_bytes(d);
	uint32_t slot;

	if (blockslots_end(&d->slots, ev->address, &slot)) { /* its free was not seen */
		tried_free(&d->recorded, slot, false);
		free_all(d, slot, false);
	}
	r.private_id = private_of(d, ev, arena, &r);
	use_arena(arena, ev, &r);
	r.slot = blockslots_new(&d->slots, ev->address);
	d->requests++;
	d->is_emptied = false;
	d->is_kept |= ev->before;
	if (d->is_refused && d->refused_thread == ev->thread)
		d->is_refused = false;
	serve(&d->recorded, r, asked, others, ev, time_ns, d->taking_event);
	serve_all(d, r, asked_by_other_code(d, &r, asked, ev), ev, time_ns);
	d->taking_event = TFMT_NO_ORDINAL;
	compare(d, ev);
}

static void failed(struct whatif_device *d, const struct tfmt_event *ev, uint64_t time_ns)
{
	struct cachingmodel_request r = { .bytes = ev->size, .stream = ev->stream, .slot = blockslots_next(&d->slots),
					  .capturing = ev->flags & TFMT_FLAG_CAPTURING };
	const struct edit *e = d->edits ? edits_find(d->edits, ev->ordinal) : NULL;
	uint64_t others = others_bytes(d);

	r.private_id = r.capturing ? d->capture : CACHINGMODEL_COMMON;
	d->is_refused = d->is_emptied = false;
	serve_failed(&d->recorded, &r, others, ev, time_ns);
	if (e)
		r.bytes = edit_bytes(e, r.bytes);
	if (d->torch)
		torchengine_failed(d->torch, d->ordinal, r.bytes, r.stream);
	for (size_t i = 0; i < d->nr_tried; i++)
		serve_failed(&d->tried[i], &r, others, ev, time_ns);
	compare(d, ev);
}

static void release(struct whatif_device *d, const struct tfmt_event *ev)
{
	bool pending = d->has_tracker && d->completed_address != ev->address;
	uint32_t slot;

	d->completed_address = 0;
	d->taking_event = TFMT_NO_ORDINAL;
	d->is_emptied = false;
	if (!(pending ? blockslots_wait : blockslots_end)(&d->slots, ev->address, &slot))
		return;
	tried_free(&d->recorded, slot, pending);
	free_all(d, slot, pending);
	compare(d, ev);
}

static void completed(struct whatif_device *d, uint64_t address)
{
	uint32_t slot;

	d->completed_address = address;
	if (!blockslots_end_waiting(&d->slots, address, &slot))
		return;
	tried_complete(&d->recorded, slot);
	for (size_t i = 0; i < d->nr_tried; i++)
		tried_complete(&d->tried[i], slot);
}

/* ---- the cache is emptied ----------------------------------------------------------------------- */

/* Is the innermost function of Python the one by which programs empty the cache? */
static bool is_in_empty_cache(const struct whatif_device *d, const struct tfmt_event *ev)
{
	struct tfmt_frame frame;
	struct tfmt_code code;

	return tfmt_reader_frame(d->process->reader, ev->python_stack, &frame) &&
	       (frame.kind == TFMT_FRAME_PYTHON || frame.kind == TFMT_FRAME_PYTHON_ENTRY) &&
	       tfmt_reader_code(d->process->reader, (uint32_t)frame.a, &code) && !strcmp(code.name, "empty_cache");
}

/* Does PyTorch with the recorded settings give memory back before the driver refuses some? */
static bool gives_back_by_itself(const struct allocconf *c)
{
	return c->gc_threshold > 0 || c->fraction < 1;
}

/* Memory of a range in use goes back to the driver: because the program asked for it, or for want of it? */
static void given_back(struct whatif_device *d, const struct tfmt_event *ev, const struct arena *arena)
{
	bool in_want = d->is_refused && d->refused_thread == ev->thread, is_asked = is_in_empty_cache(d, ev);

	if (arena->private_id) { /* its graph, or MemPool, has gone; a MemPool takes nothing else along */
		tried_end_private(&d->recorded, arena->private_id);
		for (size_t i = 0; i < d->nr_tried; i++)
			tried_end_private(&d->tried[i], arena->private_id);
	}
	if (!is_asked && (in_want || arena->private_id || gives_back_by_itself(&d->recorded.conf)))
		return;
	if (d->is_emptied)
		return;
	d->is_emptied = true;
	if (d->torch)
		torchengine_empty_cache(d->torch, d->ordinal);
	tried_empty_cache(&d->recorded);
	for (size_t i = 0; i < d->nr_tried; i++)
		tried_empty_cache(&d->tried[i]);
}

/* ---- events of the driver ----------------------------------------------------------------------- */

static enum tfmt_space space_of(const struct tfmt_event *ev)
{
	return (enum tfmt_space)(ev->flags & TFMT_SPACE_MASK);
}

static void driver_alloc(struct whatif_device *d, const struct tfmt_event *ev, uint64_t time_ns)
{
	if (ev->flags & TFMT_FLAG_MODELLED)
		return;
	if (d->taking_event == TFMT_NO_ORDINAL && space_of(ev) != TFMT_SPACE_RESERVED)
		d->taking_event = ev->ordinal;
	if (books_is_pooled_tensor(d->process->books, ev)) {
		d->is_pooled = true;
		d->told_address = ev->address;
		d->told_bytes = ev->size;
		alloc(d, ev, time_ns);
	} else if (space_of(ev) == TFMT_SPACE_DEVICE || space_of(ev) == TFMT_SPACE_RESERVED) {
		arenas_add(&d->arenas, ev->address, ev->size, space_of(ev) == TFMT_SPACE_RESERVED);
	}
}

static void driver_free(struct whatif_device *d, const struct tfmt_event *ev)
{
	struct arena *arena;

	if (ev->flags & TFMT_FLAG_MODELLED)
		return;
	if (books_is_pooled_tensor(d->process->books, ev)) {
		release(d, ev);
		return;
	}
	arena = arenas_find(&d->arenas, ev->address);
	if (!arena || arena->address != ev->address)
		return;
	if (arena->used && !arena->reserved)
		given_back(d, ev, arena);
	arenas_remove(&d->arenas, ev->address);
}

static void unmap(struct whatif_device *d, const struct tfmt_event *ev)
{
	struct arena *arena = arenas_find(&d->arenas, ev->address);

	if (arena && arena->used)
		given_back(d, ev, arena);
}

static void refused(struct whatif_device *d, const struct tfmt_event *ev)
{
	if (!books_owner(d->process->books, ev->native_stack, 0).torch_allocator)
		return;
	d->is_refused = true;
	d->refused_thread = ev->thread;
}

/* The allocator tells of itself. */
static void told(struct whatif_device *d, const struct tfmt_event *ev)
{
	switch (ev->aux & (TFMT_ALLOCATOR_IN_TENSOR - 1)) {
	case TFMT_ALLOCATOR_ALLOC:
		d->told_address = ev->address;
		d->told_bytes = ev->size;
		d->has_tracker = true;
		break;
	case TFMT_ALLOCATOR_FREE_COMPLETED:
		completed(d, ev->address);
		break;
	case TFMT_ALLOCATOR_SEGMENT_FREE:
	case TFMT_ALLOCATOR_SEGMENT_UNMAP:
		if (ev->aux & TFMT_ALLOCATOR_IN_TENSOR) {
			d->is_refused = true;
			d->refused_thread = ev->thread;
		}
		break;
	default:
		break;
	}
}

/* A primary context has ended, with all that was allocated in it. */
static void reset(struct whatif_device *d, const struct tfmt_event *ev)
{
	if (ev->aux)
		return;
	arenas_release(&d->arenas);
	blockslots_release(&d->slots);
	ideal_reset(&d->ideal);
	tried_reset(&d->recorded);
	for (size_t i = 0; i < d->nr_tried; i++)
		tried_reset(&d->tried[i]);
}

static void device_event(struct whatif_device *d, const struct tfmt_event *ev, uint64_t time_ns)
{
	switch (ev->kind) {
	case TFMT_TENSOR_ALLOC:
		alloc(d, ev, time_ns);
		break;
	case TFMT_TENSOR_FREE:
		release(d, ev);
		break;
	case TFMT_TENSOR_OOM:
		failed(d, ev, time_ns);
		break;
	case TFMT_DRIVER_ALLOC:
		driver_alloc(d, ev, time_ns);
		break;
	case TFMT_DRIVER_FREE:
		driver_free(d, ev);
		break;
	case TFMT_ALLOC_FAILED:
		refused(d, ev);
		break;
	case TFMT_ALLOCATOR:
		told(d, ev);
		break;
	case TFMT_RESET:
		reset(d, ev);
		break;
	default:
		break;
	}
}

static void note_figures(struct whatif *w, const struct whatif_device *d, uint64_t time_ns)
{
	struct cachingmodel_figures f = tried_figures(&d->tried[0]);
	struct series_values v = { 0 };

	v.value[WHATIF_RECORDED] = d->books->reserved_bytes;
	v.value[WHATIF_RESERVED] = f.reserved;
	v.value[WHATIF_ALLOCATED] = f.allocated;
	v.value[WHATIF_UNUSED] = f.reserved > f.allocated ? f.reserved - f.allocated : 0;
	series_enter(w->series, d->process->books, d->ordinal, time_ns, &v);
}

void whatif_observe(void *ctx, const struct replay_process *process, const struct tfmt_event *ev, uint64_t time_ns)
{
	struct whatif *w = ctx;
	struct whatif_device *d;

	for (size_t i = 0; i < w->nr_devices && w->nr_edits; i++)
		if (w->device[i]->process == process && w->device[i]->edits)
			do_steps(w->device[i], ev, time_ns);
	if (ev->kind == TFMT_UNMAP) { /* of whichever device: the thread's current one need not be the memory's */
		for (size_t i = 0; i < w->nr_devices; i++)
			if (w->device[i]->process == process)
				unmap(w->device[i], ev);
		return;
	}
	if (ev->kind == TFMT_SETTINGS)
		whatif_settings(w, process, ev);
	if (ev->device >= TFMT_NR_DEVICES)
		return;
	d = whatif_device_get(w, process, ev->device);
	device_event(d, ev, time_ns);
	if (w->series && d->requests)
		note_figures(w, d, time_ns);
}
