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

#define PAUSE_NS 100000u /* between looks for a ring */
#define NESTED_MAX 8     /* states of one thread: each but the last inside a hook, or left by a jump out of one */
#define FORGOTTEN_MAX 128u /* such states in a process */

__thread struct ip_tls ip_tls;
static pthread_key_t at_thread_end;

static void thread_free(struct ip_thread *t)
{
	callstack_thread_free(t->stacks);
	shape_cache_free(t->shapes);
	ip_unmap(t, sizeof(*t));
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
		if (t->ring)
			__atomic_store_n(&t->ring->owner, TFMT_RING_LEFT, __ATOMIC_RELEASE);
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

static void define_thread(uint32_t id)
{
	uint8_t payload[NVTX_THREAD_BYTES + 20], *p = payload;
	uint32_t tid = (uint32_t)syscall(SYS_gettid);
	char name[NVTX_THREAD_BYTES] = "";

	prctl(PR_GET_NAME, name);
	nvtx_thread_name(tid, name);
	p = tfmt_put_varint(p, tid);
	p = tfmt_put_string(p, name, strlen(name));
	ip_define(TFMT_DEF_THREAD, id, payload, (size_t)(p - payload));
}

void ip_thread_define(struct ip_thread *t)
{
	define_thread(t->ring->thread);
}

/* A ring nobody uses, or NULL. */
static struct tfmt_ring *ring_find(void)
{
	uint32_t nr = __atomic_load_n(&ip_recorder->status->nr_rings, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < nr; i++) {
		struct tfmt_ring *r = ip_recorder->ring[i];
		uint32_t owner = TFMT_RING_FREE;

		if (__atomic_compare_exchange_n(&r->owner, &owner, TFMT_RING_TAKEN, false, __ATOMIC_ACQ_REL,
						__ATOMIC_RELAXED))
			return r;
	}
	return NULL;
}

/* A wait for a ring was in vain. When that goes on, no thread waits for long until the drain has had a look. */
static void ring_missed(void)
{
	uint64_t now = ip_now_ns(), since = 0;

	ip_tls.ring_missed = true;
	if (!atomic_compare_exchange_strong(&ip_recorder->rings_missing_since, &since, now) &&
	    now - since > IP_STUCK_NS)
		atomic_store(&ip_recorder->rings_exhausted, true);
}

/*
 * The drain keeps spare rings; when many threads begin at once they wait for it to make more, the first time longer:
 * as the process's first event waits for the files. While others wait in vain it is once, and as long as for room in
 * a ring: of a crowd of short threads all would else be missing that begin before a stuck drain goes on.
 */
static struct tfmt_ring *ring_claim(void)
{
	bool exhausted = atomic_load(&ip_recorder->rings_exhausted), missed = ip_tls.ring_missed;
	uint64_t since;
	struct tfmt_ring *r = ring_find();

	if (r || (exhausted && missed))
		return r;
	since = ip_now_ns();
	atomic_fetch_add(&ip_recorder->rings_wanted, 1);
	do {
		ip_wake_drain();
		ip_pause(PAUSE_NS);
		r = ring_find();
		exhausted = atomic_load(&ip_recorder->rings_exhausted);
	} while (!r && ip_now_ns() - since < (exhausted || missed ? IP_WAIT_NS : IP_STUCK_NS));
	if (!r)
		ring_missed();
	ip_waited(since);
	return r;
}

/*
 * A new state, hung up at *where. A signal handler that calls CUDA from here on finds it busy, and takes none of our
 * locks twice: it gets a nested one.
 */
static IP_COLD struct ip_thread *thread_new(struct ip_thread **where, const void *frame)
{
	struct ip_thread *t = ip_map(sizeof(*t));
	uint32_t id;

	if (!t)
		return NULL;
	t->busy = true;
	t->stuck_tail = UINT64_MAX;
	t->frame = frame;
	t->errno_at = &errno;
	ip_tls.generation = ip_recorder->generation;
	*where = t;
	atomic_signal_fence(memory_order_seq_cst);
	t->stacks = callstack_thread_new();
	t->shapes = shape_cache_new();
	t->ring = t->stacks && t->shapes ? ring_claim() : NULL;
	if (!t->ring) {
		*where = t->nested;
		atomic_signal_fence(memory_order_seq_cst);
		thread_free(t);
		return NULL;
	}
	id = ip_next_id(TFMT_DEF_THREAD);
	define_thread(id);
	t->ring->thread = id;
	t->ring->thread_check = tfmt_thread_check(id);
	t->head = t->ring->head;
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
	static _Atomic unsigned nr_forgotten;

	if (!t->left && t->frame <= frame && !on_signal_stack()) {
		t->left = true;
		ip_lost();
	}
	return t->left && atomic_load(&nr_forgotten) < FORGOTTEN_MAX &&
	       atomic_fetch_add(&nr_forgotten, 1) < FORGOTTEN_MAX;
}

static struct ip_thread *state_not_busy(const void *frame)
{
	struct ip_thread **where = &ip_tls.thread;

	if (ip_tls.generation != ip_recorder->generation)
		ip_tls.thread = NULL;
	for (unsigned depth = 0; depth < NESTED_MAX; depth++) {
		struct ip_thread *t = *where ? *where : thread_new(where, frame);

		if (!t)
			return NULL;
		if (!t->busy) {
			t->frame = frame;
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
