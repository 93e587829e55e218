/* SPDX-License-Identifier: MIT */
/*
 * unwind: the calling thread's native frames.
 *
 * The walk goes by remembered rules (unwind_table.h). Frames that no rule describes (a signal's) are left
 * to libgcc's unwinder, linked into this library and hidden, which is ten times as slow. libgcc is also the
 * judge of the rules: it repeats the first captures of a process and some later ones; should the table ever
 * disagree, it is not used again. libunwind is no guest for somebody else's process: it keeps a pipe of its
 * own and writes into it by number, so a program that has closed and reused its descriptors would find the
 * bytes in its files.
 *
 * Threading: unwind_init() on one thread; everything else anywhere afterwards. No lock, no allocation.
 */
#ifndef IP_UNWIND_H
#define IP_UNWIND_H

#include <stdbool.h>
#include <stdint.h>

#include "unwind_table.h"

/* A trial walk: libgcc's unwinder sets itself up in its first. */
void unwind_init(void);

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

/* How stacks are walked, for info; changes once if the table is given up. Static storage. */
const char *unwind_method(void);

/* Captures for which table and libgcc were compared. */
uint32_t unwind_nr_compared(void);

#endif
