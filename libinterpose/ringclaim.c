/* SPDX-License-Identifier: MIT */
/*
 * Which thread has which ring. There are fewer rings than a program may have threads: a thread keeps its ring until
 * it ends, or until another one needs it that finds it idle. That other one goes on where the ring's head is, with a
 * record that says so; nothing has to be written first, and nobody waits for the drain.
 *
 * A thread says with one store that it is writing into its ring, and only then looks whether the ring is still its own.
 * Whoever takes the ring away first says so, and only then looks whether its thread is writing. One of the two sees the
 * other, if neither processor puts its look before its store: membarrier(2) sees to that for both, so that events, of
 * which there are many, need no barrier.
 */
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "interpose.h"

#define IDLE_NS 10000000ull /* a ring whose thread has been idle for so long is taken before a new one is begun */
#define VICTIMS_MAX 8u      /* looked at in a row: each costs all processors of the process a microsecond */
#define PAUSE_NS 50000u     /* while all threads with a ring are writing */

static struct tfmt_ring *ring_at(uint32_t i)
{
	return ip_recorder->ring[i];
}

static uint64_t ring_used(const struct tfmt_ring *r)
{
	return __atomic_load_n(&r->head, __ATOMIC_ACQUIRE) - __atomic_load_n(&r->tail, __ATOMIC_RELAXED);
}

/* The time of a ring's latest record. */
static uint64_t ring_time(const struct tfmt_ring *r)
{
	uint64_t head = __atomic_load_n(&r->head, __ATOMIC_ACQUIRE);

	return head ? __atomic_load_n(&r->record[(head - 1) & (IP_RING_CAPACITY - 1)].time_ns, __ATOMIC_RELAXED) : 0;
}

/* The emptiest ring that nobody has; -1: none. */
static int find_free(uint32_t nr)
{
	uint64_t least = UINT64_MAX;
	int found = -1;

	for (uint32_t i = 0; i < nr; i++) {
		uint64_t used = ip_recorder->ring_owner[i] ? UINT64_MAX : ring_used(ring_at(i));

		if (used < least) {
			least = used;
			found = (int)i;
		}
	}
	return found;
}

/*
 * The next ring whose thread has been idle since before `long_ago_ns`, else the one that has been so for longest; of
 * rings nearly full none. -1: none. The search goes on where the latest one ended: those were found idle, or taken.
 */
static int find_idle(uint32_t nr, uint64_t long_ago_ns, uint64_t now_ns, const bool *tried)
{
	uint64_t oldest = now_ns;
	int found = -1;

	for (uint32_t n = 0; n < nr && oldest >= long_ago_ns; n++) {
		uint32_t i = (ip_recorder->ring_looked_at + 1 + n) % nr;
		const struct ip_thread *owner = ip_recorder->ring_owner[i];
		uint64_t time_ns;

		/* One that is writing just now would be looked at in vain. */
		if (tried[i] || !owner || __atomic_load_n(&owner->is_writing, __ATOMIC_RELAXED) ||
		    ring_used(ring_at(i)) >= IP_RING_HIGH)
			continue;
		time_ns = ring_time(ring_at(i));
		if (time_ns < oldest) {
			oldest = time_ns;
			found = (int)i;
		}
	}
	return found;
}

/* Take a ring from its thread, if that is not just writing into it. */
static bool take_away(uint32_t i)
{
	struct ip_thread *owner = ip_recorder->ring_owner[i];

	__atomic_store_n(&owner->is_revoked, true, __ATOMIC_RELAXED);
	if (!syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) &&
	    !__atomic_load_n(&owner->is_writing, __ATOMIC_ACQUIRE))
		return true;
	__atomic_store_n(&owner->is_revoked, false, __ATOMIC_RELEASE);
	return false;
}

/* Take a ring whose thread has been idle for long; `any`: or for a shorter time. -1: none. */
static int take_idle(uint32_t nr, uint64_t now_ns, bool any)
{
	bool tried[IP_RING_MAX] = { false };
	uint64_t long_ago_ns = now_ns - IDLE_NS;

	for (unsigned n = 0; n < VICTIMS_MAX; n++) {
		int i = find_idle(nr, long_ago_ns, any ? now_ns : long_ago_ns, tried);

		if (i < 0)
			return -1;
		ip_recorder->ring_looked_at = (uint32_t)i;
		if (take_away((uint32_t)i))
			return i;
		tried[i] = true;
	}
	return -1;
}

/* One more ring, where its memory comes by itself; elsewhere the drain makes some, and is asked to. */
static int add_ring(uint32_t nr)
{
	if (nr >= IP_RING_MAX)
		return -1;
	if (!ip_recorder->rings_grow || !ip_recorder->ring[nr]) {
		atomic_fetch_add(&ip_recorder->rings_wanted, 1);
		ip_wake_drain();
		return -1;
	}
	__atomic_store_n(&ip_recorder->status->nr_rings, nr + 1, __ATOMIC_RELEASE);
	return (int)nr;
}

/* Under the lock. The best ring that can be had at once; -1: none. */
static int choose(void)
{
	uint32_t nr = __atomic_load_n(&ip_recorder->status->nr_rings, __ATOMIC_ACQUIRE);
	uint64_t now = ip_now_ns();
	int i = find_free(nr);

	if (i < 0)
		i = take_idle(nr, now, false);
	if (i < 0)
		i = add_ring(nr);
	if (i < 0)
		i = take_idle(nr, now, true);
	return i;
}

/* From here on the ring's records are of this thread. The record names both, so that it can be read from either end. */
static void begin(struct ip_thread *t, uint32_t i)
{
	struct tfmt_ring *ring = ring_at(i);

	__atomic_store_n(&ring->owner, TFMT_RING_TAKEN, __ATOMIC_RELAXED);
	ip_recorder->ring_owner[i] = t;
	t->ring = ring;
	t->ring_index = i;
	t->head = __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE);
	t->stuck_tail = UINT64_MAX;
	__atomic_store_n(&t->is_revoked, false, __ATOMIC_RELAXED);
	ip_record_thread(t, ring->thread);
	__atomic_store_n(&ring->thread, t->id, __ATOMIC_RELEASE);
	__atomic_store_n(&ring->thread_check, tfmt_thread_check(t->id), __ATOMIC_RELEASE);
}

bool ip_ring_claim(struct ip_thread *t)
{
	uint64_t since = 0;
	int i;

	for (;;) {
		ip_lock(&ip_recorder->claim_lock);
		/* Somebody wanted to take t's ring away, and then did not: it is still t's. */
		i = t->ring && !__atomic_load_n(&t->is_revoked, __ATOMIC_RELAXED) ? (int)t->ring_index : choose();
		if (i >= 0 && ip_recorder->ring_owner[i] != t)
			begin(t, (uint32_t)i);
		ip_unlock(&ip_recorder->claim_lock);
		if (i >= 0 || (since && ip_now_ns() - since > IP_WAIT_NS))
			break;
		if (!since)
			since = ip_now_ns();
		ip_wake_drain();
		ip_pause(PAUSE_NS);
	}
	if (since)
		ip_waited(since);
	return i >= 0;
}

void ip_ring_leave(struct ip_thread *t)
{
	ip_lock(&ip_recorder->claim_lock);
	if (t->ring && ip_recorder->ring_owner[t->ring_index] == t) {
		ip_recorder->ring_owner[t->ring_index] = NULL;
		__atomic_store_n(&t->ring->owner, TFMT_RING_FREE, __ATOMIC_RELEASE);
	}
	t->ring = NULL;
	ip_unlock(&ip_recorder->claim_lock);
}
