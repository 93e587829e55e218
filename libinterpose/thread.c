/* SPDX-License-Identifier: MIT */
/* The recorder's state of each thread: made at its first event, given back when the thread ends. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "callstack.h"
#include "interpose.h"
#include "nvtx.h"
#include "opencall.h"
#include "shapes.h"

#define NESTED_MAX 8     /* states of one thread: each but the last inside a hook, or left by a jump out of one */
#define STATES_MAPPED 64u  /* at once */
#define FORGOTTEN_MAX 128u /* such states in a process */

__thread struct ip_tls ip_tls;
static pthread_key_t at_thread_end;

/* States are mapped many at a time and kept for other threads: where a thousand begin, the kernel's lock is what costs. */
union state {
	struct ip_thread thread;
	union state *next; /* of those that nobody has */
	_Alignas(IP_CACHE_LINE) uint8_t line;
};

static union state *map_states(void)
{
	union state *s = ip_map(STATES_MAPPED * sizeof(*s));

	for (uint32_t i = 0; s && i + 1 < STATES_MAPPED; i++)
		s[i].next = &s[i + 1];
	return s;
}

/* All zero; NULL without memory. */
static struct ip_thread *thread_alloc(void)
{
	union state *s;

	ip_lock(&ip_recorder->claim_lock);
	s = ip_recorder->idle_states;
	if (!s)
		s = map_states();
	if (s)
		ip_recorder->idle_states = s->next;
	ip_unlock(&ip_recorder->claim_lock);
	if (!s)
		return NULL;
	memset(s, 0, sizeof(*s));
	return &s->thread;
}

static void thread_free(struct ip_thread *t)
{
	union state *s = (union state *)t;

	callstack_thread_free(t->stacks);
	shape_cache_free(t->shapes);
	ip_lock(&ip_recorder->claim_lock);
	s->next = ip_recorder->idle_states;
	ip_recorder->idle_states = s;
	ip_unlock(&ip_recorder->claim_lock);
}

/*
 * pthread runs this when a thread that has recorded ends; in a fork child the state is another process's. A state
 * that is busy was inside a hook when the thread was cancelled or jumped: that event is missing.
 */
static void thread_end(void *arg)
{
	struct ip_thread *t = ip_tls.thread, *nested;

	(void)arg;
	open_calls_free();
	if (ip_state() < IP_RECORDING || ip_tls.generation != ip_recorder->generation)
		return;
	ip_tls.thread = NULL;
	for (; t; t = nested) {
		nested = t->nested;
		if (t->busy && !t->left)
			ip_lost();
		ip_ring_leave(t);
		thread_free(t);
	}
}

void ip_thread_init(void)
{
	pthread_key_create(&at_thread_end, thread_end);
}

/* Any value but NULL has the key's destructor called. */
void ip_thread_remember(void)
{
	pthread_setspecific(at_thread_end, &ip_tls);
}

static uint32_t own_tid(void)
{
	return (uint32_t)syscall(SYS_gettid);
}

static void define_thread(uint32_t id)
{
	uint8_t payload[NVTX_THREAD_BYTES + 20], *p = payload;
	uint32_t tid = own_tid();
	char name[NVTX_THREAD_BYTES] = "";

	prctl(PR_GET_NAME, name);
	nvtx_thread_name(tid, name);
	p = tfmt_put_varint(p, tid);
	p = tfmt_put_string(p, name, strlen(name));
	ip_define(TFMT_DEF_THREAD, id, payload, (size_t)(p - payload));
}

void ip_thread_define(struct ip_thread *t)
{
	define_thread(t->id);
}

/*
 * A new state, hung up at *where. A signal handler that calls CUDA from here on finds it busy, and takes none of our
 * locks twice: it gets a nested one.
 */
static IP_COLD struct ip_thread *thread_new(struct ip_thread **where, const void *frame)
{
	struct ip_thread *t = thread_alloc();

	if (!t)
		return NULL;
	t->busy = true;
	t->tid = own_tid();
	t->near = ip_near(frame);
	t->stuck_tail = UINT64_MAX;
	t->frame = frame;
	t->errno_at = &errno;
	ip_tls.generation = ip_recorder->generation;
	*where = t;
	atomic_signal_fence(memory_order_seq_cst);
	t->id = ip_next_id(TFMT_DEF_THREAD);
	if (!ip_ring_claim(t)) {
		*where = t->nested;
		atomic_signal_fence(memory_order_seq_cst);
		thread_free(t);
		return NULL;
	}
	define_thread(t->id);
	ip_thread_remember();
	nvtx_replay(t);
	t->busy = false;
	return t;
}

/* A handler on a stack of its own: where that lies says nothing of what it has interrupted. */
static bool on_signal_stack(void)
{
	stack_t stack;

	return !sigaltstack(NULL, &stack) && (stack.ss_flags & SS_ONSTACK);
}

/*
 * A busy state whose call came from no higher up the stack than ours: its frame is gone, a handler has jumped out of
 * the hook, and its event is missing. Its memory and its ring are left alone for ever, for on another stack, that of
 * a coroutine, it may yet go on. True if it is to be forgotten; so many that it would hurt are not.
 */
static bool is_left(struct ip_thread *t, const void *frame)
{
	if (!t->left && t->frame <= frame && !on_signal_stack()) {
		t->left = true;
		ip_lost();
	}
	return t->left && atomic_load(&ip_recorder->nr_forgotten) < FORGOTTEN_MAX &&
	       atomic_fetch_add(&ip_recorder->nr_forgotten, 1) < FORGOTTEN_MAX;
}

/*
 * NULL when the state is another thread's: one made by clone() without memory of its own for thread-local data has its
 * creator's, ip_tls included, while both run. It is told by its stack, and what it does counts as lost.
 */
static struct ip_thread *state_not_busy(const void *frame)
{
	struct ip_thread **where = &ip_tls.thread;
	uint32_t tid = own_tid();

	if (ip_tls.generation != ip_recorder->generation)
		ip_tls.thread = NULL;
	for (unsigned depth = 0; depth < NESTED_MAX; depth++) {
		struct ip_thread *t = *where ? *where : thread_new(where, frame);

		if (!t || t->tid != tid)
			return NULL;
		if (!t->busy) {
			t->frame = frame;
			t->near = ip_near(frame);
			return t;
		}
		if (is_left(t, frame))
			*where = t->nested;
		else
			where = &t->nested;
	}
	return NULL;
}

struct ip_thread *ip_thread_get_slowly(const void *frame)
{
	int saved = errno;
	struct ip_thread *t = state_not_busy(frame);

	errno = saved;
	return t;
}

struct ip_thread *ip_event_thread(void)
{
	uint32_t state = ip_state();
	struct ip_thread *t;

	if (state == IP_OPENING && ip_begin())
		state = IP_RECORDING;
	if (state == IP_CLOSED)
		ip_hold();
	t = state == IP_RECORDING ? ip_thread_get() : NULL;
	if (!t)
		ip_lost();
	return t;
}
