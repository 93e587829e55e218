/* SPDX-License-Identifier: MIT */
/* Peaks of several runs, device by device. */
#include "analyzer/gate/repeat.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/base/human.h"
#include "analyzer/base/message.h"
#include "analyzer/command.h"
#include "analyzer/purpose/rules.h"

void repeat_release(struct repeat *r)
{
	free(r->device);
	*r = (struct repeat)REPEAT_INIT;
}

/* ---- entering -------------------------------------------------------------------------------- */

/* How many processes of the same rank, or likewise without one, began before this one. */
static uint32_t process_number(const struct replay *m, const struct replay_process *process)
{
	uint32_t nr = 0;

	for (size_t i = 0; i < m->nr_processes; i++) {
		const struct replay_process *p = &m->process[i];

		nr += p->rank == process->rank && p->start_ns < process->start_ns;
	}
	return nr;
}

static int compare_devices(const struct repeat_device *a, const struct repeat_device *b)
{
	if (a->rank != b->rank)
		return a->rank < b->rank ? -1 : 1;
	if (a->process != b->process)
		return a->process < b->process ? -1 : 1;
	return (a->ordinal > b->ordinal) - (a->ordinal < b->ordinal);
}

/* The device like *key, added in its place if it is new. */
static struct repeat_device *find_device(struct repeat *r, const struct repeat_device *key)
{
	struct repeat_device *device;
	size_t at = 0;

	while (at < r->nr_devices && compare_devices(&r->device[at], key) < 0)
		at++;
	if (at < r->nr_devices && !compare_devices(&r->device[at], key))
		return &r->device[at];
	r->device = heap_need(realloc(r->device, (r->nr_devices + 1) * sizeof(*r->device)));
	device = &r->device[at];
	memmove(device + 1, device, (r->nr_devices++ - at) * sizeof(*device));
	*device = *key;
	device->allocated.min = device->reserved.min = device->driver.min = UINT64_MAX;
	return device;
}

static void extend(struct repeat_range *range, uint64_t bytes)
{
	if (bytes < range->min)
		range->min = bytes;
	if (bytes > range->max)
		range->max = bytes;
}

static void note_largest(struct repeat *r, const struct replay *m, unsigned number)
{
	uint64_t filled = 0;
	bool oom = false;

	for (size_t i = 0; i < m->nr_devices; i++) {
		const struct device_books *b = m->device[i].books;
		uint64_t bytes = m->device[i].has_tensors ? b->reserved_peak_bytes : b->driver_peak_bytes;

		filled = bytes > filled ? bytes : filled;
		oom |= b->tensor_ooms > 0;
	}
	if (r->largest && (oom < r->oom || (oom == r->oom && filled <= r->filled_bytes)))
		return;
	r->largest = number;
	r->oom = oom;
	r->filled_bytes = filled;
}

static struct repeat_device key_of(const struct replay *m, const struct replay_device *d)
{
	return (struct repeat_device){ .rank = d->process->rank,
				       .process = process_number(m, d->process),
				       .ordinal = d->ordinal };
}

const struct repeat_device *repeat_device_of(const struct repeat *r, const struct replay *m,
					     const struct replay_device *d)
{
	struct repeat_device key = key_of(m, d);

	for (size_t i = 0; i < r->nr_devices; i++)
		if (!compare_devices(&r->device[i], &key))
			return &r->device[i];
	return NULL;
}

void repeat_add(struct repeat *r, const struct replay *m, unsigned number)
{
	for (size_t i = 0; i < m->nr_devices; i++) {
		const struct replay_device *d = &m->device[i];
		struct repeat_device key = key_of(m, d);
		struct repeat_device *device = find_device(r, &key);
		uint64_t zeros;

		device->nr_runs++;
		device->has_tensors |= d->has_tensors;
		extend(&device->allocated, d->books->allocated_peak_bytes);
		extend(&device->reserved, d->books->reserved_peak_bytes);
		extend(&device->driver, d->books->driver_peak_bytes);
		r->exact &= replay_is_exact(d->process);
		zeros = replay_zero_answers(d->process);
		if (device->zero_answers < zeros)
			device->zero_answers = zeros;
	}
	r->nr_runs++;
	/* This run, or one before it, did not use some of them. */
	for (size_t i = 0; i < r->nr_devices; i++) {
		struct repeat_device *device = &r->device[i];

		if (device->nr_runs < r->nr_runs)
			device->allocated.min = device->reserved.min = device->driver.min = 0;
	}
	note_largest(r, m, number);
}

/*
 * One run after another, and none is kept: who shows one of them reads that one again. To keep all until it is known which
 * that is would take the memory of all.
 */
void repeat_load(struct repeat *r, const struct recording *recording)
{
	static const struct replay_options quiet = { .quiet = true };

	for (size_t i = 0; i < recording->nr_runs; i++) {
		struct replay m = REPLAY_INIT;

		if (!rules_load() && !replay_load(&m, recording->run[i], &quiet))
			repeat_add(r, &m, recording->run_number[i]);
		replay_release(&m);
	}
}

/* ---- in words -------------------------------------------------------------------------------- */

static bool is_one_value(struct repeat_range range)
{
	return range.min == range.max;
}

bool repeat_is_stable(const struct repeat *r, const struct repeat_device *d)
{
	return d->nr_runs == r->nr_runs && is_one_value(d->allocated) && is_one_value(d->reserved) &&
	       (d->has_tensors || is_one_value(d->driver));
}

/* "4.12 GiB", "3.10 to 4.10 GiB", "900 MiB to 1.10 GiB", "4.12 GiB (+1.50 KiB)". */
static const char *range_text(char *buf, size_t size, struct repeat_range range)
{
	char min[HUMAN_MAX], max[HUMAN_MAX], apart[HUMAN_MAX];
	const char *unit_min = strchr(human_bytes(min, range.min), ' ');
	const char *unit_max = strchr(human_bytes(max, range.max), ' ');

	if (is_one_value(range))
		snprintf(buf, size, "%s", max);
	else if (!strcmp(min, max))
		snprintf(buf, size, "%s (%s)", min, human_bytes_delta(apart, (int64_t)(range.max - range.min)));
	else if (!strcmp(unit_min, unit_max))
		snprintf(buf, size, "%.*s to %s", (int)(unit_min - min), min, max);
	else
		snprintf(buf, size, "%s to %s", min, max);
	return buf;
}

const char *repeat_text(char buf[static REPEAT_TEXT_MAX], const struct repeat *r,
			const struct repeat_device *d)
{
	char first[80], second[80], peaks[200];
	bool stable = repeat_is_stable(r, d);

	if (d->has_tensors)
		snprintf(peaks, sizeof(peaks), "%s allocated, %s reserved",
			 range_text(first, sizeof(first), d->allocated),
			 range_text(second, sizeof(second), d->reserved));
	else
		snprintf(peaks, sizeof(peaks), "%s from the driver", range_text(first, sizeof(first), d->driver));
	if (stable)
		snprintf(buf, REPEAT_TEXT_MAX, "%s in %u of %u runs", peaks, r->nr_runs, r->nr_runs);
	else
		snprintf(buf, REPEAT_TEXT_MAX, "%s over %u runs", peaks, r->nr_runs);
	return buf;
}

const char *repeat_device_name(char *buf, size_t size, const struct repeat *r,
			       const struct repeat_device *d)
{
	bool several = r->nr_devices > 1 && r->device[r->nr_devices - 1].process > 0;

	if (d->rank >= 0)
		snprintf(buf, size, "rank %" PRId64 ", GPU %" PRIu32, d->rank, d->ordinal);
	else if (several)
		snprintf(buf, size, "process %" PRIu32 ", GPU %" PRIu32, d->process + 1, d->ordinal);
	else
		snprintf(buf, size, "GPU %" PRIu32, d->ordinal);
	return buf;
}
