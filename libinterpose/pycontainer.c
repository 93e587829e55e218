/* SPDX-License-Identifier: MIT */
/*
 * The lengths and bounds that containers of CPython have in their own fields. The fields of a deque and of an lru_cache are
 * no interface, and lie alike in 3.8 to 3.14: a bound below the length is not believed, nor a cache that is no dict.
 */
#include "pycontainer.h"

#include <string.h>

#define SET_USED 24
#define DEQUE_MAXLEN 64
#define LRU_CACHE 72
#define LRU_MAXSIZE 96
#define DICT_USED 16

static bool is_class(const void *type, const char *name)
{
	return !strcmp(py_pointer(type, PY_TYPE_NAME), name);
}

/* The dict in which an lru_cache has its entries, NULL if it is none. */
static const void *lru_dict(const struct pyobjects *py, const void *object)
{
	const void *dict;

	if (!is_class(pyobject_type(object), "functools._lru_cache_wrapper"))
		return NULL;
	dict = py_pointer(object, LRU_CACHE);
	return dict && pyobject_type(dict) == py->type[PYTYPE_DICT] ? dict : NULL;
}

uint64_t pycontainer_length(const struct pyobjects *py, const void *object)
{
	const void *type = pyobject_type(object), *dict;
	uint64_t flags = pytype_flags(type);

	if (flags & (PY_FLAG_DICT | PY_FLAG_LIST | PY_FLAG_TUPLE))
		return (uint64_t)py_long(object, PY_OB_SIZE) + 1;
	if (pytype_is(type, py->type[PYTYPE_SET]) || pytype_is(type, py->type[PYTYPE_FROZENSET]))
		return (uint64_t)py_long(object, SET_USED) + 1;
	if (is_class(type, "collections.deque"))
		return (uint64_t)py_long(object, PY_OB_SIZE) + 1;
	dict = lru_dict(py, object);
	return dict ? (uint64_t)py_long(dict, DICT_USED) + 1 : 0;
}

uint64_t pycontainer_bound(const struct pyobjects *py, const void *object)
{
	int64_t bound, length = (int64_t)pycontainer_length(py, object) - 1;

	if (is_class(pyobject_type(object), "collections.deque"))
		bound = py_long(object, DEQUE_MAXLEN);
	else if (lru_dict(py, object))
		bound = py_long(object, LRU_MAXSIZE);
	else
		return 0;
	return bound >= length ? (uint64_t)bound + 1 : 0;
}
