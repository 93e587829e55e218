/* SPDX-License-Identifier: MIT */
/* Following failed requests while a recording is loaded; see failures.h. */
#include "analyzer/failures.h"

#include <stdlib.h>
#include <string.h>

#define STACKS_MAX (1u << 26)

static struct failures_of_device *device_of(struct failures *f, const struct model_process *p,
					    uint32_t ordinal)
{
	struct failures_of_device *grown;

	for (size_t i = 0; i < f->nr_devices; i++)
		if (f->device[i].process == p && f->device[i].ordinal == ordinal)
			return &f->device[i];
	grown = realloc(f->device, (f->nr_devices + 1) * sizeof(*grown));
	if (!grown) {
		f->is_short_of_memory = true;
		return NULL;
	}
	f->device = grown;
	grown += f->nr_devices++;
	*grown = (struct failures_of_device){ .process = p, .ordinal = ordinal };
	return grown;
}

/* What the driver had free: its latest sample, and what has changed since. */
static void see_driver(struct failure *failure, const struct residual *r)
{
	const struct residual_parts *last = &r->last;
	int64_t free_bytes;

	if (!r->has_last || !last->total)
		return;
	free_bytes = (int64_t)(last->total - last->used) + (int64_t)(last->ledger - r->ledger);
	failure->free = free_bytes > 0 ? (uint64_t)free_bytes : 0;
	failure->free_known = true;
	failure->other_processes = last->other_processes;
	failure->others_known = last->knows_processes;
}

static void add_failure(struct failures_of_device *d, const struct failure *failure)
{
	struct failure *grown;
	size_t room = d->room ? 2 * d->room : 8;

	d->nr_all++;
	if (d->nr_failures == FAILURES_KEPT)
		d->nr_failures--; /* the last one counts most */
	if (d->nr_failures == d->room) {
		grown = realloc(d->failure, room * sizeof(*grown));
		if (!grown)
			return;
		d->failure = grown;
		d->room = room;
	}
	d->failure[d->nr_failures++] = *failure;
	if (d->nr_handled > d->nr_failures - 1)
		d->nr_handled = d->nr_failures - 1;
}

static void request_failed(struct failures_of_device *d, const struct tfmt_event *ev, uint64_t time_ns)
{
	const struct books *books = &d->process->books;
	const struct device_books *b = &books->device[d->ordinal];
	bool is_refused = d->refused.bytes && d->refused.python_stack == ev->python_stack;
	struct failure failure = {
		.ordinal = ev->ordinal,
		.time_ns = time_ns,
		.asked = ev->size,
		.refused = is_refused ? d->refused.bytes : 0,
		.allocated = b->allocated_bytes,
		.reserved = b->reserved_bytes,
		.python_stack = ev->python_stack,
		.native_stack = is_refused ? d->refused.native_stack : ev->native_stack,
		.stream = ev->stream,
		.phase = (uint8_t)books->phase,
	};

	if (books->lives) {
		failure.nr_begun = books->lives->now.nr_begun;
		failure.nr_cycles = books->lives->now.nr_cycles;
	}
	see_driver(&failure, &b->residual);
	add_failure(d, &failure);
	d->refused.bytes = 0;
}

static void note_size(struct failures *f, const struct model_process *p, const struct tfmt_event *ev)
{
	struct failures_process *q = f->nr_processes ? &f->process[f->nr_processes - 1] : NULL;
	struct failures_sizes *s;
	uint32_t room;

	if (!q || q->process != p) {
		q = realloc(f->process, (f->nr_processes + 1) * sizeof(*q));
		if (!q) {
			f->is_short_of_memory = true;
			return;
		}
		f->process = q;
		q += f->nr_processes++;
		*q = (struct failures_process){ .process = p };
	}
	if (ev->python_stack < TFMT_STACK_FIRST || ev->python_stack >= STACKS_MAX)
		return;
	if (ev->python_stack >= q->nr_sizes) {
		for (room = q->nr_sizes ? q->nr_sizes : 256; room <= ev->python_stack;)
			room *= 2;
		s = realloc(q->sizes, room * sizeof(*s));
		if (!s) {
			f->is_short_of_memory = true;
			return;
		}
		memset(s + q->nr_sizes, 0, (room - q->nr_sizes) * sizeof(*s));
		q->sizes = s;
		q->nr_sizes = room;
	}
	s = &q->sizes[ev->python_stack];
	if (s->nr && ev->size < s->bytes[s->nr - 1] + s->bytes[s->nr - 1] / 2)
		return;
	if (s->nr == FAILURES_RECORDS) {
		memmove(s->ordinal, s->ordinal + 1, (FAILURES_RECORDS - 1) * sizeof(s->ordinal[0]));
		memmove(s->bytes, s->bytes + 1, (FAILURES_RECORDS - 1) * sizeof(s->bytes[0]));
		s->nr--;
	}
	s->ordinal[s->nr] = ev->ordinal;
	s->bytes[s->nr++] = ev->size;
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

static void tensor_allocated(struct failures *f, const struct model_process *p, const struct tfmt_event *ev)
{
	struct failures_of_device *d;

	note_size(f, p, ev);
	for (size_t i = 0; i < f->nr_devices; i++) {
		d = &f->device[i];
		if (d->process != p || d->ordinal != ev->device)
			continue;
		d->refused.bytes = 0;
		if (d->nr_handled < d->nr_failures)
			handle(d, ev->python_stack);
	}
}

static void pass_ended(struct failures *f, const struct model_process *p)
{
	for (size_t i = 0; i < f->nr_devices; i++) {
		struct failures_of_device *d = &f->device[i];

		/* Of a pass that began behind it. */
		if (d->process == p && d->nr_handled < d->nr_failures && p->books.lives &&
		    p->books.lives->steps.nr_backwards > d->failure[d->nr_failures - 1].nr_begun)
			handle(d, 0);
	}
}

void failures_observe(void *ctx, const struct model_process *process, const struct tfmt_event *ev,
		      uint64_t time_ns)
{
	struct failures *f = ctx;
	struct failures_of_device *d;

	if (ev->kind == TFMT_TENSOR_ALLOC)
		tensor_allocated(f, process, ev);
	else if (ev->kind == TFMT_PHASE_END && ev->address == TFMT_PHASE_BACKWARD)
		pass_ended(f, process);
	if ((ev->kind != TFMT_TENSOR_OOM && ev->kind != TFMT_ALLOC_FAILED) || ev->device >= TFMT_NR_DEVICES)
		return;
	d = device_of(f, process, ev->device);
	if (!d)
		return;
	if (ev->kind == TFMT_TENSOR_OOM) {
		request_failed(d, ev, time_ns);
		return;
	}
	d->refused.bytes = ev->size;
	d->refused.python_stack = ev->python_stack;
	d->refused.native_stack = ev->native_stack;
}

void failures_release(struct failures *f)
{
	for (size_t i = 0; i < f->nr_devices; i++)
		free(f->device[i].failure);
	for (size_t i = 0; i < f->nr_processes; i++)
		free(f->process[i].sizes);
	free(f->device);
	free(f->process);
	*f = (struct failures)FAILURES_INIT;
}

const struct failures_of_device *failures_of(const struct failures *f, const struct model_device *d)
{
	for (size_t i = 0; i < f->nr_devices; i++)
		if (f->device[i].process == d->process && f->device[i].ordinal == d->ordinal &&
		    f->device[i].nr_failures)
			return &f->device[i];
	return NULL;
}

const struct failure *failures_fatal(const struct failures_of_device *d)
{
	const struct failure *last = d && d->nr_failures ? &d->failure[d->nr_failures - 1] : NULL;

	return last && !last->handled ? last : NULL;
}

const struct model_device *failures_device(const struct failures *f, const struct model *m)
{
	const struct model_device *last = NULL;
	uint64_t last_ns = 0;

	for (size_t i = 0; i < m->nr_devices; i++) {
		const struct failure *failure = failures_fatal(failures_of(f, &m->device[i]));

		if (failure && (!last || failure->time_ns > last_ns)) {
			last = &m->device[i];
			last_ns = failure->time_ns;
		}
	}
	return last;
}

uint64_t failures_largest_before(const struct failures *f, const struct model_process *p,
				 uint32_t python_stack, uint64_t ordinal)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < f->nr_processes; i++) {
		const struct failures_process *q = &f->process[i];

		if (q->process != p || python_stack >= q->nr_sizes)
			continue;
		for (uint32_t k = 0; k < q->sizes[python_stack].nr; k++)
			if (q->sizes[python_stack].ordinal[k] < ordinal)
				bytes = q->sizes[python_stack].bytes[k];
	}
	return bytes;
}

/* Out of memory beats fullness. */
static bool is_worse(const struct model_device *a, const struct model_device *b)
{
	if (!a->books->tensor_ooms != !b->books->tensor_ooms)
		return a->books->tensor_ooms;
	return model_filled_bytes(a) > model_filled_bytes(b);
}

const struct model_device *failures_worst_device(const struct failures *f, const struct model *m)
{
	const struct model_device *failed = failures_device(f, m), *worst = m->nr_devices ? &m->device[0] : NULL;

	for (size_t i = 1; i < m->nr_devices; i++)
		if (is_worse(&m->device[i], worst))
			worst = &m->device[i];
	return failed ? failed : worst;
}
