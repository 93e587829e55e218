/* SPDX-License-Identifier: MIT */
/*
 * pyarray: numpy's arrays of objects (dtype=object), which no collector goes through: what they hold, read from memory.
 *
 * The fields are those of PyArrayObject_fields and PyArray_Descr, which numpy documents and which are alike in numpy 1 and
 * 2. An array is believed only where the class itself says that its weak references lie where they do after those fields,
 * where its dtype is one of objects by its class, its kind and its number, and where memory can be read from the first item
 * to the last.
 *
 * In a copy of the process (census.h): one thread's only.
 */
#ifndef IP_PYARRAY_H
#define IP_PYARRAY_H

#include <stdbool.h>
#include <stdint.h>

/* Is it an array of objects, that can be read? Of a class that is not numpy's, nor inherits from it, one look-up tells. */
bool pyarray_holds(const void *object);

/*
 * Show fn each item of an array that holds some; NULL among them. `index` is that of an array of one dimension, -1 of
 * another.
 */
typedef void pyarray_item_fn(void *context, const void *item, int64_t index);
void pyarray_each(const void *object, pyarray_item_fn *fn, void *context);

#endif
