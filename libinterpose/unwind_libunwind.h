/* SPDX-License-Identifier: MIT */
/*
 * libunwind of the system (libunwind.so.8), for those who ask for it: loaded at run time, its names hidden from the
 * program. Never chosen otherwise, because it cannot keep all that the recorder promises:
 *
 * - it keeps a pipe open, to see by writing into it whether an address can be read. A program sees two more descriptors;
 *   should it close or replace them, its own would be written to. So before each walk the two are looked at (fstat), and
 *   when they are not libunwind's any more, it is not used again. Between the look and the walk another thread may be
 *   faster.
 * - a thread's first walk allocates the library's thread-local data (16 bytes) by the program's malloc, and so is the
 *   file of an object without unwind tables read.
 * - its slow walk, with addresses that it has not met, takes the loader's lock (dl_iterate_phdr).
 * - it remembers addresses for ever: after a library was unloaded it is not used again.
 * - its locks may be held when another thread forks: a child does not use it.
 * - it reads what a frame names without a look whether it is there, but where it guesses.
 *
 * Threading: libunwind_open() on one thread, outside any allocator's lock; all else anywhere.
 */
#ifndef IP_UNWIND_LIBUNWIND_H
#define IP_UNWIND_LIBUNWIND_H

#include <stdbool.h>
#include <stdint.h>

#include "unwind_rules.h"

#define LIBUNWIND_CURSOR_WORDS 512u /* twice what the versions of libunwind.so.8 need */

/* Load it and try it out. False, and libunwind_trouble() says why, if it cannot be used. */
bool libunwind_open(void);

/* It may be used now. Once false, it stays so until libunwind_open(). */
bool libunwind_is_usable(void);

/* Why it is not used, as the end of a sentence that begins "because"; NULL while it is. Static storage. */
const char *libunwind_trouble(void);

/* A library has been unloaded. */
void libunwind_objects_changed(void);

/* The calling thread's return addresses, innermost first, our own among them: at most max. Returns how many. */
uint32_t libunwind_backtrace(uint64_t *ip, uint32_t max);

/*
 * The frames from `at` outwards, slowly, each told to visit(ip, sp, arg) until that returns false. True if the walk
 * ended at the thread's first function. `cursor`: LIBUNWIND_CURSOR_WORDS of memory for the time of the call.
 */
bool libunwind_walk(uint64_t *cursor, struct unwind_registers at, bool (*visit)(uint64_t ip, uint64_t sp, void *arg),
		    void *arg);

#endif
