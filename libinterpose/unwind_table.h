/* SPDX-License-Identifier: MIT */
/*
 * unwind_table: native stack walks by remembered rules (unwind_rules.h), a few nanoseconds a frame.
 *
 * A thread remembers the rule of every return address that it has met, which rule came next last time, and
 * its previous stack as *levels*, root first. A level is a frame: where it stands and where it stores the
 * way to its caller. Where a walk meets a frame with the registers of a level, and every word that the
 * older levels lead to their callers by still holds what it held, the rest of the stack is the same: a rule
 * depends on nothing else.
 *
 * The stack is read word by word, upwards only, and no further than its memory is known to be readable:
 * frames that lead nowhere end a walk, they do not end the program.
 *
 * Threading: walks anywhere; a struct unwind_thread belongs to one thread. No lock, no allocation.
 */
#ifndef IP_UNWIND_TABLE_H
#define IP_UNWIND_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "unwind_rules.h"

#define UNWIND_MAX 512u        /* frames of the longest stack */
#define UNWIND_ADDRESSES 4096u /* return addresses that a thread remembers */
#define UNWIND_OBJECTS 64u     /* objects that these lie in */
#define UNWIND_RECHECK 128u    /* captures between looks whether one of them, in turn, is still there */
#define UNWIND_NO_SLOT 0xffffu
#define UNWIND_SCRATCH_WORDS (UNWIND_MAX + 32u)

/* Plain fields: parts of a word, stored one by one and read as a whole, would cost more than all else. */
struct unwind_level {
	uint64_t ip, sp, fp;
	uint16_t ra_slot; /* where the return address to the older level lies, in words above sp */
	uint16_t fp_slot; /* where its fp does; UNWIND_NO_SLOT = it is this one's */
	uint16_t address; /* of ip in the thread's table */
	bool by_rule;     /* leads to its caller by more than these two words, or they are further away */
};

/* What the user of the table wants to remember of a return address; 0 at first. */
enum { UNWIND_MARK_BITS = 3 };

struct unwind_address {
	uint64_t ip : 48;
	uint64_t next : 13; /* the address that came next last time */
	uint64_t mark : UNWIND_MARK_BITS;
	struct unwind_rule rule;
};

/* How a walk ended. */
enum unwind_end {
	UNWIND_ROOT,     /* at the thread's first function */
	UNWIND_TOO_DEEP, /* at UNWIND_MAX frames */
	UNWIND_LOST,     /* at a frame whose caller is nowhere: code made at run time, a corrupted stack */
	UNWIND_UNKNOWN,  /* at a frame that no rule describes, such as a signal's */
};

/* All zero: nothing known. */
struct unwind_thread {
	uint32_t nr;             /* levels of the last stack */
	uint32_t kept;           /* of these, unchanged since the stack before */
	bool reusable;           /* they can be found again */
	uint32_t nr_addresses, nr_objects, top;
	uint64_t nr_captures;
	uint64_t low, high;      /* stack that is known to be readable */
	uint32_t generation;     /* of the process's objects, see unwind_objects_changed() */
	uint32_t epoch;          /* changes when all addresses and their rules are forgotten */
	struct unwind_level level[UNWIND_MAX], fresh[UNWIND_MAX];
	struct unwind_object object[UNWIND_OBJECTS];
	uint64_t scratch[UNWIND_SCRATCH_WORDS]; /* of another unwinder's walk */
	uint16_t index[2 * UNWIND_ADDRESSES]; /* hash of ip -> address[] */
	struct unwind_address address[UNWIND_ADDRESSES]; /* 0 is nobody's */
};

/*
 * Walks from the frame `at` outwards and replaces the levels. After UNWIND_UNKNOWN they hold the frames up
 * to the one without a rule, too.
 */
enum unwind_end unwind_table_walk(struct unwind_thread *u, struct unwind_registers at);

/* The next capture may repeat a stack walked before: the rules hold, and it is not their turn to be checked. */
bool unwind_table_holds(const struct unwind_thread *u);

/*
 * Where another unwinder walks: begin a capture, as unwind_table_walk() would, and the number of a return address in
 * the thread's table, 0 if there is none.
 */
void unwind_table_begin(struct unwind_thread *u);
uint32_t unwind_table_address(struct unwind_thread *u, uint64_t ip);

/* Another thread's stack is walked from here on: forget the latest one, and what memory of it can be read. */
void unwind_table_leave_stack(struct unwind_thread *u);

/* Replace the levels by u->fresh[0..nr), innermost first, of which ip, sp and address are known. */
void unwind_table_set(struct unwind_thread *u, uint32_t nr);

/* The eight bytes there can be read. Asks the kernel. */
bool unwind_readable(uint64_t address);

/* An object has been unloaded, or is about to be: rules of its addresses hold no longer. Any thread. */
void unwind_objects_changed(void);

#endif
