/* SPDX-License-Identifier: MIT */
/*
 * stackpool: whose stack caches a thread uses. A thread's own ones are two MiB, and a dozen of its pages are touched by the
 * first event: for a program that begins a thousand threads that is most of what recording costs. So a thread gets
 * them only when it has recorded a while; until then it takes, for each stack, those of a small pool that nobody is
 * using. Rules, code and paths that other threads have met are known there already.
 *
 * Threading: any thread, t its own and busy. No lock, nothing waits. What is jumped out of keeps what it has taken.
 */
#ifndef IP_STACKPOOL_H
#define IP_STACKPOOL_H

#include "callstack.h"
#include "interpose.h"

IP_COLD struct callstack *stackpool_take_slowly(struct ip_thread *t);
IP_COLD void stackpool_give_slowly(struct callstack *cs);

/* The caches for one stack of t, given back by stackpool_give(); NULL: no memory. */
static inline struct callstack *stackpool_take(struct ip_thread *t)
{
	return t->stacks ? t->stacks : stackpool_take_slowly(t);
}

static inline void stackpool_give(const struct ip_thread *t, struct callstack *cs)
{
	if (cs != t->stacks)
		stackpool_give_slowly(cs);
}

#endif
