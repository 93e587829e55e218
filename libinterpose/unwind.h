/* SPDX-License-Identifier: MIT */
/*
 * unwind: the calling thread's native frames.
 *
 * The walk is that of libgcc, linked into this library and hidden. libunwind, though ten times as fast, is
 * no guest for somebody else's process: it keeps a pipe of its own and writes into it by number, so a program
 * that has closed and reused its descriptors would find the bytes in its files.
 *
 * Threading: unwind_init() on one thread; unwind_capture() anywhere afterwards. No lock, no allocation.
 */
#ifndef IP_UNWIND_H
#define IP_UNWIND_H

#include <stdbool.h>
#include <stdint.h>

/* A trial walk: the unwinder sets itself up in its first. */
void unwind_init(void);

/* The trial walk found its callers. */
bool unwind_available(void);

/*
 * The return addresses of the calling thread, innermost first, without those in this library; at most max.
 * *cut tells that there are more. Returns their number.
 */
uint32_t unwind_capture(uint64_t *ip, uint32_t max, bool *cut);

#endif
