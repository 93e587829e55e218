/* SPDX-License-Identifier: MIT */
/* A word that leads to a caller is kept in one of ours: where it lies from the stack's first sp, and its value. */
#include "unwind_known.h"

#include <string.h>

#define VALUE_BITS 48
#define VALUE_MASK ((1ull << VALUE_BITS) - 1)
#define PLAIN_BIT (1ull << VALUE_BITS) /* no return address, which may be signed */
#define PLACE_SHIFT (VALUE_BITS + 1)
#define SPAN_MAX ((1u << (64 - PLACE_SHIFT)) - 1)

static struct unwind_known_stack *set_of(struct unwind_known *k, const struct unwind_registers *at)
{
	_Static_assert(UNWIND_KNOWN_SETS == 1u << 6, "the set number is the top 6 bits of the product");
	return k->stack[(at->sp ^ at->ip << 32) * 0x9e3779b97f4a7c15ull >> 58];
}

/* What a word of the stack is compared by. */
static inline uint64_t value_of(uint64_t loaded, bool plain)
{
	return plain ? loaded : arch_code_address(loaded);
}

static inline bool leads_as_before(const struct unwind_known *k, const struct unwind_known_stack *s)
{
	const uint64_t *word = &k->word[s->first], *end = word + s->nr_words;

	for (; word < end; word++) {
		uint64_t loaded = unwind_load(s->sp + (*word >> PLACE_SHIFT) * 8);

		if (value_of(loaded, *word & PLAIN_BIT) != (*word & VALUE_MASK))
			return false;
	}
	return true;
}

uint32_t unwind_known_find(struct unwind_known *k, const struct unwind_thread *u, struct unwind_registers at)
{
	const struct unwind_known_stack *s = set_of(k, &at), *end = s + UNWIND_KNOWN_WAYS;

	if (k->epoch != u->epoch || at.sp < u->low || at.sp >= u->high)
		return 0;
	for (; s < end && s->id; s++) {
		if (s->sp != at.sp || s->ip != at.ip || (s->by_fp && s->fp != at.fp))
			continue;
		if (s->sp + 8ull * s->span < u->high && leads_as_before(k, s))
			return s->id;
	}
	return 0;
}

/* ---- learning a stack ------------------------------------------------------------------------------ */

/* Where the frame pointer of a frame has come from, when that is not an address. */
enum { FP_FIRST = 0, FP_NOTED = 1 };

struct notes {
	struct unwind_known *known;
	struct unwind_known_stack stack;
	uint64_t fp_slot;
	bool fit;
};

static uint64_t note(struct notes *n, uint64_t slot, bool plain)
{
	uint64_t place = (slot - n->stack.sp) / 8, value = value_of(unwind_load(slot), plain);
	uint32_t at = n->stack.first + n->stack.nr_words;

	if (place > SPAN_MAX || value > VALUE_MASK || at >= UNWIND_KNOWN_WORDS) {
		n->fit = false;
		return value;
	}
	n->known->word[at] = place << PLACE_SHIFT | (plain ? PLAIN_BIT : 0) | value;
	n->stack.nr_words++;
	if (place > n->stack.span)
		n->stack.span = (uint16_t)place;
	return value;
}

/* A rule asks for the frame pointer. */
static void note_fp(struct notes *n)
{
	if (n->fp_slot == FP_FIRST)
		n->stack.by_fp = true;
	else if (n->fp_slot != FP_NOTED)
		note(n, n->fp_slot, true);
	n->fp_slot = FP_NOTED;
}

/* The walk's step from r to its caller. */
static void note_step(struct notes *n, struct unwind_rule rule, struct unwind_registers *r)
{
	uint64_t cfa = (rule.kind == UNWIND_SP ? r->sp : r->fp) + (uint64_t)(rule.cfa_offset * 8), slot;

	if (rule.kind != UNWIND_SP || rule.fp_where == UNWIND_FP_ON_FP)
		note_fp(n);
	if (rule.kind == UNWIND_SAVED)
		cfa = note(n, cfa, true);
	note(n, cfa + (uint64_t)(rule.ra_offset * 8), false);
	if (n->fit && rule.fp_where != UNWIND_FP_SAME) {
		slot = (rule.fp_where == UNWIND_FP_ON_FP ? r->fp : cfa) + (uint64_t)(rule.fp_offset * 8);
		r->fp = unwind_load(slot);
		n->fp_slot = slot;
	}
	r->sp = cfa;
}

static void forget_all(struct unwind_known *k, uint32_t epoch)
{
	/* Pages of a new thread are zero, and cost time only when they are touched. */
	if (k->epoch)
		memset(k->stack, 0, sizeof(k->stack));
	k->nr_words = 0;
	k->epoch = epoch;
}

void unwind_known_add(struct unwind_known *k, const struct unwind_thread *u, struct unwind_registers at, uint32_t id)
{
	struct unwind_known_stack *set = set_of(k, &at);
	struct notes n = { .known = k, .fit = true };
	struct unwind_registers r = at;

	if (k->epoch != u->epoch || k->nr_words + 3 * u->nr > UNWIND_KNOWN_WORDS)
		forget_all(k, u->epoch);
	n.stack = (struct unwind_known_stack){
		.ip = at.ip, .sp = at.sp, .fp = at.fp, .id = id, .first = (uint16_t)k->nr_words,
	};
	for (uint32_t i = u->nr; i-- > 0 && n.fit;) {
		struct unwind_rule rule = u->address[u->level[i].address].rule;

		if (rule.kind != UNWIND_END)
			note_step(&n, rule, &r);
	}
	if (!n.fit)
		return;
	k->nr_words += n.stack.nr_words;
	memmove(set + 1, set, (UNWIND_KNOWN_WAYS - 1) * sizeof(*set));
	set[0] = n.stack;
}
