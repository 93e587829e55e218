/* SPDX-License-Identifier: MIT */
/* Following a replay. */
#include "analyzer/picture/picture.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/recording/sorted.h"

/* Nearly always the one of the event before. */
static struct picture_process *process_of(struct picture *p, const struct replay_process *process)
{
	for (size_t i = p->nr_processes; i-- > 0;)
		if (p->process[i].process == process)
			return &p->process[i];
	p->process = heap_grow(p->process, &p->room, p->nr_processes + 1, sizeof(*p->process));
	p->process[p->nr_processes] = (struct picture_process){ .process = process };
	return &p->process[p->nr_processes++];
}

static struct picture_device *device_of(struct picture_process *p, uint32_t ordinal)
{
	if (!p->device[ordinal]) {
		p->device[ordinal] = heap_alloc(1, sizeof(**p->device));
		p->device[ordinal]->ordinal = ordinal;
	}
	return p->device[ordinal];
}

/* ---- totals ------------------------------------------------------------------------------------ */

static struct moment moment_of(const struct replay_process *process, const struct tfmt_event *ev, uint32_t device,
			       uint64_t time_ns)
{
	const struct device_books *b = books_device(process->books, device);
	const struct residual_figures *f = books_residual(process->books, device);
	const struct residual_parts *last = &f->last;

	return (struct moment){
		.ordinal = ev->ordinal,
		.time_ns = time_ns,
		.allocated = b->allocated_bytes,
		.reserved = b->reserved_bytes,
		.driver = b->driver_bytes,
		/* What is beside the ledger, as the latest sample has it. */
		.used = f->has_last && last->used > last->ledger ? b->driver_bytes + last->used - last->ledger : 0,
		.phase = (uint8_t)process->phase,
	};
}

static void note_failure(struct picture_process *p, const struct tfmt_event *ev, uint64_t time_ns)
{
	if (p->nr_failures == PICTURE_FAILURES) {
		memmove(p->failure, p->failure + 1, (PICTURE_FAILURES - 1) * sizeof(*p->failure));
		p->nr_failures--;
	}
	p->failure[p->nr_failures++] = (struct picture_failure){ time_ns, ev->size, ev->device };
}

static void observe(void *ctx, const struct replay_process *process, const struct tfmt_event *ev, uint64_t time_ns)
{
	struct picture_process *p = process_of(ctx, process);
	struct moment now;

	driverspans_observe(&p->spans, process, ev, time_ns);
	if (ev->before || ev->device >= TFMT_NR_DEVICES || !books_device(process->books, ev->device)->present)
		return;
	now = moment_of(process, ev, ev->device, time_ns);
	moments_enter(&device_of(p, ev->device)->moments, &now);
	if (ev->kind == TFMT_TENSOR_OOM) {
		note_failure(p, ev, time_ns);
		moments_keep(&device_of(p, ev->device)->moments, &now);
	}
}

/* ---- blocks ------------------------------------------------------------------------------------ */

/* The process whose lives these are: replay_process is at one place while the replay goes on. */
static struct replay_process *process_of_lives(const struct picture *p, const struct lives *lives)
{
	for (size_t i = 0; i < p->replay->nr_processes; i++)
		if (p->replay->process[i].lives == lives)
			return &p->replay->process[i];
	return NULL;
}

static struct liverows *rows_of(struct picture *p, const struct lives *lives, uint32_t ordinal,
				struct picture_device **device, struct replay_process **process)
{
	struct picture_process *last = p->nr_processes ? &p->process[p->nr_processes - 1] : NULL;

	if (ordinal >= TFMT_NR_DEVICES)
		return NULL;
	if (last && last->process->lives == lives && last->device[ordinal] && last->device[ordinal]->rows) {
		*device = last->device[ordinal];
		*process = NULL;
		return (*device)->rows;
	}
	*process = process_of_lives(p, lives);
	if (!*process)
		return NULL;
	*device = device_of(process_of(p, *process), ordinal);
	if (!(*device)->rows)
		(*device)->rows = liverows_open(*process, ordinal);
	return (*device)->rows;
}

static void begin_life(void *ctx, const struct lives *lives, const struct life *life, size_t place, uint64_t time_ns)
{
	struct picture *p = ctx;
	struct replay_process *process;
	struct picture_device *device;
	struct liverows *rows = rows_of(p, lives, life->device, &device, &process);

	if (rows)
		liverows_begin(rows, place, time_ns);
}

static void end_life(void *ctx, const struct lives *lives, const struct life *life, size_t place, uint64_t time_ns)
{
	struct picture *p = ctx;
	struct replay_process *process;
	struct picture_device *device;
	struct liverows *rows = rows_of(p, lives, life->device, &device, &process);

	if (rows)
		liverows_end(rows, life, place, time_ns, &device->moments);
}

/* ---- the whole --------------------------------------------------------------------------------- */

void picture_follow(struct picture *p, struct replay *m, struct replay_options *options)
{
	*p = (struct picture){ .replay = m, .follower = { p, begin_life, end_life } };
	*options = (struct replay_options){
		.observe = observe,
		.ctx = p,
		.observe_past = true,
		.lives = true,
		.follower = &p->follower,
		.names = true,
		.modules = true,
	};
}

void picture_settle(struct picture *p)
{
	for (size_t i = 0; i < p->nr_processes; i++)
		for (size_t d = 0; d < TFMT_NR_DEVICES; d++)
			if (p->process[i].device[d] && p->process[i].device[d]->rows)
				liverows_settle(p->process[i].device[d]->rows, &p->process[i].device[d]->moments);
}

const struct picture_process *picture_process_of(const struct picture *p, const struct replay_process *process)
{
	for (size_t i = 0; i < p->nr_processes; i++)
		if (p->process[i].process == process)
			return &p->process[i];
	return NULL;
}

const struct picture_device *picture_device_of(const struct picture *p, const struct replay_device *d)
{
	const struct picture_process *process = picture_process_of(p, d->process);

	return process && d->ordinal < TFMT_NR_DEVICES ? process->device[d->ordinal] : NULL;
}

void picture_release(struct picture *p)
{
	for (size_t i = 0; i < p->nr_processes; i++) {
		for (size_t d = 0; d < TFMT_NR_DEVICES; d++) {
			struct picture_device *device = p->process[i].device[d];

			if (!device)
				continue;
			moments_release(&device->moments);
			liverows_close(device->rows);
			free(device);
		}
		driverspans_release(&p->process[i].spans);
	}
	free(p->process);
	*p = (struct picture){ 0 };
}

/* When an event was: that of a moment, or between two as far as it lies between their events. */
static uint64_t time_of(const struct moments_point *point, size_t nr, uint64_t ordinal)
{
	const size_t at = offsetof(struct moments_point, moment.ordinal);
	size_t i = sorted_below(point, nr, sizeof(*point), at, ordinal);
	const struct moment *a, *b;

	if (!i || i == nr)
		return nr ? point[i ? nr - 1 : 0].moment.time_ns : 0;
	a = &point[i - 1].moment;
	b = &point[i].moment;
	if (b->time_ns <= a->time_ns)
		return b->time_ns;
	return a->time_ns + (uint64_t)((double)(b->time_ns - a->time_ns) * (double)(ordinal - a->ordinal) /
				       (double)(b->ordinal - a->ordinal));
}

uint64_t *picture_steps(const struct replay_process *process, const struct moments_point *point, size_t nr_points,
			size_t max, size_t *nr, uint32_t *every)
{
	const struct steps *steps = process->lives ? &process->lives->steps : NULL;
	uint32_t nr_steps = steps ? steps_count(steps) : 0;
	const struct steps_bounds *b = nr_steps ? steps_bounds(steps) : NULL;
	uint64_t *time_ns = heap_alloc(nr_steps, sizeof(*time_ns));

	*nr = 0;
	*every = (uint32_t)(nr_steps / (max + 1)) + 1;
	/* Only named steps have a bound at the beginning of the first. */
	for (uint32_t i = 0; b && i < nr_steps; i += *every) {
		size_t bound = b == &steps->named ? i + 1 : i;

		time_ns[(*nr)++] = bound ? time_of(point, nr_points, b->ordinal[bound - 1])
					 : nr_points ? point[0].from_ns : 0;
	}
	return time_ns;
}
