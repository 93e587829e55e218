/* SPDX-License-Identifier: MIT */
/* Stack caches that threads share; see stackpool.h. */
#include "stackpool.h"

#define TAKEN_MAX 256u /* times that a thread takes caches of the pool before it gets its own */

static struct callstack *own(struct ip_thread *t)
{
	t->stacks = callstack_thread_new();
	return t->stacks;
}

static bool take(struct ip_shared_stacks *s)
{
	return !atomic_load_explicit(&s->is_taken, memory_order_relaxed) && !atomic_exchange(&s->is_taken, true);
}

/* The first that is free, which is the likeliest to be in the processor's cache; the thread's own if none is. */
struct callstack *stackpool_take_slowly(struct ip_thread *t)
{
	struct ip_shared_stacks *s = ip_recorder->shared_stacks, *end = s + IP_SHARED_STACKS;
	struct callstack *cs;

	if (t->nr_taken++ >= TAKEN_MAX)
		return own(t);
	while (s < end && !take(s))
		s++;
	if (s == end)
		return own(t);
	cs = atomic_load_explicit(&s->stacks, memory_order_relaxed);
	if (!cs) {
		cs = callstack_thread_new();
		atomic_store_explicit(&s->stacks, cs, memory_order_relaxed);
	}
	if (cs && s->thread != t->id)
		callstack_thread_change(cs);
	s->thread = t->id;
	if (!cs)
		atomic_store(&s->is_taken, false);
	return cs;
}

void stackpool_give_slowly(struct callstack *cs)
{
	struct ip_shared_stacks *s = ip_recorder->shared_stacks, *end = s + IP_SHARED_STACKS;

	while (s < end && atomic_load_explicit(&s->stacks, memory_order_relaxed) != cs)
		s++;
	if (s < end)
		atomic_store(&s->is_taken, false);
}
