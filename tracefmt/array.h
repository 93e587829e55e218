/* SPDX-License-Identifier: MIT */
/* Arrays that get longer, by malloc(): not for code that runs inside a traced process. Internal to tracefmt. */
#ifndef TFMT_ARRAY_H
#define TFMT_ARRAY_H

#include <stddef.h>
#include <stdlib.h>

/*
 * Room for twice as many elements, or for the first 64. Returns the array and changes *max; NULL without memory: then
 * both are as they were.
 */
static inline void *tfmt_array_grow(void *array, size_t *max, size_t element_bytes)
{
	size_t more = *max ? 2 * *max : 64;
	void *grown = realloc(array, more * element_bytes);

	if (grown)
		*max = more;
	return grown;
}

#endif
