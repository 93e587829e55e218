/* SPDX-License-Identifier: MIT */
/* Following failed requests while a recording is loaded; see failures.h. */
#include "analyzer/failures/failures.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/failures/fatal.h"
#include "analyzer/recording/idtable.h"

static struct failures_of_device *device_of(struct failures *f, const struct replay_process *p,
					    uint32_t ordinal)
{
	for (size_t i = 0; i < f->nr_devices; i++)
		if (f->device[i].process == p && f->device[i].ordinal == ordinal)
			return &f->device[i];
	f->device = heap_need(realloc(f->device, (f->nr_devices + 1) * sizeof(*f->device)));
	f->device[f->nr_devices] = (struct failures_of_device){ .process = p, .ordinal = ordinal };
	return &f->device[f->nr_devices++];
}

/* What the driver had free at a sample, and what has changed since. */
static void see_free(struct failure *failure, uint64_t then, uint64_t ledger_then, uint64_t ledger)
{
	int64_t bytes = (int64_t)then + (int64_t)(ledger_then - ledger);

	failure->free = bytes > 0 ? (uint64_t)bytes : 0;
	failure->free_known = true;
}

static void see_driver(struct failure *failure, const struct residual_figures *r)
{
	const struct residual_parts *last = &r->last;

	if (r->has_free && !r->has_last)
		see_free(failure, r->free, r->free_ledger, r->ledger);
	if (!r->has_last || !last->total)
		return;
	see_free(failure, last->total - last->used, last->ledger, r->ledger);
	failure->other_processes = last->other_processes;
	failure->others_known = last->knows_processes;
	if (last->knows_driver)
		failure->context = last->context + last->code + last->local_memory;
}

static void add_failure(struct failures_of_device *d, const struct failure *failure)
{
	d->nr_all++;
	if (d->nr_failures == FAILURES_KEPT)
		d->nr_failures--; /* the last one counts most */
	d->failure = heap_grow(d->failure, &d->room, d->nr_failures + 1, sizeof(*d->failure));
	d->failure[d->nr_failures++] = *failure;
	if (d->nr_handled > d->nr_failures - 1)
		d->nr_handled = d->nr_failures - 1;
}

/* What the driver refused was a try: it was told as a failure since, or served after all. */
static void drop_last(struct failures_of_device *d)
{
	d->nr_failures--;
	d->nr_all--;
	if (d->nr_handled > d->nr_failures)
		d->nr_handled = d->nr_failures;
}

static void drop_tries(struct failures_of_device *d)
{
	while (d->nr_failures && (d->failure[d->nr_failures - 1].is_driver || d->failure[d->nr_failures - 1].is_library))
		drop_last(d);
}

static void request_failed(struct failures_of_device *d, const struct tfmt_event *ev, uint64_t time_ns)
{
	const struct device_books *b = books_device(d->process->books, d->ordinal);
	const struct lives *lives = d->process->lives;
	const struct residual_figures *residual = books_residual(d->process->books, d->ordinal);
	bool is_refused = d->refused.bytes && d->refused.python_stack == ev->python_stack;
	struct failure failure = {
		.ordinal = ev->ordinal,
		.time_ns = time_ns,
		.asked = ev->size,
		.refused = is_refused ? d->refused.bytes : 0,
		.allocated = b->allocated_bytes,
		.reserved = b->reserved_bytes,
		.python_stack = ev->python_stack,
		.shape = ev->shape,
		.native_stack = is_refused ? d->refused.native_stack : ev->native_stack,
		.stream = ev->stream,
		.phase = (uint8_t)d->process->phase,
	};

	if (ev->kind == TFMT_ALLOC_FAILED) {
		failure.is_pooled = b->tensor_ooms > 0;
		failure.is_library = !failure.is_pooled && b->is_beside_refused;
		failure.is_driver = !failure.is_pooled && !failure.is_library;
		failure.refused = ev->size;
		failure.modelled = ev->flags & TFMT_FLAG_MODELLED ? ev->function : 0;
		/* No report says what is reserved: a pool's tensors at least, else all that was taken. */
		if (!failure.is_library)
			failure.reserved = failure.is_driver ? b->driver_bytes : residual->last.pool_reserved;
		if (failure.reserved < failure.allocated)
			failure.reserved = failure.allocated;
	}
	if (lives) {
		failure.nr_begun = lives->now.nr_begun;
		failure.nr_forwards = lives->now.nr_forwards;
		failure.nr_cycles = lives->now.nr_cycles;
	}
	see_driver(&failure, residual);
	add_failure(d, &failure);
	d->refused.bytes = 0;
}

static struct failures_process *process_of(struct failures *f, const struct replay_process *p)
{
	struct failures_process *q = f->nr_processes ? &f->process[f->nr_processes - 1] : NULL;

	if (q && q->process == p)
		return q;
	f->process = heap_need(realloc(f->process, (f->nr_processes + 1) * sizeof(*f->process)));
	f->process[f->nr_processes] = (struct failures_process){ .process = p };
	return &f->process[f->nr_processes++];
}

/* No step can begin after this event and up to now. */
static uint64_t step_began(const struct replay_process *p)
{
	const struct steps *steps = p->lives ? &p->lives->steps : NULL;
	uint64_t named = steps && steps->named.nr_bounds ? steps->named.ordinal[steps->named.nr_bounds - 1] : 0;

	return steps && steps->pending_ordinal > named ? steps->pending_ordinal : named;
}

static void add_size(struct failures_sizes *s, const struct replay_process *p, const struct tfmt_event *ev)
{
	uint64_t from = step_began(p);

	s->next_bytes = ev->size + 1;
	s->latest = ev->ordinal;
	if (from && s->nr && s->ordinal[s->nr - 1] >= from) {
		s->bytes_until = s->bytes[s->nr - 1];
		s->bytes[s->nr - 1] = ev->size;
		return;
	}
	s->bytes_until = 0;
	if (s->nr == FAILURES_RECORDS) {
		memmove(s->ordinal, s->ordinal + 1, (FAILURES_RECORDS - 1) * sizeof(s->ordinal[0]));
		memmove(s->bytes, s->bytes + 1, (FAILURES_RECORDS - 1) * sizeof(s->bytes[0]));
		s->nr--;
		s->has_older = true;
	}
	s->ordinal[s->nr] = ev->ordinal;
	s->bytes[s->nr++] = ev->size;
}

/* Has the stack had as much before? True of nearly all events; false says nothing. */
static inline bool is_size_known(const struct failures *f, const struct replay_process *p, const struct tfmt_event *ev)
{
	const struct failures_process *q = f->nr_processes ? &f->process[f->nr_processes - 1] : NULL;

	return q && q->process == p && ev->python_stack < q->nr_sizes &&
	       ev->size < q->sizes[ev->python_stack].next_bytes;
}

static void note_size(struct failures *f, const struct replay_process *p, const struct tfmt_event *ev)
{
	struct failures_process *q = process_of(f, p);
	uint32_t stack = ev->python_stack;

	if (stack < TFMT_STACK_FIRST)
		return;
	if (stack >= q->nr_sizes)
		q->sizes = idtable_grown(q->sizes, &q->nr_sizes, stack, sizeof(*q->sizes), p->reader);
	if (stack >= q->nr_sizes)
		return;
	if (ev->size >= q->sizes[stack].next_bytes)
		add_size(&q->sizes[stack], p, ev);
}

/* The program goes on: every failure before is handled if `stack` is that of the last one, or 0. */
static void handle(struct failures_of_device *d, uint32_t stack)
{
	size_t last = d->nr_failures;

	while (last > d->nr_handled && stack && d->failure[last - 1].python_stack != stack)
		last--;
	for (; d->nr_handled < last; d->nr_handled++)
		d->failure[d->nr_handled].handled = true;
}

static __attribute__((noinline)) void tensor_allocated(struct failures *f, const struct replay_process *p,
						       const struct tfmt_event *ev)
{
	struct failures_of_device *d;

	stepinputs_observe(&f->inputs, p->books, p->lives, ev);
	note_size(f, p, ev);
	for (size_t i = 0; i < f->nr_devices; i++) {
		d = &f->device[i];
		if (d->process != p || d->ordinal != ev->device)
			continue;
		d->refused.bytes = 0;
		drop_tries(d);
		if (d->nr_handled < d->nr_failures)
			handle(d, ev->python_stack);
	}
}

/* Memory was taken from the driver: where that is all there is, the program may have got over a failure. */
static void driver_allocated(struct failures *f, const struct replay_process *p, const struct tfmt_event *ev)
{
	for (size_t i = 0; i < f->nr_devices; i++) {
		struct failures_of_device *d = &f->device[i];
		const struct failure *last = d->nr_failures ? &d->failure[d->nr_failures - 1] : NULL;

		if (d->process != p || d->ordinal != ev->device || !last ||
		    (!last->is_driver && !last->is_pooled && !last->is_library))
			continue;
		if (last->is_pooled && books_device(p->books, d->ordinal)->tensor_ooms < d->nr_ooms) {
			drop_last(d);
			d->nr_ooms = books_device(p->books, d->ordinal)->tensor_ooms;
		} else if (last->is_driver || last->python_stack == ev->python_stack) {
			handle(d, 0);
		}
	}
}

/* Has the framework, or a pool for it, just failed to serve this? Or is there none that could say so? */
static bool is_failure(const struct failures_of_device *d, const struct tfmt_event *ev)
{
	const struct device_books *b = books_device(d->process->books, d->ordinal);

	if (ev->kind == TFMT_TENSOR_OOM)
		return true;
	if (b->pool_refused_bytes)
		return b->pool_refused_bytes == ev->size && b->pool_refused_thread == ev->thread;
	return b->is_beside_refused || (!b->tensor_allocs && !b->tensor_ooms && ev->size);
}

static void pass_ended(struct failures *f, const struct replay_process *p)
{
	for (size_t i = 0; i < f->nr_devices; i++) {
		struct failures_of_device *d = &f->device[i];

		/* Of a pass that began after it. */
		if (d->process == p && d->nr_handled < d->nr_failures && p->lives &&
		    p->lives->steps.nr_backwards > d->failure[d->nr_failures - 1].nr_begun)
			handle(d, 0);
	}
}

void failures_observe(void *ctx, const struct replay_process *process, const struct tfmt_event *ev,
		      uint64_t time_ns)
{
	struct failures *f = ctx;
	struct failures_of_device *d;

	if (ev->kind == TFMT_TENSOR_FREE)
		return;
	if (ev->kind == TFMT_TENSOR_ALLOC) {
		/* Nearly always there is no failure yet, and nothing new in the event. */
		if (f->nr_devices || !stepinputs_raise(&f->inputs, process->books, ev) || !is_size_known(f, process, ev))
			tensor_allocated(f, process, ev);
		return;
	}
	if (ev->kind == TFMT_DRIVER_ALLOC)
		driver_allocated(f, process, ev);
	else if (ev->kind == TFMT_PHASE_END && ev->address == TFMT_PHASE_BACKWARD)
		pass_ended(f, process);
	if ((ev->kind != TFMT_TENSOR_OOM && ev->kind != TFMT_ALLOC_FAILED) || ev->device >= TFMT_NR_DEVICES)
		return;
	d = device_of(f, process, ev->device);
	if (is_failure(d, ev)) {
		if (ev->kind == TFMT_TENSOR_OOM)
			drop_tries(d);
		request_failed(d, ev, time_ns);
		d->nr_ooms = books_device(process->books, ev->device)->tensor_ooms;
	}
	if (ev->kind == TFMT_ALLOC_FAILED) {
		d->refused.bytes = ev->size;
		d->refused.python_stack = ev->python_stack;
		d->refused.native_stack = ev->native_stack;
	}
}

void failures_set_cached(struct failures *f, const struct replay_process *p, uint32_t ordinal, struct frag_cached cached)
{
	for (size_t i = 0; i < f->nr_devices; i++) {
		struct failures_of_device *d = &f->device[i];

		if (d->process == p && d->ordinal == ordinal && d->nr_failures)
			d->failure[d->nr_failures - 1].cached = cached;
	}
}

const struct failure *failures_last(const struct failures_of_device *d)
{
	uint64_t ordinal = books_device(d->process->books, d->ordinal)->main_oom.ordinal;

	for (size_t i = d->nr_failures; ordinal && i-- > 0;)
		if (d->failure[i].ordinal == ordinal)
			return &d->failure[i];
	return &d->failure[d->nr_failures - 1];
}

void failures_release(struct failures *f)
{
	for (size_t i = 0; i < f->nr_devices; i++)
		free(f->device[i].failure);
	for (size_t i = 0; i < f->nr_processes; i++)
		free(f->process[i].sizes);
	free(f->device);
	free(f->process);
	stepinputs_release(&f->inputs);
	*f = (struct failures)FAILURES_INIT;
}

const struct failures_of_device *failures_of(const struct failures *f, const struct replay_device *d)
{
	for (size_t i = 0; i < f->nr_devices; i++)
		if (f->device[i].process == d->process && f->device[i].ordinal == d->ordinal &&
		    f->device[i].nr_failures)
			return &f->device[i];
	return NULL;
}

uint64_t failures_largest_before(const struct failures *f, const struct replay_process *p,
				 uint32_t python_stack, uint64_t ordinal)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < f->nr_processes; i++) {
		const struct failures_process *q = &f->process[i];
		const struct failures_sizes *s;

		if (q->process != p || python_stack >= q->nr_sizes)
			continue;
		s = &q->sizes[python_stack];
		if (s->has_older)
			bytes = s->bytes[0];
		for (uint32_t k = 0; k < s->nr && s->ordinal[k] < ordinal; k++)
			bytes = k + 1 == s->nr && s->latest >= ordinal ? s->bytes_until : s->bytes[k];
	}
	return bytes;
}

/* Out of memory beats fullness. */
static bool is_worse(const struct replay_device *a, const struct replay_device *b)
{
	if (!a->books->tensor_ooms != !b->books->tensor_ooms)
		return a->books->tensor_ooms;
	return replay_filled_bytes(a) > replay_filled_bytes(b);
}

const struct replay_device *failures_worst_device(const struct failures *f, const struct replay *m)
{
	const struct replay_device *failed = fatal_device(f, m), *worst = m->nr_devices ? &m->device[0] : NULL;

	for (size_t i = 1; i < m->nr_devices; i++)
		if (is_worse(&m->device[i], worst))
			worst = &m->device[i];
	return failed ? failed : worst;
}
