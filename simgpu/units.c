/* SPDX-License-Identifier: MIT */
/* First-fit allocation of runs in a row of equal units: slices of a slab, extents of a memory file. */
#include <stdlib.h>
#include <string.h>

#include "simgpu/internal.h"

#define WORD_BITS 64

static bool taken(const struct sim_units *units, size_t i)
{
	return units->used[i / WORD_BITS] >> (i % WORD_BITS) & 1;
}

static void mark(struct sim_units *units, size_t at, size_t count, bool used)
{
	for (size_t i = at; i < at + count; i++) {
		uint64_t bit = 1ULL << (i % WORD_BITS);

		if (used)
			units->used[i / WORD_BITS] |= bit;
		else
			units->used[i / WORD_BITS] &= ~bit;
	}
}

static void grow_to(struct sim_units *units, size_t nr)
{
	size_t words = units->nr / WORD_BITS, more = nr / WORD_BITS + 1;

	if (more < words * 2)
		more = words * 2;
	units->used = sim_realloc(units->used, more * sizeof(*units->used));
	memset(units->used + words, 0, (more - words) * sizeof(*units->used));
	units->nr = more * WORD_BITS;
}

/* First run of COUNT free units at or after FROM; at the row's end it may be shorter: *LENGTH tells. */
static size_t find_run(const struct sim_units *units, size_t from, size_t count, size_t *length)
{
	size_t start = from;

	*length = 0;
	for (size_t i = from; i < units->nr && *length < count; i++) {
		if (!(i % WORD_BITS) && units->used[i / WORD_BITS] == UINT64_MAX) {
			i += WORD_BITS - 1;
			start = i + 1;
			*length = 0;
		} else if (taken(units, i)) {
			start = i + 1;
			*length = 0;
		} else {
			++*length;
		}
	}
	return start;
}

size_t sim_units_take(struct sim_units *units, size_t count, bool grow)
{
	size_t length, at;

	if (units->too_long && count >= units->too_long && !grow)
		return SIZE_MAX;
	at = find_run(units, units->first_free, count, &length);
	if (length < count) {
		if (!grow) {
			units->too_long = count;
			return SIZE_MAX;
		}
		grow_to(units, at + count);
	}
	mark(units, at, count, true);
	units->nr_used += count;
	if (at == units->first_free)
		units->first_free = at + count;
	return at;
}

void sim_units_give(struct sim_units *units, size_t at, size_t count)
{
	mark(units, at, count, false);
	units->too_long = 0;
	units->nr_used -= count;
	if (at < units->first_free)
		units->first_free = at;
}

void sim_units_release(struct sim_units *units)
{
	free(units->used);
	memset(units, 0, sizeof(*units));
}
