/* SPDX-License-Identifier: MIT */
/*
 * unwind_rules: how to get from a function to its caller, out of the .eh_frame of the object it lies in.
 *
 * A *rule* is a number of UNWIND_RULE_BITS bits. It says where, seen from a return address's registers, the
 * canonical frame address (CFA) is, and where the caller's rbp. The caller's rsp is the CFA, the next return
 * address lies at CFA - 8. Whatever does not fit that is UNWIND_OTHER: of code by compilers, next to nothing.
 *
 * Threading: anywhere. No lock where glibc has _dl_find_object (2.35), no allocation. x86-64 only.
 */
#ifndef IP_UNWIND_RULES_H
#define IP_UNWIND_RULES_H

#include <stdbool.h>
#include <stdint.h>

#define UNWIND_RULE_BITS 27

/* The lowest three bits of a rule. */
enum unwind_kind {
	UNWIND_NONE,  /* no rule: the number 0 */
	UNWIND_RSP,   /* CFA = rsp + offset */
	UNWIND_RBP,   /* CFA = rbp + offset */
	UNWIND_SAVED, /* CFA = *(rbp + offset): a function that has aligned its stack */
	UNWIND_END,   /* the thread's first function: no caller */
	UNWIND_OTHER,
};

/* A loaded object: where it is mapped and what tells it from others that may be mapped there at other times. */
struct unwind_object {
	uint64_t start, bytes;
	const uint8_t *header; /* its .eh_frame_hdr */
	uint64_t identity;     /* hash of its place, link map, build id and .eh_frame_hdr */
};

/* The object that holds this address; false if there is none or it says nothing about its frames. */
bool unwind_object_find(uint64_t address, struct unwind_object *object);

/* The rule that holds at pc, an address in a call instruction within the object. Never UNWIND_NONE. */
uint32_t unwind_rule(const struct unwind_object *object, uint64_t pc);

static inline enum unwind_kind unwind_rule_kind(uint32_t rule)
{
	return (enum unwind_kind)(rule & 7);
}

/* Bytes from rsp or rbp. */
static inline int64_t unwind_rule_offset(uint32_t rule)
{
	return (int64_t)((int32_t)(rule << (32 - UNWIND_RULE_BITS)) >> 15) * 8;
}

/* The caller's rbp is in memory: at unwind_rule_rbp_offset() from the CFA or, if ..._on_rbp(), from rbp. */
static inline bool unwind_rule_rbp_saved(uint32_t rule)
{
	return rule >> 3 & 1;
}

static inline bool unwind_rule_rbp_on_rbp(uint32_t rule)
{
	return rule >> 4 & 1;
}

static inline int64_t unwind_rule_rbp_offset(uint32_t rule)
{
	return (int64_t)((int32_t)(rule << 22) >> 27) * 8;
}

#endif
