/* SPDX-License-Identifier: MIT */
/* The producers' side of the ring file: events of one thread, definitions of all. */
#include <sched.h>
#include <string.h>

#include "arch.h"
#include "autograd.h"
#include "callstack.h"
#include "env.h"
#include "interpose.h"
#include "pyframes.h"
#include "reason.h"
#include "stackpool.h"

/* Between looks whether there is room: longer each time, for many threads that look take the drain's time. */
#define PAUSE_MIN_NS 50000u
#define PAUSE_MAX_NS 1600000u
#define WHERE_EVERY 16u /* records between words to the drain where this thread runs */
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
	else if (state == IP_STOPPED || state == IP_OFF)
		ip_reason_count(1);
}

void ip_waited(uint64_t since_ns)
{
	uint64_t waited = ip_now_ns() - since_ns;
	uint64_t *longest = &ip_recorder->status->longest_wait_ns;
	uint64_t known = __atomic_load_n(longest, __ATOMIC_RELAXED);

	count(&ip_recorder->status->waits);
	while (known < waited && !__atomic_compare_exchange_n(longest, &known, waited, true, __ATOMIC_RELAXED,
							      __ATOMIC_RELAXED))
		;
}

/*
 * The ring is nearly full. Waiting gives the drain the processor, which threads at full speed would keep from it;
 * it begins before the ring is full, because a thread that has filled its own in one turn waits until the drain has
 * taken all others' older events, which can take longer than one wait. When the drain has not moved for several waits,
 * nobody waits again until it has, so that a stuck disk costs a thread half a second once. True if there is room for
 * the event, and for the word that some were dropped.
 */
static IP_COLD bool wait_for_room(struct ip_thread *t)
{
	uint64_t tail = __atomic_load_n(&t->ring->tail, __ATOMIC_ACQUIRE);
	uint64_t since = ip_now_ns(), pause = PAUSE_MIN_NS;

	if (tail != t->stuck_tail)
		t->nr_waits = 0;
	if (t->nr_waits < WAITS_MAX) {
		t->stuck_tail = tail;
		t->nr_waits++;
		do {
			ip_wake_drain();
			pause = pause_longer(pause);
			tail = __atomic_load_n(&t->ring->tail, __ATOMIC_ACQUIRE);
		} while (t->head - tail >= IP_RING_HIGH && ip_now_ns() - since < IP_WAIT_NS);
		ip_waited(since);
	}
	return t->head - tail + (t->nr_dropped > 0) < IP_RING_CAPACITY;
}

static bool is_tensor(uint8_t kind)
{
	return kind >= TFMT_TENSOR_ALLOC && kind <= TFMT_TENSOR_OOM;
}

/*
 * Samples, ranges and phases come from wherever the program happens to be: their stacks would say nothing. Of a copy, the
 * block says where it comes from.
 */
static bool has_stacks(uint8_t kind)
{
	return kind != TFMT_MEMORY_INFO && kind != TFMT_COPY && (kind < TFMT_POOL_INFO || kind > TFMT_ALLOCATOR);
}

/*
 * What a record gets beside what the hook knows. Kept apart from the hook's own record: that was written field by
 * field, and can be read in larger pieces only when it has reached the cache, as it has by now; a processor waits for
 * that.
 */
struct captured {
	uint32_t python, native;
	uint16_t flags;
};

static inline uint32_t native_stack(struct ip_thread *t)
{
	struct callstack *cs = stackpool_take(t);
	uint32_t id = cs ? callstack_native(cs, t->caller) : TFMT_STACK_NOT_CAPTURED;

	stackpool_give(t, cs);
	return id;
}

/* *node: the autograd node that seems to run here, NULL = none; NULL afterwards if the stacks show that it does not. */
static struct captured capture_stacks(struct ip_thread *t, const struct tfmt_record *ev, struct open_node **node)
{
	/* Reads of values come as often as tensors, and like those are the program's doing, not a library's. */
	bool tensor = is_tensor(ev->kind) || ev->kind == TFMT_VALUE_READ;
	struct captured c = { TFMT_STACK_NOT_CAPTURED, TFMT_STACK_NOT_CAPTURED, 0 };

	if (!has_stacks(ev->kind) || t->is_elsewhere || (tensor && ip_env.stacks == IP_STACKS_NONE))
		return c;
	c.python = autograd_python_stack(t, node);
	if (!tensor || ip_env.stacks == IP_STACKS_FULL)
		c.native = native_stack(t);
	if (ev->kind == TFMT_TENSOR_ALLOC && c.python >= TFMT_STACK_FIRST && c.python == *autograd_made_stack(t, *node))
		c.flags |= TFMT_FLAG_FORWARD;
	if (c.python == TFMT_STACK_NOT_CAPTURED)
		count(&ip_recorder->status->not_captured);
	return c;
}

/* Some bytes of a record as one number, as they lie there. */
static inline uint64_t word_at(const void *bytes, size_t len)
{
	uint64_t word = 0;

	memcpy(&word, bytes, len);
	return word;
}

/*
 * Number a record, put it into the ring, and let the drain see it. The check is tfmt_record_check(), of words at hand:
 * to read back what was written in smaller pieces the processor would have to wait.
 */
static inline __attribute__((always_inline)) void publish(struct ip_thread *t, const struct tfmt_record *ev, struct captured c)
{
	struct tfmt_record *slot = &t->ring->record[t->head & (IP_RING_CAPACITY - 1)];
	uint64_t stacks = c.python | (uint64_t)c.native << 32, order, check;
	uint64_t rest = word_at(&ev->shape, 8);
	uint32_t last = (uint32_t)word_at(&ev->kind, 2) | (uint32_t)(ev->flags | c.flags) << 16;

	/* Close to the order: the merge is quick where both agree. */
	uint64_t now = clock_now(&t->clock);

	if (is_tensor(ev->kind))
		order = ip_recorder->tensor_order[ev->device].next++;
	else
		order = atomic_fetch_add_explicit(&ip_recorder->driver_order, 1, memory_order_relaxed);
	slot->time_ns = now;
	slot->address = ev->address;
	slot->size = ev->size;
	slot->order = order;
	slot->aux = ev->aux;
	memcpy(&slot->python_stack, &stacks, 8);
	memcpy(&slot->shape, &rest, 8);
	memcpy(&slot->kind, &last, 4);
	check = tfmt_check_words(++t->head, now, ev->address);
	check = tfmt_check_words(check, ev->size, order);
	check = tfmt_check_words(check, ev->aux, stacks);
	check = tfmt_check_words(check, rest, last);
	__atomic_store_n(&slot->valid, (uint32_t)(check >> 32), __ATOMIC_RELEASE);
	__atomic_store_n(&t->ring->head, t->head, __ATOMIC_RELEASE);
	if (t->head % WHERE_EVERY == 0)
		__atomic_store_n(&t->ring->processor, (uint32_t)sched_getcpu() + 1, __ATOMIC_RELAXED);
	/* The drain has read it, on another processor: fetching it back takes as long as half a capture. Not now. */
	arch_prefetch_write(&t->ring->record[(t->head + 1) & (IP_RING_CAPACITY - 1)]);
}

/* Where events are missing, now that there is room again. */
static IP_COLD void publish_dropped(struct ip_thread *t)
{
	struct tfmt_record lost = { .kind = TFMT_LOST, .device = TFMT_DEVICE_NONE, .size = t->nr_dropped };

	t->nr_dropped = 0;
	publish(t, &lost, (struct captured){ 0 });
}

void ip_record_thread(struct ip_thread *t, uint32_t previous)
{
	struct tfmt_record *slot = &t->ring->record[t->head & (IP_RING_CAPACITY - 1)];
	struct tfmt_record record = {
		.time_ns = clock_now(&t->clock),
		.address = t->id,
		.size = previous,
		.order = UINT64_MAX, /* it has none: no reader looks for it */
		.kind = TFMT_RECORD_THREAD,
		.device = TFMT_DEVICE_NONE,
	};

	memcpy(slot, &record, offsetof(struct tfmt_record, valid));
	__atomic_store_n(&slot->valid, tfmt_record_check(&record, t->head), __ATOMIC_RELEASE);
	__atomic_store_n(&t->ring->head, ++t->head, __ATOMIC_RELEASE);
}

/* From here on nobody takes the ring away: ringclaim.c has the other half. False: it was taken, and there is no other. */
static inline bool begin_writing(struct ip_thread *t)
{
	for (;;) {
		__atomic_store_n(&t->is_writing, true, __ATOMIC_RELAXED);
		atomic_signal_fence(memory_order_seq_cst);
		if (__builtin_expect(!__atomic_load_n(&t->is_revoked, __ATOMIC_ACQUIRE), 1))
			return true;
		__atomic_store_n(&t->is_writing, false, __ATOMIC_RELEASE);
		if (!ip_ring_claim(t))
			return false;
	}
}

static inline void end_writing(struct ip_thread *t)
{
	__atomic_store_n(&t->is_writing, false, __ATOMIC_RELEASE);
}

/* There is no room, or no ring. */
static IP_COLD void drop(struct ip_thread *t)
{
	t->nr_dropped++;
	ip_lost();
}

void ip_record(struct ip_thread *t, const struct tfmt_record *ev)
{
	struct open_node *node = t->is_elsewhere ? NULL : open_node_find(t, t->caller);
	struct captured c = capture_stacks(t, ev, &node);
	uint64_t used;

	if (node && is_tensor(ev->kind))
		c.flags |= TFMT_FLAG_BACKWARD;
	/* A stack of Python's says that it is not. */
	if ((c.python < TFMT_STACK_FIRST || node) && pyframes_finalizing())
		c.flags |= TFMT_FLAG_TEARDOWN;
	if (!begin_writing(t)) {
		drop(t);
		return;
	}
	used = t->head - __atomic_load_n(&t->ring->tail, __ATOMIC_ACQUIRE);
	if (used >= IP_RING_HIGH && !wait_for_room(t)) {
		end_writing(t);
		drop(t);
		return;
	}
	if (t->nr_dropped)
		publish_dropped(t);
	publish(t, ev, c);
	end_writing(t);
	if (used == IP_RING_CAPACITY / 2)
		ip_wake_drain();
	/* After the publication: see close_recording() in lifecycle.c. */
	atomic_signal_fence(memory_order_seq_cst);
	if (ip_state() == IP_CLOSED)
		ip_hold();
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
	uint64_t since = 0, pause = PAUSE_MIN_NS, tail;
	bool room = true;

	while (tail = __atomic_load_n(&s->definition_tail, __ATOMIC_ACQUIRE),
	       s->definition_head + entry_bytes - tail > IP_DEFINITION_BYTES) {
		if (ip_recorder->definition_stuck == tail + 1) {
			room = false;
			break;
		}
		if (!since)
			since = ip_now_ns();
		else if (ip_now_ns() - since > IP_WAIT_NS) {
			ip_recorder->definition_stuck = tail + 1;
			room = false;
			break;
		}
		ip_wake_drain();
		pause = pause_longer(pause);
	}
	if (room)
		ip_recorder->definition_stuck = 0;
	if (since)
		ip_waited(since);
	return room;
}

/* An entry is published whole: half of one would keep the drain from what comes after it. */
bool ip_define(uint32_t type, uint32_t id, const void *payload, size_t len)
{
	static const uint8_t zero[8];
	struct tfmt_status *s = ip_recorder->status;
	size_t padded = (len + 7) & ~(size_t)7;
	struct tfmt_definition_entry e = {
		.entry_bytes = (uint32_t)(sizeof(e) + padded),
		.payload_bytes = (uint32_t)len,
		.type = type,
		.id = id,
		.whole_bytes = (uint32_t)len,
	};
	uint64_t used;
	bool committed;

	if (ip_state() != IP_RECORDING || len > IP_DEFINITION_MAX)
		return false;
	ip_lock(&ip_recorder->definition_lock);
	committed = wait_for_definition_room(e.entry_bytes);
	if (committed) {
		e.check = tfmt_entry_check(&e, s->definition_head, payload);
		put_bytes(s->definition_head, &e, sizeof(e));
		put_bytes(s->definition_head + sizeof(e), payload, len);
		put_bytes(s->definition_head + sizeof(e) + len, zero, padded - len);
		used = s->definition_head - __atomic_load_n(&s->definition_tail, __ATOMIC_RELAXED);
		__atomic_store_n(&s->definition_head, s->definition_head + e.entry_bytes, __ATOMIC_RELEASE);
		if (used < IP_DEFINITION_HIGH && used + e.entry_bytes >= IP_DEFINITION_HIGH)
			ip_wake_drain();
	}
	ip_unlock(&ip_recorder->definition_lock);
	return committed;
}
