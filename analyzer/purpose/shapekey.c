/* SPDX-License-Identifier: MIT */
/* Shapes as numbers that can be compared, and lists of them. */
#include "analyzer/purpose/shapekey.h"

#include <stdlib.h>

#include "analyzer/recording/sorted.h"

/* Of the sizes from number `first` on; sizes of 1 tell nothing. */
static uint64_t key_of(const struct books *books, const struct group *g, uint32_t first, bool typed, bool ordered)
{
	struct tfmt_shape shape;
	uint64_t dims[8], key;
	uint32_t nr = 0;

	if (!g->shape || !tfmt_reader_shape(books_reader(books), g->shape, &shape))
		return 0;
	for (uint32_t i = first; i < shape.nr_dims && nr < 8; i++)
		if (shape.dims[i] != 1)
			dims[nr++] = shape.dims[i];
	if (first && !nr)
		return 0;
	if (!ordered)
		qsort(dims, nr, sizeof(*dims), sorted_compare);
	key = typed ? shape.element_type + 1 : 0;
	for (uint32_t i = 0; i < nr; i++)
		key = (key ^ dims[i]) * 0x9e3779b97f4a7c15ull ^ key >> 29;
	return key ? key : 1;
}

uint64_t shapekey_of(const struct books *books, const struct group *g)
{
	return key_of(books, g, 0, true, false);
}

uint64_t shapekey_exact(const struct books *books, const struct group *g)
{
	return key_of(books, g, 0, true, true);
}

uint64_t shapekey_sizes(const struct books *books, const struct group *g)
{
	return key_of(books, g, 0, false, false);
}

uint64_t shapekey_rows(const struct books *books, const struct group *g, uint32_t nr_left_out)
{
	return key_of(books, g, nr_left_out, false, true);
}

bool shapekey_in(const uint64_t *keys, size_t nr, uint64_t key)
{
	return key && nr && bsearch(&key, keys, nr, sizeof(*keys), sorted_compare);
}
