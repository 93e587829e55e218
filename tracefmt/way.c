/* SPDX-License-Identifier: MIT */
/* What the processor can. */
#include "tracefmt/way.h"

#ifdef __x86_64__
#include <stdbool.h>

/* AMD's processors before Zen 3 have the instruction, but as a slow sequence. */
static bool can_extract(void)
{
	return __builtin_cpu_supports("popcnt") && __builtin_cpu_supports("bmi") &&
	       __builtin_cpu_supports("bmi2") && !__builtin_cpu_is("amdfam15h") &&
	       !__builtin_cpu_is("znver1") && !__builtin_cpu_is("znver2");
}

static bool has_wide(void)
{
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
	       __builtin_cpu_supports("avx512dq") &&
	       __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
	       __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2");
}

enum tfmt_way tfmt_way_best(void)
{
	return !can_extract() ? TFMT_WAY_PORTABLE : has_wide() ? TFMT_WAY_WIDE : TFMT_WAY_EXTRACT;
}
#else
enum tfmt_way tfmt_way_best(void)
{
	return TFMT_WAY_PORTABLE;
}
#endif
