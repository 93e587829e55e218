/* SPDX-License-Identifier: MIT */
/* The recorder's state of each thread: made at its first event, given back when the thread ends. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "callstack.h"
#include "interpose.h"
#include "shapes.h"

#define PAUSE_NS 100000u /* between looks for a ring */

__thread struct ip_tls ip_tls;
static pthread_key_t at_thread_end;

/* pthread runs this when a thread that has recorded ends; in a fork child the state is another process's. */
static void thread_end(void *arg)
{
	struct ip_thread *t = arg;

	if (ip_state() < IP_RECORDING || ip_tls.generation != ip_recorder->generation || ip_tls.thread != t)
		return;
	ip_tls.thread = NULL;
	if (t->ring)
		__atomic_store_n(&t->ring->owner, TFMT_RING_LEFT, __ATOMIC_RELEASE);
	callstack_thread_free(t->stacks);
	shape_cache_free(t->shapes);
	ip_unmap(t, sizeof(*t));
}

void ip_thread_init(void)
{
	pthread_key_create(&at_thread_end, thread_end);
}

static void define_thread(uint32_t id)
{
	uint8_t payload[64], *p = payload;
	char name[17] = "";

	prctl(PR_GET_NAME, name);
	p = tfmt_put_varint(p, (uint64_t)syscall(SYS_gettid));
	p = tfmt_put_string(p, name, strlen(name));
	ip_define(TFMT_DEF_THREAD, id, payload, (size_t)(p - payload));
}

/* A ring nobody uses, or NULL. */
static struct tfmt_ring *ring_find(void)
{
	uint32_t nr = __atomic_load_n(&ip_recorder->status->nr_rings, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < nr; i++) {
		struct tfmt_ring *r =
			(void *)(ip_recorder->base + ip_recorder->status->ring_offset + (size_t)i * IP_RING_STRIDE);
		uint32_t owner = TFMT_RING_FREE;

		if (__atomic_compare_exchange_n(&r->owner, &owner, TFMT_RING_TAKEN, false, __ATOMIC_ACQ_REL,
						__ATOMIC_RELAXED))
			return r;
	}
	return NULL;
}

/* A wait for a ring was in vain. When that goes on, nobody waits again until the drain has had a look. */
static void ring_missed(void)
{
	uint64_t now = ip_now_ns(), since = 0;

	if (!atomic_compare_exchange_strong(&ip_recorder->rings_missing_since, &since, now) &&
	    now - since > IP_STUCK_NS)
		atomic_store(&ip_recorder->rings_exhausted, true);
}

/* The drain keeps spare rings; when many threads begin at once they wait for it to make more. */
static struct tfmt_ring *ring_claim(void)
{
	struct tfmt_ring *r = ring_find();
	uint64_t until;

	if (r || atomic_load(&ip_recorder->rings_exhausted))
		return r;
	until = ip_now_ns() + IP_WAIT_NS;
	atomic_fetch_add(&ip_recorder->rings_wanted, 1);
	do {
		ip_wake_drain();
		ip_pause(PAUSE_NS);
		r = ring_find();
	} while (!r && ip_now_ns() < until && !atomic_load(&ip_recorder->rings_exhausted));
	if (!r)
		ring_missed();
	atomic_fetch_sub(&ip_recorder->rings_wanted, 1);
	return r;
}

static IP_COLD struct ip_thread *thread_new(void)
{
	struct ip_thread *t = ip_map(sizeof(*t));
	uint32_t id;

	if (!t)
		return NULL;
	t->busy = true;
	t->stuck_tail = UINT64_MAX;
	/* A signal handler that calls CUDA from here on finds a busy thread: it takes none of our locks twice. */
	ip_tls.thread = t;
	ip_tls.generation = ip_recorder->generation;
	atomic_signal_fence(memory_order_seq_cst);
	t->stacks = callstack_thread_new();
	t->shapes = shape_cache_new();
	t->ring = ring_claim();
	if (!t->stacks || !t->shapes || !t->ring) {
		ip_tls.thread = NULL;
		atomic_signal_fence(memory_order_seq_cst);
		if (t->ring)
			__atomic_store_n(&t->ring->owner, TFMT_RING_FREE, __ATOMIC_RELEASE);
		callstack_thread_free(t->stacks);
		shape_cache_free(t->shapes);
		ip_unmap(t, sizeof(*t));
		return NULL;
	}
	id = ip_next_id(TFMT_DEF_THREAD);
	define_thread(id);
	t->ring->thread = id;
	t->head = t->ring->head;
	pthread_setspecific(at_thread_end, t);
	t->busy = false;
	return t;
}

struct ip_thread *ip_thread_get(void)
{
	return ip_tls.thread && ip_tls.generation == ip_recorder->generation ? ip_tls.thread : thread_new();
}

struct ip_thread *ip_event_thread(void)
{
	struct ip_thread *t = ip_state() == IP_RECORDING ? ip_thread_get() : NULL;

	if (t && !t->busy)
		return t;
	ip_lost();
	return NULL;
}
