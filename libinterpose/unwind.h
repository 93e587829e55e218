/* SPDX-License-Identifier: MIT */
/*
 * unwind: the calling thread's native frames.
 *
 * On x86-64 the walk goes by remembered rules (unwind_table.h). Where those do not serve (signal handlers,
 * fibers, code without frame descriptions, other processors) it is that of libgcc, linked into this library
 * and hidden, and ten times as slow. libgcc also repeats the first captures of a process and some later ones:
 * should the table ever disagree, it is not used again. libunwind is no guest for somebody else's process: it
 * keeps a pipe of its own and writes into it by number, so a program that has closed and reused its
 * descriptors would find the bytes in its files.
 *
 * Threading: unwind_init() on one thread; everything else anywhere afterwards. No lock, no allocation.
 */
#ifndef IP_UNWIND_H
#define IP_UNWIND_H

#include <stdbool.h>
#include <stdint.h>

#include "unwind_table.h"

#define UNWIND_MAX 512u /* frames of the longest stack */

/* A trial walk: libgcc's unwinder sets itself up in its first. */
void unwind_init(void);

/* The trial walk found its callers. */
bool unwind_available(void);

/*
 * The return addresses of the calling thread, innermost first, without those in this library; at most max,
 * which is UNWIND_MAX or less. *cut tells that there are more. u is the thread's own, all zero at first.
 * Returns their number.
 */
uint32_t unwind_capture(struct unwind_thread *u, uint64_t *ip, uint32_t max, bool *cut);

/* How stacks are walked, for info; changes once if the table is given up. Static storage. */
const char *unwind_method(void);

/* Captures for which table and libgcc were compared. */
uint32_t unwind_nr_compared(void);

#endif
