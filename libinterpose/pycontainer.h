/* SPDX-License-Identifier: MIT */
/* How full a container of Python's is, and how full it can get. */
#ifndef IP_PYCONTAINER_H
#define IP_PYCONTAINER_H

#include "pyobjects.h"

/* How many entries a container has, plus 1; 0: it is none. The cache of functools.lru_cache() is one. */
uint64_t pycontainer_length(const struct pyobjects *py, const void *object);

/*
 * How many entries it has at most, plus 1: the maxlen of a deque, the maxsize of an lru_cache; beyond that the oldest one goes.
 * 0: nothing bounds it.
 */
uint64_t pycontainer_bound(const struct pyobjects *py, const void *object);

#endif
