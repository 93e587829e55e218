/* SPDX-License-Identifier: MIT */
/* A GPU whose memory is used beyond a share of its capacity: told once, and again only after it has been below. */
#ifndef VT_LIVEALERT_H
#define VT_LIVEALERT_H

#include "analyzer/live/live.h"

struct livealert {
	double share;        /* the caller's: 0 = nobody asks */
	const char *command; /* the caller's: for sh -c; may be NULL */
	bool is_quiet;       /* the caller's: its output goes nowhere, as a page is on the screen */
	uint64_t nr_raised;
	struct livealert_gpu {
		char *key;
		bool is_above;
	} *gpu;
	size_t nr_gpus, room;
};

/*
 * After each look. A GPU counts by the most of any process on it; `said` is called for each that passes the share, and the
 * command is started, but not waited for: $1 pid, $2 device, $3 bytes used, $4 capacity in bytes, $5 trace.
 */
void livealert_check(struct livealert *a, const struct live *l,
		     void (*said)(void *ctx, const struct liverow *r, double share), void *ctx);
void livealert_release(struct livealert *a);

#endif
