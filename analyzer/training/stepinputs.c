/* SPDX-License-Identifier: MIT */
/* Taking down what each cycle needed, and which shapes it began with. */
#include "analyzer/training/stepinputs.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/recording/sorted.h"

static struct stepinputs_device *device_of(struct stepinputs *s, const struct books *books, const struct lives *lives,
					   uint32_t ordinal)
{
	struct stepinputs_device *d;

	for (size_t i = s->nr_devices; i--;)
		if (s->device[i].books == books && s->device[i].ordinal == ordinal)
			return &s->device[i];
	s->device = heap_grow(s->device, &s->devices_room, s->nr_devices + 1, sizeof(*d));
	d = &s->device[s->nr_devices++];
	*d = (struct stepinputs_device){
		.books = books, .figures = books_device(books, ordinal), .lives = lives, .ordinal = ordinal
	};
	d->peak_bytes = heap_alloc(STEPINPUTS_CYCLES, sizeof(*d->peak_bytes));
	d->place = heap_alloc(STEPINPUTS_PLACES, sizeof(*d->place));
	return d;
}

static void note_peak(struct stepinputs_device *d, uint32_t cycle, uint64_t bytes)
{
	uint32_t half = STEPINPUTS_CYCLES / 2;

	while (cycle - d->first_cycle >= STEPINPUTS_CYCLES) {
		memmove(d->peak_bytes, d->peak_bytes + half, half * sizeof(*d->peak_bytes));
		memset(d->peak_bytes + half, 0, half * sizeof(*d->peak_bytes));
		d->first_cycle += half;
	}
	cycle -= d->first_cycle;
	d->nr_cycles = cycle + 1;
	if (bytes > d->peak_bytes[cycle])
		d->peak_bytes[cycle] = bytes;
}

static struct stepinputs_place *place_of(struct stepinputs_device *d, uint32_t python_stack)
{
	for (uint32_t i = 0; i < d->nr_places; i++)
		if (d->place[i].python_stack == python_stack)
			return &d->place[i];
	if (d->nr_places == STEPINPUTS_PLACES)
		return NULL;
	d->place[d->nr_places].python_stack = python_stack;
	return &d->place[d->nr_places++];
}

static bool is_like(const struct stepinputs_change *a, const struct stepinputs_change *b)
{
	return a->nr_dims == b->nr_dims && a->bytes == b->bytes && !memcmp(a->dims, b->dims, sizeof(a->dims));
}

static void add_change(struct stepinputs_place *p, const struct stepinputs_change *c)
{
	struct stepinputs_change *last = p->nr_changes ? &p->change[p->nr_changes - 1] : NULL;
	bool is_like_last = last && is_like(last, c);

	if (is_like_last && last->cycle == c->cycle) {
		last->nr++;
		return;
	}
	/* Batches that are all alike are two changes: the first, and the last, of which the number is asked for. */
	if (is_like_last && last != p->change && is_like(last - 1, c)) {
		*last = *c;
		return;
	}
	if (p->nr_changes == STEPINPUTS_CHANGES) {
		p->nr_changes /= 2;
		memmove(p->change, p->change + p->nr_changes, p->nr_changes * sizeof(*p->change));
	}
	p->change = heap_grow(p->change, &p->room, p->nr_changes + 1, sizeof(*p->change));
	p->change[p->nr_changes++] = *c;
}

static void note_shape(struct stepinputs_device *d, const struct tfmt_event *ev)
{
	struct stepinputs_change c = { .ordinal = ev->ordinal, .nr = 1, .cycle = d->lives->now.nr_cycles };
	struct stepinputs_place *p;
	struct tfmt_shape shape;

	if (ev->python_stack < TFMT_STACK_FIRST || !ev->shape ||
	    !tfmt_reader_shape(books_reader(d->books), ev->shape, &shape) || !shape.nr_dims ||
	    shape.nr_dims > STEPINPUTS_DIMS)
		return;
	p = place_of(d, ev->python_stack);
	if (!p)
		return;
	c.nr_dims = (uint8_t)shape.nr_dims;
	c.bytes = shape.bytes;
	memcpy(c.dims, shape.dims, shape.nr_dims * sizeof(*c.dims));
	add_change(p, &c);
}

void stepinputs_observe(struct stepinputs *s, const struct books *books, const struct lives *lives,
			const struct tfmt_event *ev)
{
	struct stepinputs_device *d;

	if (ev->kind != TFMT_TENSOR_ALLOC || !lives || ev->device >= TFMT_NR_DEVICES)
		return;
	d = device_of(s, books, lives, ev->device);
	note_peak(d, lives->now.nr_cycles, d->figures->allocated_bytes);
	if (lives->now.phase == PHASE_OTHER)
		note_shape(d, ev);
}

void stepinputs_release(struct stepinputs *s)
{
	for (size_t i = 0; i < s->nr_devices; i++) {
		for (uint32_t k = 0; k < s->device[i].nr_places; k++)
			free(s->device[i].place[k].change);
		free(s->device[i].place);
		free(s->device[i].peak_bytes);
	}
	free(s->device);
	*s = (struct stepinputs)STEPINPUTS_INIT;
}

const struct stepinputs_device *stepinputs_of(const struct stepinputs *s, const struct books *books, uint32_t ordinal)
{
	for (size_t i = 0; i < s->nr_devices; i++)
		if (s->device[i].books == books && s->device[i].ordinal == ordinal)
			return &s->device[i];
	return NULL;
}

uint32_t stepinputs_from(const struct stepinputs_place *p, uint64_t ordinal)
{
	return (uint32_t)sorted_below(p->change, p->nr_changes, sizeof(*p->change),
				      offsetof(struct stepinputs_change, ordinal), ordinal);
}

const struct stepinputs_change *stepinputs_at(const struct stepinputs_place *p, uint64_t ordinal)
{
	uint32_t after = ordinal < UINT64_MAX ? stepinputs_from(p, ordinal + 1) : p->nr_changes;

	return after ? &p->change[after - 1] : NULL;
}
