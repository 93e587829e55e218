/* SPDX-License-Identifier: MIT */
/* Devices, parts and facts of two footprints side by side. The stacks are matched in compare_stacks.c. */
#include "analyzer/gate/compare.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/gate/compare_stacks.h"

void compare_release(struct compare *c)
{
	for (uint32_t i = 0; i < c->nr_devices; i++) {
		free(c->device[i].stack);
		for (int by = 0; by < NR_BREAKDOWNS; by++)
			free(c->device[i].part[by]);
	}
	free(c->device);
	free(c->fact);
	*c = (struct compare)COMPARE_INIT;
}

uint64_t tolerance_of(const struct tolerance *t, uint64_t bytes)
{
	return t->is_percent ? (uint64_t)((double)bytes * t->percent / 100) : t->bytes;
}

const struct compare_device *compare_of(const struct compare *c, const struct footprint_device *after)
{
	for (uint32_t i = 0; i < c->nr_devices; i++)
		if (c->device[i].after == after)
			return &c->device[i];
	return NULL;
}

/* ---- facts ----------------------------------------------------------------------------------- */

static void add_fact(struct compare *c, const char *what, const char *before, const char *after)
{
	struct compare_fact *fact = &c->fact[c->nr_facts];

	if (!strcmp(before, after))
		return;
	snprintf(fact->what, sizeof(fact->what), "%s", what);
	snprintf(fact->before, sizeof(fact->before), "%s", *before ? before : "none");
	snprintf(fact->after, sizeof(fact->after), "%s", *after ? after : "none");
	c->nr_facts++;
}

static void add_number(struct compare *c, const char *what, int64_t before, int64_t after)
{
	char a[32] = "", b[32] = "";

	if (before >= 0)
		snprintf(a, sizeof(a), "%" PRId64, before);
	if (after >= 0)
		snprintf(b, sizeof(b), "%" PRId64, after);
	add_fact(c, what, a, b);
}

static void device_facts(struct compare *c, const struct footprint_device *before, const struct footprint_device *after)
{
	char name[64], what[80];

	footprint_device_name(name, sizeof(name), after);
	add_fact(c, name, before->name, after->name);
	if (strcmp(before->name, after->name))
		return;
	snprintf(what, sizeof(what), "bytes of %s", name);
	add_number(c, what, (int64_t)before->capacity_bytes, (int64_t)after->capacity_bytes);
}

#define FACTS_OF_ALL 5

static void find_facts(struct compare *c, const struct footprint *before, const struct footprint *after)
{
	add_fact(c, "simulated GPU", before->simulated, after->simulated);
	add_fact(c, "torch", before->torch, after->torch);
	add_fact(c, "allocator settings", before->settings, after->settings);
	add_number(c, "ranks of the job", before->world_size, after->world_size);
	if (c->nr_devices < before->nr_devices || c->nr_devices < after->nr_devices)
		add_number(c, before->nr_devices == after->nr_devices ? "numbers of the GPUs" : "GPUs used",
			   (int64_t)before->nr_devices, (int64_t)after->nr_devices);
	for (uint32_t i = 0; i < c->nr_devices; i++)
		device_facts(c, c->device[i].before, c->device[i].after);
}

/* ---- parts ----------------------------------------------------------------------------------- */

static void find_parts(struct compare_device *d, enum footprint_by by)
{
	const struct footprint_device *a = d->before, *b = d->after;
	uint32_t i = 0, k = 0;

	d->part[by] = heap_alloc((size_t)a->nr_parts[by] + b->nr_parts[by], sizeof(*d->part[by]));
	while (i < a->nr_parts[by] || k < b->nr_parts[by]) {
		const struct footprint_part *x = i < a->nr_parts[by] ? &a->part[by][i] : NULL;
		const struct footprint_part *y = k < b->nr_parts[by] ? &b->part[by][k] : NULL;
		int order = !x ? 1 : !y ? -1 : strcmp(x->name, y->name);

		d->part[by][d->nr_parts[by]++] = (struct compare_part){ order <= 0 ? x->name : y->name,
									order <= 0 ? x->bytes : 0,
									order >= 0 ? y->bytes : 0 };
		i += order <= 0;
		k += order >= 0;
	}
}

/* ---- devices --------------------------------------------------------------------------------- */

static uint64_t stacks_sum(const struct footprint_device *d)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < d->nr_stacks; i++)
		sum += d->stack[i].bytes;
	return sum;
}

static void compare_devices(struct compare *c, const struct footprint_device *before,
			    const struct footprint_device *after, uint64_t min_bytes)
{
	struct compare_device *d = &c->device[c->nr_devices++];

	*d = (struct compare_device){ .before = before, .after = after };
	for (int by = 0; by < NR_BREAKDOWNS; by++)
		find_parts(d, (enum footprint_by)by);
	compare_stacks(d);
	/* Unsigned, because a baseline may say anything. */
	d->left_out_grown_bytes = (int64_t)((after->figure[FIGURE_PEAK] - stacks_sum(after)) -
					    (before->figure[FIGURE_PEAK] - stacks_sum(before)) +
					    (uint64_t)compare_drop_small(d, min_bytes));
}

void compare_footprints(struct compare *c, const struct footprint *before, const struct footprint *after)
{
	uint32_t most = before->nr_devices > after->nr_devices ? before->nr_devices : after->nr_devices;
	uint64_t min_bytes = before->min_bytes > after->min_bytes ? before->min_bytes : after->min_bytes;

	*c = (struct compare)COMPARE_INIT;
	c->device = heap_alloc(most, sizeof(*c->device));
	c->fact = heap_alloc(2 * (size_t)most + FACTS_OF_ALL, sizeof(*c->fact));
	for (uint32_t i = 0, k = 0; i < before->nr_devices && k < after->nr_devices;) {
		int order = footprint_compare_devices(&before->device[i], &after->device[k]);

		if (!order)
			compare_devices(c, &before->device[i], &after->device[k], min_bytes);
		i += order <= 0;
		k += order >= 0;
	}
	find_facts(c, before, after);
}
