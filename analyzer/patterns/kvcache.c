/* SPDX-License-Identifier: MIT */
/* Are tensors that grow keys and values? */
#include "analyzer/patterns/kvcache.h"

#include "analyzer/patterns/patterns_thresholds.h"

bool kvcache_is(uint64_t nr_tensors, uint32_t nr_dims)
{
	return nr_tensors >= CACHE_TENSORS_MIN && nr_dims >= KVCACHE_DIMS_MIN;
}
