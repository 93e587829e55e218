/* SPDX-License-Identifier: MIT */
/*
 * callstack: the calling thread's Python and native stacks as ids of the trace's stack tree.
 *
 * Threading: init and start on one thread at a time; a struct callstack is one thread's at a time; everything
 * else anywhere. Nothing but start takes a lock of the loader or can allocate through the program.
 */
#ifndef IP_CALLSTACK_H
#define IP_CALLSTACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tracefmt/tracefmt.h"
#include "unwind.h"

struct callstack;

/* In the library's constructor: finds the interpreter that the program is linked with. */
void callstack_init(void);

/*
 * When recording starts, outside any allocator's lock, and again in a fork child that records for itself:
 * begins with an empty stack tree (an inherited one is dropped, its memory not touched), looks once more for
 * an interpreter and tries the native unwinder. Stacks are "not captured" before.
 */
void callstack_start(enum unwind_choice unwinder);

/* Caches for stacks: two MiB from ip_map, of which little is touched; NULL without memory. */
struct callstack *callstack_thread_new(void);
void callstack_thread_free(struct callstack *cs); /* NULL allowed */

/* From here on another thread uses them, the calling one: what they know of a thread's stack is forgotten. */
void callstack_thread_change(struct callstack *cs);

/*
 * The current Python stack: id of its innermost frame; TFMT_STACK_NO_PYTHON if the thread runs no Python or
 * its frames cannot be read; TFMT_STACK_NOT_CAPTURED if the stack could not be interned.
 */
uint32_t callstack_python(struct callstack *cs);

/* The stack `base` (STACKTREE_ROOT = 0: none) where no Python runs further in. */
static inline uint32_t callstack_without_python(uint32_t base)
{
	return base ? base : TFMT_STACK_NO_PYTHON;
}

/*
 * The same with the stack `base` in place of the older frames: only those from `newest` (not NULL) to the one before
 * `until` (another one; NULL: to the oldest) are walked, both met by pyframes_newest(), `until` further up this thread's
 * stack. CALLSTACK_APART if `until` is not among the frames further up: what it stands for is on another stack.
 */
#define CALLSTACK_APART UINT32_MAX
uint32_t callstack_python_from(struct callstack *cs, uint32_t base, const void *newest, const void *until);

/*
 * The stack `older` (STACKTREE_ROOT = 0: none) with an autograd node as its newest frame; `name` is the string id of
 * its class, from_forward says that `older` is where forward made it. 0 if it could not be interned.
 */
uint32_t callstack_node(struct callstack *cs, uint32_t older, uint32_t name, bool from_forward);

/*
 * The current native stack from `caller` (NULL: from here) up to the thread's first function, without
 * frames of this library: id of the innermost one. All addresses are return addresses but the innermost,
 * which is moved into the call instruction; b = 1 marks frames that run Python. Where frames further out
 * are missing, because there are more than UNWIND_MAX or they cannot be found, a TFMT_FRAME_CUT of 0
 * (number unknown) is the root.
 */
uint32_t callstack_native(struct callstack *cs, const struct unwind_registers *caller);

/* A walk of the native stack outwards. */
struct callstack_way {
	bool met;              /* it has come by the frame that was asked for */
	uint64_t root_sp;      /* where it has met the thread's first function, 0 = it has not come so far */
	uint64_t longest_step; /* bytes from one frame to the next */
};

/* Walks from the frame `from`, one of the calling thread's own, and looks for the frame `to` (ip and sp). */
struct callstack_way callstack_way_to(struct callstack *cs, const struct unwind_registers *from,
				      const struct unwind_registers *to);

/* For info: "supported: 3.11.7", "unsupported: Python 3.7.1, why", "no Python". Static storage. */
const char *callstack_python_support(void);
bool callstack_native_available(void);

#endif
