/* SPDX-License-Identifier: MIT */
/*
 * The names of findings: why memory ran out, or grows. A finding in JSON is an object with "verdict", "site",
 * "bytes", "evidence" and "advice".
 */
#ifndef VT_VERDICT_H
#define VT_VERDICT_H

enum verdict {
	VERDICT_NONE, /* the evidence is not enough for any; null in JSON */
	VERDICT_TOO_BIG,
	VERDICT_FRAGMENTATION,
	VERDICT_LEAK,
	VERDICT_GRAPH_RETENTION,
	VERDICT_CYCLE,
	VERDICT_EXCEPTION,
	VERDICT_SPIKE,
	VERDICT_KV_CACHE,
	VERDICT_ATTENTION_MATRIX,
	VERDICT_LOGITS_FP32,
	VERDICT_FFT_UPCAST,
	VERDICT_CONTIGUOUS_COPY,
	VERDICT_PADDING,
	VERDICT_OTHER_PROCESS,
	VERDICT_NON_TORCH,
	VERDICT_USER_LIMIT,
	VERDICT_RANK_IMBALANCE,
	VERDICT_HOST_OOM,
};

/* "too_big"; NULL for VERDICT_NONE. Static. */
const char *verdict_name(enum verdict v);

#endif
