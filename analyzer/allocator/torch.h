/* SPDX-License-Identifier: MIT */
/*
 * How PyTorch's allocator of device memory takes memory and cuts it up: the constants that figures and findings rest on.
 *
 * They hold for PyTorch 2.6 and 2.11, with which this is tested. PyTorch defines them under the names given here: 2.11 in
 * c10/core/AllocatorConfig.h, releases before in c10/cuda/CUDACachingAllocator.cpp. They are those without any setting
 * in PYTORCH_CUDA_ALLOC_CONF.
 */
#ifndef VT_TORCH_H
#define VT_TORCH_H

#include <stdint.h>

#define TORCH_ROUND 512ull		/* kMinBlockSize: sizes of blocks are multiples of it */
#define TORCH_SMALL_MAX (1ull << 20)	/* kSmallSize: blocks up to here lie in segments for small ones */
#define TORCH_SMALL_SEGMENT (2ull << 20) /* kSmallBuffer: such a segment, or a page of an expandable one */
#define TORCH_LARGE_SEGMENT (20ull << 20) /* kLargeBuffer: a segment for blocks between small and large, or such a page */
#define TORCH_LARGE_MIN (10ull << 20)	/* kMinLargeAlloc: blocks from here on have a segment of their own */
#define TORCH_SEGMENT_ROUND (2ull << 20) /* kRoundLarge: of which the size is a multiple of this */
#define TORCH_DRIVER_GRANULE (2ull << 20) /* not PyTorch's: cuMemGetAllocationGranularity() of NVIDIA's GPUs; the driver takes
					    memory in pieces of it */
#define TORCH_REST_MAX (1ull << 20)	/* kSmallSize again: no more left of a segment of large blocks stays with the block */

/* A block for so many bytes, as the allocator rounds it. */
uint64_t torch_rounded(uint64_t bytes);

#endif
