/* SPDX-License-Identifier: MIT */
/*
 * Two generations of one tensor: what has grown is there as it was before, too, since somebody still holds it. Keys and
 * values of position 99, while the same layers have made those of position 100.
 */
#ifndef VT_GENERATIONS_H
#define VT_GENERATIONS_H

#include "analyzer/patterns/growingtensor.h"

/* How many tensors of this series are there as they were before, beside those of the same modules; and their bytes. */
uint32_t generations_find(const struct moment *at, const struct growingtensor_series *s, uint64_t *bytes);

#endif
