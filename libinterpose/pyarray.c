/* SPDX-License-Identifier: MIT */
/* Items of numpy's arrays of objects, by shape and strides; see pyarray.h. */
#include "pyarray.h"

#include <stddef.h>
#include <string.h>

#include "census_tensor.h"
#include "pylayout.h"

#define TYPE_WEAKREFS 208 /* tp_weaklistoffset */
#define TYPE_BASE 256     /* tp_base */
#define NAME "numpy.ndarray"
#define BASES_MAX 64
#define NR_CLASSES 1024u /* remembered */
#define DIMENSIONS_MAX 64
#define ITEMS_MAX (INT64_C(1) << 32)
/* PyArrayObject_fields */
#define ARRAY_DATA 16
#define ARRAY_NR_DIMENSIONS 24 /* int */
#define ARRAY_DIMENSIONS 32
#define ARRAY_STRIDES 40
#define ARRAY_DTYPE 56
#define ARRAY_WEAKREFS 72 /* its base, dtype and flags come before */
/* PyArray_Descr */
#define DTYPE_KIND 24 /* char; then that of the type */
#define DTYPE_NUMBER 28
#define OBJECTS_KIND 'O'
#define OBJECTS_NUMBER 17

static struct {
	const void *class;
	bool is_array;
} known[NR_CLASSES];

/* numpy's own class among those that a class inherits its layout from; NULL: it has no arrays. */
static const void *array_class(const void *class)
{
	for (int i = 0; class && i < BASES_MAX; i++, class = py_pointer(class, TYPE_BASE))
		if (!strcmp(py_pointer(class, PY_TYPE_NAME), NAME))
			return class;
	return NULL;
}

static bool look_at(const void *class)
{
	const void *own = array_class(class);

	return own && py_long(own, TYPE_WEAKREFS) == ARRAY_WEAKREFS &&
	       py_long(own, PY_TYPE_BASICSIZE) >= ARRAY_WEAKREFS + (long)sizeof(void *);
}

static bool is_array_class(const void *class)
{
	size_t i = (uintptr_t)class * 0x9e3779b97f4a7c15ull >> 54;

	_Static_assert(NR_CLASSES == 1u << 10, "the number is the top 10 bits of the product");
	if (known[i].class != class) {
		known[i].is_array = look_at(class);
		known[i].class = class;
	}
	return known[i].is_array;
}

/* Is it a dtype of objects, by all that it says of itself? */
static bool is_of_objects(const char *dtype)
{
	static const char prefix[] = "numpy.dtype";
	const void *word;

	return dtype && census_read_word(dtype + DTYPE_KIND, &word) && dtype[DTYPE_KIND] == OBJECTS_KIND &&
	       dtype[DTYPE_KIND + 1] == OBJECTS_KIND && py_int(dtype, DTYPE_NUMBER) == OBJECTS_NUMBER &&
	       !strncmp(py_pointer(py_pointer(dtype, PY_OB_TYPE), PY_TYPE_NAME), prefix, sizeof(prefix) - 1);
}

/* Where items lie. */
struct items {
	const char *data;
	int nr_dimensions;
	const int64_t *dimension, *stride;
	int64_t nr;
};

/* false: they cannot be read, or there are none. */
static bool find_items(const void *object, struct items *a)
{
	int64_t low = 0, high = 0, far;
	const void *word;

	a->data = py_pointer(object, ARRAY_DATA);
	a->nr_dimensions = py_int(object, ARRAY_NR_DIMENSIONS);
	a->dimension = py_pointer(object, ARRAY_DIMENSIONS);
	a->stride = py_pointer(object, ARRAY_STRIDES);
	a->nr = 1;
	if (a->nr_dimensions < 0 || a->nr_dimensions > DIMENSIONS_MAX)
		return false;
	for (int i = 0; i < a->nr_dimensions; i++) {
		if (!census_read_word(a->dimension + i, &word) || !census_read_word(a->stride + i, &word) ||
		    a->dimension[i] <= 0 || __builtin_mul_overflow(a->nr, a->dimension[i], &a->nr) || a->nr > ITEMS_MAX ||
		    __builtin_mul_overflow(a->dimension[i] - 1, a->stride[i], &far) ||
		    __builtin_add_overflow(far < 0 ? low : high, far, far < 0 ? &low : &high))
			return false;
	}
	return census_read_word(a->data + low, &word) && census_read_word(a->data + high, &word);
}

bool pyarray_holds(const void *object)
{
	struct items items;

	return is_array_class(py_pointer(object, PY_OB_TYPE)) && is_of_objects(py_pointer(object, ARRAY_DTYPE)) &&
	       find_items(object, &items);
}

void pyarray_each(const void *object, pyarray_item_fn *fn, void *context)
{
	int64_t at[DIMENSIONS_MAX] = { 0 };
	struct items a;

	if (!find_items(object, &a))
		return;
	for (int64_t i = 0; i < a.nr; i++) {
		const char *place = a.data;
		const void *item;

		for (int k = 0; k < a.nr_dimensions; k++)
			place += at[k] * a.stride[k];
		memcpy(&item, place, sizeof(item));
		fn(context, item, a.nr_dimensions == 1 ? i : -1);
		for (int k = a.nr_dimensions - 1; k >= 0 && ++at[k] == a.dimension[k]; k--)
			at[k] = 0;
	}
}
