/* SPDX-License-Identifier: MIT */
/* What takes the place of each event. */
#include "analyzer/whatif/editedevents.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/allocator/torch.h"
#include "analyzer/base/heap.h"

struct edited_block {
	struct tfmt_event made; /* as other code makes it; size 0: it does not */
	bool is_there, is_apart;
};

void editedevents_init(struct editedevents *x, const struct edits *edits, size_t failed_step)
{
	*x = (struct editedevents){ .edits = edits, .failed_step = failed_step };
	x->block = heap_alloc(edits->nr, sizeof(*x->block));
}

void editedevents_release(struct editedevents *x)
{
	free(x->block);
	free(x->out);
	*x = (struct editedevents){ 0 };
}

static struct edited_block *block_of(const struct editedevents *x, uint64_t birth)
{
	const struct edit *e = edits_find(x->edits, birth);

	return e ? &x->block[e - x->edits->edit] : NULL;
}

static void put(struct editedevents *x, const struct tfmt_event *ev)
{
	x->out = heap_grow(x->out, &x->room, x->nr + 1, sizeof(*x->out));
	x->out[x->nr++] = *ev;
}

/* The bytes of a block or of a request. It keeps the recorded shape, by which it is known what it is. */
static void resize(struct tfmt_event *ev, const struct edit *e)
{
	uint64_t bytes = edit_bytes(e, ev->size);

	if (bytes != ev->size)
		ev->size = bytes ? torch_rounded(bytes) : 0;
}

/* ---- steps -------------------------------------------------------------------------------------- */

/* A request of other code, or a free, before an event. */
static void put_step(struct editedevents *x, const struct tfmt_event *made, uint8_t kind, const struct tfmt_event *before)
{
	struct tfmt_event ev = *made;

	ev.kind = kind;
	ev.time_ns = before->time_ns;
	ev.thread = before->thread;
	ev.aux = x->reserved;
	ev.alloc_ordinal = kind == TFMT_TENSOR_FREE ? made->ordinal : TFMT_NO_ORDINAL;
	ev.ordinal = before->ordinal;
	put(x, &ev);
}

static void more(struct editedevents *x, const struct edit_step *s, const struct tfmt_event *before)
{
	struct tfmt_event made = { .address = s->birth | EDITS_ADDRESS_MORE,
				   .size = x->edits->more[s->birth].bytes,
				   .device = (uint8_t)x->edits->device,
				   .ordinal = before->ordinal };

	put_step(x, &made, s->kind == EDIT_MORE ? TFMT_TENSOR_ALLOC : TFMT_TENSOR_FREE, before);
}

static void step(struct editedevents *x, const struct edit_step *s, const struct tfmt_event *before)
{
	struct edited_block *b = s->kind < EDIT_MORE ? block_of(x, s->birth) : NULL;
	bool is_apart = s->kind == EDIT_APART || s->kind == EDIT_APART_FREE;
	bool begins = s->kind == EDIT_AGAIN || s->kind == EDIT_APART;
	struct tfmt_event made;

	if (s->kind >= EDIT_MORE) {
		more(x, s, before);
		return;
	}
	if (!b || !b->made.size || begins == (is_apart ? b->is_apart : b->is_there))
		return;
	made = b->made;
	if (is_apart)
		made.address = s->birth | EDITS_ADDRESS_APART;
	*(is_apart ? &b->is_apart : &b->is_there) = begins;
	put_step(x, &made, begins ? TFMT_TENSOR_ALLOC : TFMT_TENSOR_FREE, before);
}

/* ---- events ------------------------------------------------------------------------------------- */

static void put_event(struct editedevents *x, const struct tfmt_event *recorded)
{
	bool is_free = recorded->kind == TFMT_TENSOR_FREE, is_made = recorded->kind == TFMT_TENSOR_ALLOC;
	const struct edit *e = edits_find(x->edits, is_free ? recorded->alloc_ordinal : recorded->ordinal);
	struct edited_block *b = e ? &x->block[e - x->edits->edit] : NULL;
	struct tfmt_event ev = *recorded;

	if (!b) {
		put(x, &ev);
		return;
	}
	if (is_free && !b->is_there)
		return;
	resize(&ev, e);
	if (is_made)
		b->made = ev;
	b->is_there = is_made && ev.size;
	if (ev.size)
		put(x, &ev);
}

size_t editedevents_next(void *ctx, const struct replay_process *process, const struct tfmt_event *ev, bool fails,
			 const struct tfmt_event **out)
{
	struct editedevents *x = ctx;
	const struct edits *e = x->edits;
	bool is_of_tensor = ev->kind >= TFMT_TENSOR_ALLOC && ev->kind <= TFMT_TENSOR_OOM && ev->device == e->device;

	x->nr = 0;
	if (strcmp(process->path, e->path) != 0) {
		put(x, ev);
		*out = x->out;
		return x->nr;
	}
	for (; x->next < e->nr_steps && e->step[x->next].at <= ev->ordinal; x->next++) {
		step(x, &e->step[x->next], ev);
		if (fails && x->next == x->failed_step)
			break;
	}
	if (is_of_tensor)
		x->reserved = ev->aux;
	if (!fails || x->failed_step == SIZE_MAX) {
		if (is_of_tensor)
			put_event(x, ev);
		else
			put(x, ev);
	}
	*out = x->out;
	return x->nr;
}
