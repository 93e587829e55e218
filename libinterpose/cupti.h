/* SPDX-License-Identifier: MIT */
/*
 * CUPTI beside the hooks: a second view of what the driver does, and the only one of what no call asks for.
 *
 * CUPTI takes memory of the device, makes launches slower and has one subscriber. Ours is made only when the user asks
 * for it (VRAMTRACE_CUPTI, env.h), and given up the moment another client asks for the slot, so that profilers find it
 * free. What the trace
 * says about it stands in its INFO keys `cupti` and `cupti.*` (FORMAT.md).
 */
#ifndef IP_CUPTI_H
#define IP_CUPTI_H

#include <stdint.h>

#include "interpose.h"
#include "resolve.h"

struct tfmt_writer;

/* Subscribe, if the settings and the process allow it. Once, in ip_prepare(): loads a library. */
void ip_cupti_start(void);

/* Put what has changed since the last call into the trace; the sums only when WITH_SUMS. Drain thread. */
void ip_cupti_info(struct tfmt_writer *w, bool with_sums);

/* A symbol of CUPTI is being looked up by name (dlsym). If it is one by which clients begin, ours is given up. */
void ip_cupti_looked_up(const char *symbol);

/*
 * The library of CUPTI says that it ends, or another client wants its slot: WHY, for the trace. Any thread.
 */
void ip_cupti_give_up(const char *why);

/* Bytes of device code that CUPTI has told of during the driver call this thread made last; 0 = not told. */
uint64_t ip_cupti_module_bytes(void);

void ip_cupti_calling(enum ip_fn fn);

/*
 * ip_real_driver() for a hook that is about to call it: what CUPTI tells of that call has been seen by a
 * hook.
 */
static inline void *ip_real_call(enum ip_fn fn)
{
	if (atomic_load_explicit(&ip_recorder->cupti_on, memory_order_relaxed))
		ip_cupti_calling(fn);
	return ip_real_driver(fn);
}

#endif
