/* SPDX-License-Identifier: MIT */
/* Owners are numbers. Those below have names here; the rules (owner_rules.h) may bring others, which follow them. */
#ifndef VT_OWNER_NAMES_H
#define VT_OWNER_NAMES_H

#include <stdbool.h>

enum owner {
	OWNER_UNKNOWN, /* no native stack */
	OWNER_PROGRAM, /* the program itself, or a library that no rule names */
	OWNER_TORCH,
	OWNER_NCCL,
	OWNER_CUBLAS,
	OWNER_CUDNN,
	OWNER_CUFFT,
	OWNER_CUSOLVER,
	OWNER_CUSPARSE,
	OWNER_CURAND,
	OWNER_NVSHMEM,
	OWNER_TRITON,
	OWNER_CONTEXT, /* modelled only: what the driver takes for itself, and for loaded code */
	OWNER_CODE,
	OWNER_OTHERS,    /* the first that rules may bring */
	NR_OWNERS = 250, /* room for all of them */
};
extern const char *owner_names[NR_OWNERS];  /* for programs: "nccl"; NULL = there is none */
extern const char *owner_titles[NR_OWNERS]; /* for people: "NCCL" */

/*
 * The owner that a modelled allocation names, with what may follow after a comma; OWNER_UNKNOWN if it is none of the
 * above.
 */
enum owner owner_named(const char *name);

/* Is it the driver itself? Its memory is in no ledger: it is context and code, on a real device unseen. */
static inline bool owner_is_driver(enum owner owner)
{
	return owner == OWNER_CONTEXT || owner == OWNER_CODE;
}

#endif
