/* SPDX-License-Identifier: MIT */
/*
 * unwind_rules: how to get from a function to its caller, out of the .eh_frame of the object it lies in.
 *
 * A *rule* says where, seen from the registers at a return address, the canonical frame address (CFA) is,
 * and where the return address and the caller's frame pointer lie. The caller's stack pointer is the CFA.
 * Whatever does not fit that is UNWIND_OTHER: of code by compilers, next to nothing.
 *
 * Threading: anywhere. No lock where glibc has _dl_find_object (2.35), no allocation.
 */
#ifndef IP_UNWIND_RULES_H
#define IP_UNWIND_RULES_H

#include <stdbool.h>
#include <stdint.h>

#include "arch.h"

/* Of one frame: ip is where its call returns to, sp and fp are what the function that made the call has then. */
struct unwind_registers {
	uint64_t ip, sp, fp;
};

/* The caller of the function that says this, which thereby keeps a frame pointer. */
#define UNWIND_CALLER()                                                                             \
	({                                                                                          \
		const uint64_t *frame_ = __builtin_frame_address(0);                                \
		(struct unwind_registers){ arch_code_address(frame_[1]), ARCH_CALLER_SP(frame_), frame_[0] }; \
	})

enum unwind_kind {
	UNWIND_NONE,  /* no rule */
	UNWIND_SP,    /* CFA = sp + offset */
	UNWIND_FP,    /* CFA = fp + offset */
	UNWIND_SAVED, /* CFA = *(fp + offset): a function that has aligned its stack */
	UNWIND_WALKED = UNWIND_SAVED, /* the last of those that lead to a caller */
	UNWIND_END,   /* the thread's first function: no caller */
	UNWIND_OTHER,
};

/* The caller's frame pointer. */
enum unwind_fp {
	UNWIND_FP_SAME,   /* is this one's */
	UNWIND_FP_ON_CFA, /* lies at CFA + offset */
	UNWIND_FP_ON_FP,  /* lies at this one's + offset */
};

/* Offsets are in words of eight bytes. Plain fields: a walk takes one of these apart for every frame. */
struct unwind_rule {
	int16_t cfa_offset;
	int16_t ra_offset; /* of the return address from the CFA; negative */
	int16_t fp_offset;
	uint8_t kind;      /* enum unwind_kind */
	uint8_t fp_where;  /* enum unwind_fp */
};

/*
 * A loaded object: where it is mapped and what tells it from others that may be mapped there at other
 * times.
 */
struct unwind_object {
	uint64_t start, bytes;
	const uint8_t *header; /* its .eh_frame_hdr */
	uint64_t identity;     /* hash of its place, link map, build id and .eh_frame_hdr */
};

/* The object that holds this address; false if there is none or it says nothing about its frames. */
bool unwind_object_find(uint64_t address, struct unwind_object *object);

/* The rule that holds at pc, an address in a call instruction within the object. Never UNWIND_NONE. */
struct unwind_rule unwind_rule(const struct unwind_object *object, uint64_t pc);

/*
 * True if an unwinder that trusts what it finds can go from this frame to its caller's, and look at the code there: all
 * words that it reads on the way are readable. Also for what has no rule: frames of signals, and larger ones than rules
 * can say. interrupted: ip is where a signal came, not where a call returns to.
 */
bool unwind_can_step(const struct unwind_registers *r, bool interrupted, bool (*readable)(uint64_t address));

/* A word of the thread's stack, which no sanitizer needs to approve of. */
__attribute__((no_sanitize("address", "thread"))) static inline uint64_t unwind_load(uint64_t address)
{
	return *(const volatile uint64_t *)(uintptr_t)address;
}

#endif
