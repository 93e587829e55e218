/* SPDX-License-Identifier: MIT */
/* The allocator's rounding. */
#include "analyzer/allocator/torch.h"

uint64_t torch_rounded(uint64_t bytes)
{
	return (bytes + TORCH_ROUND - 1) / TORCH_ROUND * TORCH_ROUND;
}
