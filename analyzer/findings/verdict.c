/* SPDX-License-Identifier: MIT */
/* The names of findings. */
#include "analyzer/findings/verdict.h"

#include <stddef.h>

const char *verdict_name(enum verdict v)
{
	static const char *const names[] = {
		[VERDICT_TOO_BIG] = "too_big",
		[VERDICT_FRAGMENTATION] = "fragmentation",
		[VERDICT_LEAK] = "leak",
		[VERDICT_GRAPH_RETENTION] = "graph_retention",
		[VERDICT_CYCLE] = "cycle",
		[VERDICT_EXCEPTION] = "exception",
		[VERDICT_SPIKE] = "spike",
		[VERDICT_KV_CACHE] = "kv_cache",
		[VERDICT_ATTENTION_MATRIX] = "attention_matrix",
		[VERDICT_LOGITS_FP32] = "logits_fp32",
		[VERDICT_FFT_UPCAST] = "fft_upcast",
		[VERDICT_CONTIGUOUS_COPY] = "contiguous_copy",
		[VERDICT_PADDING] = "padding",
		[VERDICT_OTHER_PROCESS] = "other_process",
		[VERDICT_NON_TORCH] = "non_torch",
		[VERDICT_USER_LIMIT] = "user_limit",
		[VERDICT_RANK_IMBALANCE] = "rank_imbalance",
		[VERDICT_HOST_OOM] = "host_oom",
	};

	return names[v];
}
