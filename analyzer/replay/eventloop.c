/* SPDX-License-Identifier: MIT */
/* The loop over events, and what training and modules are told while the ledger enters one. */
#include "analyzer/base/heap.h"
#include "analyzer/replay/eventloop.h"

#include <stdlib.h>
#include <string.h>

/* ---- what the ledger says --------------------------------------------------------------------- */

static uint64_t begin_block(void *ctx, const struct tfmt_event *ev, uint8_t device, uint32_t group,
			    uint64_t allocated_bytes)
{
	const struct replay_process *p = ctx;

	return lives_born(p->lives, ev, device, group, 0, allocated_bytes);
}

/* The same where the modules are asked for. */
static uint64_t begin_block_in_module(void *ctx, const struct tfmt_event *ev, uint8_t device, uint32_t group,
				      uint64_t allocated_bytes)
{
	const struct replay_process *p = ctx;
	uint32_t module = modulepaths_next(p->modulepaths, ev);

	return lives_born(p->lives, ev, device, group, module, allocated_bytes);
}

static void note_copy(void *ctx, uint64_t number, bool is_from_host, uint64_t original)
{
	const struct replay_process *p = ctx;

	lives_copied(p->lives, number, is_from_host, original);
}

static void end_block(void *ctx, uint64_t number)
{
	const struct replay_process *p = ctx;

	lives_gone(p->lives, number);
}

static void note_total(void *ctx, uint8_t device, uint64_t allocated_bytes)
{
	const struct replay_process *p = ctx;

	lives_total(p->lives, device, allocated_bytes);
}

static void note_mark(void *ctx, uint8_t device, enum group_mark mark, bool is_over)
{
	const struct replay_process *p = ctx;

	if (is_over)
		lives_end(p->lives);
	lives_mark(p->lives, device, mark == MARK_OOM ? LIVES_OOM : LIVES_TIME);
}

static void note_past(void *ctx, uint8_t device, uint64_t allocated_peak_bytes)
{
	const struct replay_process *p = ctx;

	lives_past(p->lives, device, allocated_peak_bytes);
}

/* ---- the loop ---------------------------------------------------------------------------------- */

/* What is kept of blocks, besides the books. */
static void keep_lives(struct replay_process *p, const struct replay_options *o)
{
	p->lives = heap_alloc(1, sizeof(*p->lives));
	p->stepsamples = heap_alloc(1, sizeof(*p->stepsamples));
	p->modulepaths = o->modules ? heap_alloc(1, sizeof(*p->modulepaths)) : NULL;
	p->lives->steps.reader = p->reader;
	if (p->modulepaths)
		*p->modulepaths = (struct modulepaths){ .reader = p->reader, .names = p->names };
	p->listener = (struct books_listener){
		.ctx = p,
		.begin_block = o->modules ? begin_block_in_module : begin_block,
		.note_copy = note_copy,
		.end_block = end_block,
		.note_total = note_total,
		.note_mark = note_mark,
		.note_past = note_past,
	};
	books_listen(p->books, &p->listener);
}

void eventloop_begin(struct replay_process *p, const struct replay_options *o)
{
	p->phases.reader = p->reader;
	p->is_edited = o->editor != NULL;
	if (o->names || o->lives)
		p->names = names_open(p->path, p->header);
	if (o->lives || p->names)
		keep_lives(p, o);
}

/* What a flight recorder dropped has come to its end, or all has. */
static __attribute__((noinline)) void enter_past(struct replay_process *p)
{
	const struct tfmt_figures *f = tfmt_reader_figures(p->reader);

	p->phases.has_begun |= f && f->of[TFMT_FIGURES_PROCESS][TFMT_FIGURE_BEGUN];
	books_past(p->books, f);
}

static inline void follow_lives(struct replay_process *p, const struct tfmt_event *ev, bool is_plain)
{
	struct lives *lives = p->lives;

	if (is_plain)
		lives_next_tensor(lives, ev, p->phase, p->phases.is_update, false);
	else
		lives_next(lives, ev, p->phase, p->phases.is_update, books_is_pooled_tensor(p->books, ev));
	if (lives_concern_samples(lives))
		stepsamples_next(p->stepsamples, lives, p->books,
				 ev->kind == TFMT_TENSOR_ALLOC || ev->kind == TFMT_DRIVER_ALLOC);
}

static inline void enter_event(struct replay_process *p, const struct tfmt_event *ev, bool is_plain)
{
	if (!is_plain && !ev->before && !books_has_past(p->books))
		enter_past(p);
	p->phase = phases_next(&p->phases, ev);
	if (p->lives && (is_plain || !(ev->flags & TFMT_FLAG_TEARDOWN)))
		follow_lives(p, ev, is_plain);
	if (is_plain)
		books_apply_plain(p->books, ev, (uint8_t)p->phase);
	else
		books_apply(p->books, ev, (uint8_t)p->phase);
}

static inline bool is_observed(const struct tfmt_event *ev, const struct replay_options *o, uint8_t but_for)
{
	return ev->kind != but_for && !(ev->flags & TFMT_FLAG_TEARDOWN) && (!ev->before || o->observe_past);
}

static void enter_events(struct replay_process *p, const struct tfmt_event *ev, int nr, const struct replay_options *o)
{
	uint8_t but_for = o->observe_no_frees ? TFMT_TENSOR_FREE : TFMT_NONE;
	const struct tfmt_event *end = ev + nr;
	bool is_calm = books_is_calm(p->books);

	if (p->names)
		names_pass(p->names, ev, nr);
	for (; ev < end; ev++) {
		bool is_plain = is_calm && books_is_plain(ev);

		enter_event(p, ev, is_plain);
		if (!is_plain)
			is_calm = books_is_calm(p->books);
		if (is_observed(ev, o, but_for) && o->observe)
			o->observe(o->ctx, p, ev, replay_time(p, ev->time_ns));
	}
}

/* Events that take the place of one, but for so many at the end. Returns the first that was not entered; NULL: there is none. */
static const struct tfmt_event *enter_edited(struct replay_process *p, const struct tfmt_event *ev, size_t but_last,
					     const struct replay_options *o)
{
	const struct tfmt_event *out;
	size_t nr = o->editor->edit(o->editor->ctx, p, ev, but_last, &out), i = 0;

	for (; i + but_last < nr; i++) {
		enter_event(p, &out[i], false);
		if (is_observed(&out[i], o, TFMT_NONE) && o->observe)
			o->observe(o->ctx, p, &out[i], replay_time(p, out[i].time_ns));
	}
	return i < nr ? &out[i] : NULL;
}

/* The one of these events at which a request is to fail; NULL: none of them is. */
static const struct tfmt_event *failing(const struct replay_process *p, const struct tfmt_event *ev, int nr,
					const struct replay_options *o)
{
	if (!o->failure || p->has_failed || strcmp(o->failure->path, p->path) != 0)
		return NULL;
	for (int i = 0; i < nr; i++)
		if (ev[i].ordinal == o->failure->ordinal && !ev[i].before)
			return &ev[i];
	return NULL;
}

/* One that no recording has. */
static void enter_made(struct replay_process *p, const struct tfmt_event *ev, const struct replay_options *o)
{
	enter_event(p, ev, false);
	if (o->observe)
		o->observe(o->ctx, p, ev, replay_time(p, ev->time_ns));
}

/* The event at which a request is to fail, as that failure; what comes after it is passed over. */
static void enter_failure(struct replay_process *p, const struct tfmt_event *at, const struct replay_options *o)
{
	struct tfmt_event failure = *at, sample = *at, refusal;

	if (o->failure->capacity_bytes) {
		sample.kind = TFMT_MEMORY_INFO;
		sample.flags = 0;
		sample.size = o->failure->free_bytes;
		sample.aux = o->failure->capacity_bytes;
		enter_event(p, &sample, false);
	}
	failure.flags &= (uint16_t)~TFMT_SPACE_MASK;
	failure.alloc_ordinal = TFMT_NO_ORDINAL;
	if (o->failure->refused_bytes) {
		refusal = failure;
		refusal.kind = TFMT_ALLOC_FAILED;
		refusal.address = refusal.aux = refusal.shape = 0;
		refusal.size = o->failure->refused_bytes;
		enter_made(p, &refusal, o);
	}
	failure.kind = TFMT_TENSOR_OOM;
	failure.aux = o->failure->reserved_bytes;
	failure.address = books_device(p->books, at->device)->allocated_bytes;
	failure.size = o->failure->bytes;
	failure.shape = 0;
	enter_made(p, &failure, o);
	if (p->names)
		names_cut(p->names);
	p->has_failed = true;
}

void eventloop_enter(struct replay_process *p, const struct tfmt_event *ev, int nr, const struct replay_options *o)
{
	const struct tfmt_event *fails = failing(p, ev, nr, o);

	if (p->has_failed)
		return;
	nr = fails ? (int)(fails - ev) : nr;
	if (!o->editor) {
		enter_events(p, ev, nr, o);
	} else {
		if (p->names)
			names_pass(p->names, ev, nr);
		for (int i = 0; i < nr; i++)
			enter_edited(p, &ev[i], 0, o);
		fails = fails ? enter_edited(p, fails, 1, o) : NULL;
	}
	if (fails)
		enter_failure(p, fails, o);
}

void eventloop_miss(struct replay_process *p)
{
	phases_damaged(&p->phases);
	books_damaged(p->books);
}

void eventloop_finish(struct replay_process *p, uint64_t last_ns)
{
	if (!books_has_past(p->books))
		enter_past(p);
	books_settle(p->books, last_ns);
	if (p->lives) {
		steps_finish(&p->lives->steps);
		stepsamples_finish(p->stepsamples, &p->lives->steps);
	}
}

void eventloop_release(struct replay_process *p)
{
	phases_release(&p->phases);
	if (p->lives)
		lives_release(p->lives);
	free(p->lives);
	if (p->stepsamples)
		stepsamples_release(p->stepsamples);
	free(p->stepsamples);
	if (p->modulepaths)
		modulepaths_release(p->modulepaths);
	free(p->modulepaths);
	names_close(p->names);
	p->names = NULL;
	p->lives = NULL;
	p->stepsamples = NULL;
	p->modulepaths = NULL;
}
