/* SPDX-License-Identifier: MIT */
/* Following failures and segments. */
#include "analyzer/failures/failurewatch.h"

void failurewatch_init(struct failurewatch *w)
{
	w->failures = (struct failures)FAILURES_INIT;
	frag_init(&w->frag);
}

void failurewatch_release(struct failurewatch *w)
{
	failures_release(&w->failures);
	frag_release(&w->frag);
}

static void observe(void *ctx, const struct replay_process *process, const struct tfmt_event *ev, uint64_t time_ns)
{
	struct failurewatch *w = ctx;

	if (!ev->before)
		failures_observe(&w->failures, process, ev, time_ns);
	frag_observe(&w->frag, process, ev, time_ns);
	if (ev->kind == TFMT_TENSOR_OOM && !ev->before)
		failures_set_cached(&w->failures, process, ev->device, frag_cached(&w->frag, process, ev->device, ev->stream));
}

struct replay_options failurewatch_options(struct failurewatch *w)
{
	return (struct replay_options){
		.lives = true, .modules = true, .observe = observe, .observe_past = true, .ctx = w,
	};
}
