/* SPDX-License-Identifier: MIT */
/*
 * unwind: the calling thread's native frames.
 *
 * The walk goes by remembered rules (unwind_table.h). Frames that no rule describes (a signal's) are left
 * to libgcc's unwinder, linked into this library and hidden, which is ten times as slow. libgcc is also the
 * judge of the rules: it repeats the first captures of a process and some later ones; should the table ever
 * disagree, it is not used again. Users may choose otherwise: libgcc or libunwind (unwind_libunwind.h) for every
 * walk, watched by the rules, or libunwind as judge of the rules and for what they do not describe.
 *
 * Threading: unwind_init() on one thread; everything else anywhere afterwards. No lock, no allocation.
 */
#ifndef IP_UNWIND_H
#define IP_UNWIND_H

#include <stdbool.h>
#include <stdint.h>

#include "unwind_table.h"

/* Who walks. Where libunwind cannot be had it is as UNWIND_AUTO, and unwind_note() says why. */
enum unwind_choice {
	UNWIND_AUTO,         /* rules; libgcc judges them, and walks where they do not apply */
	UNWIND_BY_RULES,     /* rules, but libunwind does that */
	UNWIND_BY_LIBGCC,
	UNWIND_BY_LIBUNWIND,
};

/* Loads what is chosen, and a trial walk: unwinders set themselves up in their first. Outside allocators' locks. */
void unwind_init(enum unwind_choice choice);

/* The trial walk found its callers. */
bool unwind_available(void);

/*
 * Replaces u's levels by the calling thread's frames from `at`, one of its callers, outwards; those in this
 * library are among them. False if frames further out are missing: there are more than UNWIND_MAX, or they
 * cannot be found. u is the thread's own, all zero at first.
 */
bool unwind_capture(struct unwind_thread *u, struct unwind_registers at);

/*
 * What was captured before may be told by unwind_known_find(); then u->nr_captures counts it. Else, and now and then
 * in any case, a capture has to check the rules or to be judged.
 */
bool unwind_may_repeat(const struct unwind_thread *u);

/* The address lies in this library's code. */
bool unwind_is_own(uint64_t ip);

/* How stacks are walked, for info; changes when the table or libunwind is given up. Static storage. */
const char *unwind_method(void);

/* Why libunwind, which was asked for, is not used, as the end of a sentence with "because"; NULL otherwise. */
const char *unwind_note(void);

/* How many stacks two unwinders have walked, how many of these differed, and who the second was. */
struct unwind_comparison {
	uint32_t nr, nr_differed;
	const char *with; /* static storage */
};
struct unwind_comparison unwind_comparison(void);

#endif
