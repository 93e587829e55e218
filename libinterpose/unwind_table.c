/* SPDX-License-Identifier: MIT */
/*
 * Where rules are remembered. A word of the table is one rule with what is left of its key once the bucket is
 * known, so that it is written and read in one piece: no lock, and threads that fill it at once do no harm.
 * A bucket is one cache line; when it is full a new rule takes the place of another, which comes back.
 */
#include "unwind_table.h"

#ifdef __x86_64__

#include <stdatomic.h>
#include <stddef.h>

#define ADDRESS_BITS 47 /* of user space */
#define BUCKET_BITS 10
#define BUCKET_WORDS 8
#define TAG_BITS (ADDRESS_BITS - BUCKET_BITS)

_Static_assert(TAG_BITS + UNWIND_RULE_BITS == 64, "a rule and its tag are one word");

static _Atomic uint64_t table[1 << BUCKET_BITS][BUCKET_WORDS] __attribute__((aligned(64)));

/* The multiplication is a permutation of addresses: bucket and tag tell each from every other. */
static inline uint64_t spread(uint64_t ip)
{
	return (ip * 0x9e3779b97f4a7c15ull) & ((1ull << ADDRESS_BITS) - 1);
}

static __attribute__((noinline)) uint32_t fill(_Atomic uint64_t *bucket, uint64_t tag, uint64_t ip,
					       const struct unwind_object *o)
{
	uint32_t rule = unwind_rule(o, ip - 1);
	unsigned i = 0;

	while (i < BUCKET_WORDS && atomic_load_explicit(&bucket[i], memory_order_relaxed))
		i++;
	if (i == BUCKET_WORDS)
		i = tag % BUCKET_WORDS;
	atomic_store_explicit(&bucket[i], tag << UNWIND_RULE_BITS | rule, memory_order_relaxed);
	return rule;
}

static inline uint32_t rule_of(uint64_t ip, const struct unwind_object *o)
{
	uint64_t key = spread(ip), tag = (key ^ o->identity) & ((1ull << TAG_BITS) - 1);
	_Atomic uint64_t *bucket = table[key >> TAG_BITS];

	for (unsigned i = 0; i < BUCKET_WORDS; i++) {
		uint64_t word = atomic_load_explicit(&bucket[i], memory_order_relaxed);

		if (word >> UNWIND_RULE_BITS == tag && word)
			return (uint32_t)word & ((1u << UNWIND_RULE_BITS) - 1);
		if (!word)
			break;
	}
	return fill(bucket, tag, ip, o);
}

/* The object of an address, looked up lately; NULL if there is none. */
static const struct unwind_object *object_of(struct unwind_thread *u, uint64_t ip)
{
	struct unwind_known *k = u->known, *end = u->known + u->nr_known;

	while (k < end && ip - k->object.start >= k->object.bytes)
		k++;
	if (k < end && u->nr_captures - k->looked_up < UNWIND_OBJECT_LIFE)
		return &k->object;
	if (k == end && u->nr_known == UNWIND_OBJECTS)
		k = &u->known[u->nr_captures % UNWIND_OBJECTS];
	else if (k == end)
		u->nr_known++;
	k->looked_up = u->nr_captures;
	if (unwind_object_find(ip, &k->object))
		return &k->object;
	k->object.bytes = 0;
	return NULL;
}

/* A word of the thread's stack, which no sanitizer needs to approve of. */
__attribute__((no_sanitize("address", "thread"))) static inline uint64_t load(uint64_t address)
{
	return *(const volatile uint64_t *)(uintptr_t)address;
}

/* From a frame to its caller's, reading nothing below its rsp nor above high. */
static inline bool step(uint32_t rule, struct unwind_registers *r, uint64_t high)
{
	enum unwind_kind kind = unwind_rule_kind(rule);
	uint64_t cfa = (kind == UNWIND_RSP ? r->rsp : r->rbp) + (uint64_t)unwind_rule_offset(rule), slot;

	if (kind == UNWIND_OTHER)
		return false;
	if (kind == UNWIND_SAVED) {
		if (cfa < r->rsp || cfa > high - 8 || (cfa & 7))
			return false;
		cfa = load(cfa);
	}
	if (cfa <= r->rsp || cfa > high || (cfa & 7))
		return false;
	if (unwind_rule_rbp_saved(rule)) {
		slot = (unwind_rule_rbp_on_rbp(rule) ? r->rbp : cfa) + (uint64_t)unwind_rule_rbp_offset(rule);
		if (slot < r->rsp || slot > high - 8 || (slot & 7))
			return false;
		r->rbp = load(slot);
	}
	r->ip = load(cfa - 8);
	r->rsp = cfa;
	return true;
}

bool unwind_table_walk(struct unwind_thread *u, struct unwind_registers at, struct unwind_trace *t)
{
	const struct unwind_object *o = NULL;

	u->nr_captures++;
	if (at.rsp < u->low || at.rsp >= u->high)
		return false;
	while (unwind_trace_add(t, at.ip)) {
		uint32_t rule;

		if (!at.ip) /* how some threads mark their first function's caller */
			return true;
		if (!o || at.ip - o->start >= o->bytes)
			o = object_of(u, at.ip - 1);
		if (!o)
			return false;
		rule = rule_of(at.ip, o);
		if (unwind_rule_kind(rule) == UNWIND_END)
			return true;
		if (!step(rule, &at, u->high))
			return false;
	}
	return true;
}

void unwind_table_learn(struct unwind_thread *u, uint64_t low, uint64_t high)
{
	low &= ~4095ull; /* the rest of a page is as readable */
	if (low <= u->high && u->low <= high) {
		u->low = low < u->low ? low : u->low;
		u->high = high > u->high ? high : u->high;
	} else {
		u->low = low;
		u->high = high;
	}
}

#endif
