/* SPDX-License-Identifier: MIT */
/*
 * Tables whose rows are in order of a number that each of them holds: `nr_rows` rows of `row_bytes` bytes, the number
 * (uint64_t) `at` bytes after a row's beginning. `rows` may be NULL when there are none.
 */
#ifndef VT_SORTED_H
#define VT_SORTED_H

#include <stddef.h>
#include <stdint.h>

/* How many rows hold less than `number`: the index of the first that does not. */
static inline size_t sorted_below(const void *rows, size_t nr_rows, size_t row_bytes, size_t at, uint64_t number)
{
	size_t low = 0, high = nr_rows;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const uint64_t *held = (const void *)((const char *)rows + middle * row_bytes + at);

		if (*held < number)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* How many rows hold `number` or less: the index of the first that holds more. */
static inline size_t sorted_up_to(const void *rows, size_t nr_rows, size_t row_bytes, size_t at, uint64_t number)
{
	return number == UINT64_MAX ? nr_rows : sorted_below(rows, nr_rows, row_bytes, at, number + 1);
}

/* For qsort() and bsearch() of plain numbers (uint64_t). */
static inline int sorted_compare(const void *va, const void *vb)
{
	uint64_t a = *(const uint64_t *)va, b = *(const uint64_t *)vb;

	return (a > b) - (a < b);
}

#endif
