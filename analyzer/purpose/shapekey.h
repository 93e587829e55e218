/* SPDX-License-Identifier: MIT */
/* Shapes of tensors as numbers: equal ones are alike, as a weight and its gradient are. */
#ifndef VT_SHAPEKEY_H
#define VT_SHAPEKEY_H

#include "analyzer/ledger/books.h"

/*
 * Equal for shapes of one type with the same sizes in any order: a weight's gradient may have been made as its
 * transpose. 0 where the shape is not known.
 */
uint64_t shapekey_of(const struct books *books, const struct group *g);

/* The same, where sizes in another order make another shape. */
uint64_t shapekey_exact(const struct books *books, const struct group *g);

/* The same in any order, of whatever type: a copy in float32 of a weight in bfloat16. */
uint64_t shapekey_sizes(const struct books *books, const struct group *g);

/*
 * The same in this order, of whatever type, for what is left of the shape after its first dimensions: of one row, an
 * element along the first dimension, if that is one. 0 = nothing but a number is.
 */
uint64_t shapekey_rows(const struct books *books, const struct group *g, uint32_t nr_left_out);

/* Is this key, other than 0, among those of a sorted list? */
bool shapekey_in(const uint64_t *keys, size_t nr, uint64_t key);

#endif
