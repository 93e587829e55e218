/* SPDX-License-Identifier: MIT */
/*
 * unwind_known: native stacks that have been walked before, told by the words that led through them.
 *
 * A walk by rules is a function of the registers it begins with and of the words it loads from the stack. A
 * *known stack* is those words and the id that the stack was given: where it is met again with the same registers
 * and every word still holds what it held, a walk would find the same frames, so nothing is walked. No rule is
 * looked at and no load waits for another, which is what a walk spends its time with. Frame pointers that no
 * rule asks for are left out: most functions keep something else in that register.
 *
 * Threading: a struct unwind_known belongs to one thread, as the struct unwind_thread it goes with does.
 */
#ifndef IP_UNWIND_KNOWN_H
#define IP_UNWIND_KNOWN_H

#include <stdbool.h>
#include <stdint.h>

#include "unwind_table.h"

#define UNWIND_KNOWN_SETS 64u
#define UNWIND_KNOWN_WAYS 16u /* many, for stacks that begin with the same registers share a set */
#define UNWIND_KNOWN_WORDS 32768u /* of all of them; when these are used up, all are forgotten */

struct unwind_known_stack {
	uint64_t ip, sp, fp;
	uint32_t id;       /* 0 = none */
	uint16_t first;    /* of its words */
	uint16_t nr_words;
	uint16_t span;     /* words from sp to the furthest */
	bool by_fp;        /* the first registers' fp matters */
};

/* All zero: nothing known. */
struct unwind_known {
	uint32_t epoch; /* of the rules by which they were walked: struct unwind_thread */
	uint32_t nr_words;
	struct unwind_known_stack stack[UNWIND_KNOWN_SETS][UNWIND_KNOWN_WAYS];
	uint64_t word[UNWIND_KNOWN_WORDS];
};

/*
 * The id of the stack from `at` outwards, 0 if it is not known. The rules hold, and are not due for a check:
 * unwind_may_repeat().
 */
uint32_t unwind_known_find(struct unwind_known *k, const struct unwind_thread *u, struct unwind_registers at);

/* Remember that the levels of u, just walked by rules from `at` to the root, are the stack `id`. */
void unwind_known_add(struct unwind_known *k, const struct unwind_thread *u, struct unwind_registers at, uint32_t id);

#endif
