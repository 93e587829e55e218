/* SPDX-License-Identifier: MIT */
/*
 * unwind_cfi: what the call frame information of an object says of the frame at one address: where, seen from
 * its registers, the canonical frame address (CFA) is, and where the caller's registers lie.
 *
 * Threading: anywhere; no lock, no allocation. What is read is mapped as long as the object is.
 */
#ifndef IP_UNWIND_CFI_H
#define IP_UNWIND_CFI_H

#include "unwind_rules.h"

enum cfi_where {
	CFI_UNCHANGED, /* the caller's is this frame's */
	CFI_ON_CFA,    /* stored at CFA + offset */
	CFI_ON_FP,     /* at fp + offset */
	CFI_ON_SP,     /* at sp + offset */
	CFI_UNDEFINED, /* of a return address: there is no caller */
	CFI_ELSEWHERE,
};

struct cfi_place {
	enum cfi_where where;
	int64_t offset;
};

struct cfi_frame {
	enum unwind_kind cfa; /* UNWIND_SP, UNWIND_FP, UNWIND_SAVED or UNWIND_OTHER */
	int64_t cfa_offset;
	struct cfi_place fp, sp, ra;
	bool saved_on_sp; /* cfa UNWIND_OTHER is what is stored at sp + offset */
	bool is_signal;   /* a signal's frame: its address is where the signal came, not where a call returns to */
};

/* False if nothing describes pc, or not in a way that is understood. */
bool cfi_frame_at(const struct unwind_object *object, uint64_t pc, struct cfi_frame *f);

/* What follows the length of an entry of .eh_frame; NULL if it does not lie within the object. */
const uint8_t *cfi_entry(const struct unwind_object *object, const uint8_t *at, uint32_t *bytes);

/* True if this .eh_frame_hdr is the one that every linker writes, whose table is of offsets in four bytes. */
bool cfi_header_is_usual(const uint8_t *header);

#endif
