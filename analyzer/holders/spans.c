/* SPDX-License-Identifier: MIT */
/* Spans of time, followed event by event. */
#include "analyzer/holders/spans.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"

/* A span that the events are in; of[d] holds once device d was touched in it. */
struct span_open {
	size_t span;
	struct {
		bool touched;
		struct stay_figures tensor, driver;
	} of[TFMT_NR_DEVICES];
};

void spans_release(struct spans *s)
{
	for (size_t i = 0; i < s->nr_spans; i++)
		free(s->span[i].name);
	free(s->span);
	free(s->stay);
	free(s->open);
	*s = (struct spans)SPANS_INIT;
}

static void add_stay(struct spans *s, const struct stay *stay)
{
	s->stay = heap_grow(s->stay, &s->stays_room, s->nr_stays + 1, sizeof(*s->stay));
	s->stay[s->nr_stays++] = *stay;
}

static void touch(struct spans *s, struct span_open *open, uint32_t d, uint64_t peak_ns)
{
	uint64_t tensor = s->tensor_bytes[d], driver = s->driver_bytes[d];

	if (open->of[d].touched)
		return;
	open->of[d].touched = true;
	open->of[d].tensor = (struct stay_figures){ tensor, tensor, tensor, peak_ns };
	open->of[d].driver = (struct stay_figures){ driver, driver, driver, peak_ns };
}

/* A span ends: what it has of each device becomes a stay. */
static void close_span(struct spans *s, struct span_open *open)
{
	for (uint32_t d = 0; d < TFMT_NR_DEVICES; d++) {
		struct stay stay = { .span = open->span, .process = s->process, .device = d };

		if (s->tensor_bytes[d] || s->driver_bytes[d])
			touch(s, open, d, replay_time(s->process, s->span[open->span].from_ns));
		if (!open->of[d].touched)
			continue;
		stay.tensor = open->of[d].tensor;
		stay.driver = open->of[d].driver;
		stay.tensor.end_bytes = s->tensor_bytes[d];
		stay.driver.end_bytes = s->driver_bytes[d];
		add_stay(s, &stay);
	}
}

static void open_span(struct spans *s, size_t i)
{
	if (s->span[i].pid && s->span[i].pid != s->process->header->pid)
		return;
	s->open = heap_grow(s->open, &s->open_room, s->nr_open + 1, sizeof(*s->open));
	memset(&s->open[s->nr_open], 0, sizeof(*s->open));
	s->open[s->nr_open++].span = i;
}

/* The next event is of this time (as the trace stores it): spans begin and end before it. */
static void advance(struct spans *s, uint64_t time_ns, uint64_t unit_ns)
{
	size_t kept = 0;

	for (; s->next < s->nr_spans && s->span[s->next].from_ns <= time_ns + unit_ns - 1; s->next++)
		open_span(s, s->next);
	for (size_t i = 0; i < s->nr_open; i++) {
		if (s->span[s->open[i].span].to_ns < time_ns)
			close_span(s, &s->open[i]);
		else if (kept++ != i)
			s->open[kept - 1] = s->open[i];
	}
	s->nr_open = kept;
}

static void finish_process(struct spans *s)
{
	if (s->process)
		advance(s, UINT64_MAX, 1);
	for (size_t i = 0; i < s->nr_open; i++)
		close_span(s, &s->open[i]);
	s->nr_open = s->next = 0;
	memset(s->tensor_bytes, 0, sizeof(s->tensor_bytes));
	memset(s->driver_bytes, 0, sizeof(s->driver_bytes));
}

static void raise_to(struct stay_figures *f, uint64_t bytes, uint64_t time_ns)
{
	if (bytes <= f->peak_bytes)
		return;
	f->peak_bytes = bytes;
	f->peak_ns = time_ns;
}

void spans_observe(void *ctx, const struct replay_process *process, const struct tfmt_event *ev, uint64_t time_ns)
{
	struct spans *s = ctx;
	const struct device_books *books;
	uint32_t d = ev->device;

	if (process != s->process) {
		finish_process(s);
		s->process = process;
	}
	if (d >= TFMT_NR_DEVICES)
		return;
	books = books_device(process->books, d);
	advance(s, ev->time_ns, UINT64_C(1) << process->header->time_shift);
	for (size_t i = 0; i < s->nr_open; i++)
		touch(s, &s->open[i], d, time_ns);
	s->tensor_bytes[d] = books->allocated_bytes;
	s->driver_bytes[d] = books->driver_bytes;
	for (size_t i = 0; i < s->nr_open; i++) {
		raise_to(&s->open[i].of[d].tensor, s->tensor_bytes[d], time_ns);
		raise_to(&s->open[i].of[d].driver, s->driver_bytes[d], time_ns);
	}
}

static int compare_stays(const void *va, const void *vb, void *ctx)
{
	const struct spans *s = ctx;
	const struct stay *a = va, *b = vb;
	size_t la = s->span[a->span].line, lb = s->span[b->span].line;

	if (la != lb)
		return la < lb ? -1 : 1;
	if (a->process != b->process)
		return a->process < b->process ? -1 : 1;
	return (a->device > b->device) - (a->device < b->device);
}

void spans_finish(struct spans *s)
{
	finish_process(s);
	if (s->nr_stays)
		qsort_r(s->stay, s->nr_stays, sizeof(*s->stay), compare_stays, s);
}
