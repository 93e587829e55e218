/* SPDX-License-Identifier: MIT */
/* The producers' side of the ring file: events of one thread, definitions of all. */
#include <string.h>

#include "callstack.h"
#include "env.h"
#include "interpose.h"

/* Between looks whether there is room: longer each time, for many threads that look take the drain's time. */
#define PAUSE_MIN_NS 50000u
#define PAUSE_MAX_NS 1600000u
#define WAITS_MAX (IP_STUCK_NS / IP_WAIT_NS)

static uint64_t pause_longer(uint64_t ns)
{
	ip_pause(ns);
	return ns < PAUSE_MAX_NS ? ns * 2 : ns;
}

void ip_wake_drain(void)
{
	atomic_fetch_add_explicit(&ip_recorder->drain_request, 1, memory_order_release);
	if (atomic_load_explicit(&ip_recorder->drain_asleep, memory_order_acquire))
		ip_futex_wake(&ip_recorder->drain_request);
}

static void count(uint64_t *counter)
{
	__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

void ip_lost(void)
{
	uint32_t state = ip_state();

	if (state == IP_RECORDING)
		count(&ip_recorder->status->lost_events);
	else if (state == IP_OPENING)
		atomic_fetch_add_explicit(&ip_recorder->lost_before_open, 1, memory_order_relaxed);
}

/*
 * Room for one record: at once in nearly every call. Waiting gives the drain the processor, which threads that
 * drop their events at full speed would keep from it. When it has not moved for several waits, later events are
 * dropped without waiting until it has, so that a stuck disk costs a thread half a second once.
 */
static IP_COLD bool wait_for_room(struct ip_thread *t)
{
	uint64_t tail = __atomic_load_n(&t->ring->tail, __ATOMIC_ACQUIRE);
	uint64_t until, pause = PAUSE_MIN_NS;

	if (t->head - tail < IP_RING_CAPACITY)
		return true;
	if (tail != t->stuck_tail)
		t->nr_waits = 0;
	if (t->nr_waits == WAITS_MAX)
		return false;
	t->stuck_tail = tail;
	t->nr_waits++;
	until = ip_now_ns() + IP_WAIT_NS;
	do {
		ip_wake_drain();
		pause = pause_longer(pause);
		tail = __atomic_load_n(&t->ring->tail, __ATOMIC_ACQUIRE);
		if (t->head - tail < IP_RING_CAPACITY)
			return true;
	} while (ip_now_ns() < until);
	return false;
}

static bool is_tensor(uint8_t kind)
{
	return kind >= TFMT_TENSOR_ALLOC && kind <= TFMT_TENSOR_OOM;
}

static void capture_stacks(struct ip_thread *t, struct tfmt_record *ev)
{
	/* Reads of values come as often as tensors, and like those are the program's doing, not a library's. */
	bool tensor = is_tensor(ev->kind) || ev->kind == TFMT_VALUE_READ;

	ev->python_stack = TFMT_STACK_NOT_CAPTURED;
	ev->native_stack = TFMT_STACK_NOT_CAPTURED;
	if (tensor && ip_env.stacks == IP_STACKS_NONE)
		return;
	ev->python_stack = callstack_python(t->stacks);
	if (!tensor || ip_env.stacks == IP_STACKS_FULL)
		ev->native_stack = callstack_native(t->stacks);
	if (ev->python_stack == TFMT_STACK_NOT_CAPTURED)
		count(&ip_recorder->status->not_captured);
}

void ip_record(struct ip_thread *t, struct tfmt_record *ev)
{
	uint64_t used = t->head - __atomic_load_n(&t->ring->tail, __ATOMIC_ACQUIRE);
	struct tfmt_record *slot;

	if (used >= IP_RING_CAPACITY && !wait_for_room(t)) {
		ip_lost();
		return;
	}
	capture_stacks(t, ev);
	if (callstack_finalizing())
		ev->flags |= TFMT_FLAG_TEARDOWN;
	/* Close to the order: the merge is quick where both agree. */
	ev->time_ns = ip_now_ns();
	if (is_tensor(ev->kind))
		ev->order = ip_recorder->tensor_order[ev->device]++;
	else
		ev->order = atomic_fetch_add_explicit(&ip_recorder->driver_order, 1, memory_order_relaxed);

	slot = &t->ring->record[t->head & (IP_RING_CAPACITY - 1)];
	memcpy(slot, ev, offsetof(struct tfmt_record, valid));
	t->head++;
	__atomic_store_n(&slot->valid, (uint32_t)t->head, __ATOMIC_RELEASE);
	__atomic_store_n(&t->ring->head, t->head, __ATOMIC_RELEASE);
	if (used == IP_RING_CAPACITY / 2)
		ip_wake_drain();
}

uint32_t ip_next_id(enum tfmt_def_type type)
{
	return atomic_fetch_add_explicit(&ip_recorder->nr_definitions[type], 1, memory_order_relaxed) + 1;
}

/* Copy into the byte ring at position, wrapping. */
static void put_bytes(uint64_t position, const void *bytes, size_t len)
{
	uint8_t *ring = ip_recorder->base + ip_recorder->status->definition_offset;
	size_t at = position & (IP_DEFINITION_BYTES - 1);
	size_t first = len < IP_DEFINITION_BYTES - at ? len : IP_DEFINITION_BYTES - at;

	memcpy(ring + at, bytes, first);
	memcpy(ring, (const uint8_t *)bytes + first, len - first);
}

/* Room for an entry in the definition ring, waiting like an event does. */
static bool wait_for_definition_room(size_t entry_bytes)
{
	struct tfmt_status *s = ip_recorder->status;
	uint64_t until = 0, pause = PAUSE_MIN_NS, tail;

	while (tail = __atomic_load_n(&s->definition_tail, __ATOMIC_ACQUIRE),
	       s->definition_head + entry_bytes - tail > IP_DEFINITION_BYTES) {
		if (ip_recorder->definition_stuck == tail + 1)
			return false;
		if (!until)
			until = ip_now_ns() + IP_WAIT_NS;
		else if (ip_now_ns() > until) {
			ip_recorder->definition_stuck = tail + 1;
			return false;
		}
		ip_wake_drain();
		pause = pause_longer(pause);
	}
	ip_recorder->definition_stuck = 0;
	return true;
}

bool ip_define(uint32_t type, uint32_t id, const void *payload, size_t len)
{
	static const uint8_t zero[8];
	const size_t chunk_max = IP_DEFINITION_BYTES / 4;
	struct tfmt_status *s = ip_recorder->status;
	bool committed = true;
	size_t offset = 0;

	if (ip_state() != IP_RECORDING)
		return false;
	ip_lock(&ip_recorder->definition_lock);
	do {
		size_t chunk = len - offset < chunk_max ? len - offset : chunk_max;
		size_t padded = (chunk + 7) & ~(size_t)7;
		struct tfmt_definition_entry e = {
			.entry_bytes = (uint32_t)(sizeof(e) + padded),
			.payload_bytes = (uint32_t)chunk,
			.type = type,
			.id = id,
			.offset = (uint32_t)offset,
			.whole_bytes = (uint32_t)len,
		};

		committed = wait_for_definition_room(e.entry_bytes);
		if (!committed)
			break;
		put_bytes(s->definition_head, &e, sizeof(e));
		put_bytes(s->definition_head + sizeof(e), (const uint8_t *)payload + offset, chunk);
		put_bytes(s->definition_head + sizeof(e) + chunk, zero, padded - chunk);
		__atomic_store_n(&s->definition_head, s->definition_head + e.entry_bytes, __ATOMIC_RELEASE);
		offset += chunk;
	} while (offset < len);
	ip_unlock(&ip_recorder->definition_lock);
	return committed;
}
