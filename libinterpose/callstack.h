/* SPDX-License-Identifier: MIT */
/*
 * callstack: the calling thread's Python and native stacks as ids of the trace's stack tree.
 *
 * Threading: init and start on one thread at a time; a struct callstack belongs to one thread; everything
 * else anywhere. Nothing but start takes a lock of the loader or can allocate through the program.
 */
#ifndef IP_CALLSTACK_H
#define IP_CALLSTACK_H

#include <stdbool.h>
#include <stdint.h>

struct callstack;

/* In the library's constructor: finds the interpreter that the program is linked with. */
void callstack_init(void);

/*
 * When recording starts, outside any allocator's lock, and again in a fork child that records for itself:
 * begins with an empty stack tree (an inherited one is dropped, its memory not touched), looks once more for
 * an interpreter and tries the native unwinder. Stacks are "not captured" before.
 */
void callstack_start(void);

/* A thread's caches, about half a MiB of which little is touched; NULL without memory. From ip_map. */
struct callstack *callstack_thread_new(void);
void callstack_thread_free(struct callstack *cs); /* NULL allowed */

/*
 * The current Python stack: id of its innermost frame; TFMT_STACK_NO_PYTHON if the thread runs no Python or
 * its frames cannot be read; TFMT_STACK_NOT_CAPTURED if the stack could not be interned.
 */
uint32_t callstack_python(struct callstack *cs);

/*
 * The current native stack up to the thread's first function, without frames of this library: id of the
 * function that called the hook. All addresses are return addresses but the innermost, which is moved into
 * the call instruction. A stack of more than 512 frames has a TFMT_FRAME_CUT of 0 (number unknown) as root.
 */
uint32_t callstack_native(struct callstack *cs);

/* The interpreter is finalising or finalised: what happens now is no longer the program's own doing. */
bool callstack_finalizing(void);

/* For info: "supported: 3.11.7", "unsupported: Python 3.7.1, why", "no Python". Static storage. */
const char *callstack_python_support(void);
bool callstack_native_available(void);

#endif
