/* SPDX-License-Identifier: MIT */
/*
 * Who took memory from the driver: the library that made the call, by the file names on its native stack.
 */
#ifndef VT_OWNER_H
#define VT_OWNER_H

#include "analyzer/mapping.h"

enum owner {
	OWNER_UNKNOWN, /* no native stack */
	OWNER_PROGRAM, /* the program itself or a library without a name of its own here */
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
	NR_OWNERS
};
extern const char *const owner_names[NR_OWNERS];

struct owner_verdict {
	enum owner owner;
	bool torch_allocator; /* called by PyTorch's own allocator (libc10_cuda): counts in what it has
				 reserved */
};

/* Verdicts by native stack id, found once each. Zero before first use. */
struct owner_cache {
	struct owner_verdict *verdict;
	bool *known;
	uint32_t room;
};
void owner_cache_release(struct owner_cache *c);

/* Judge a native stack (leaf id) of the trace behind `m`. */
struct owner_verdict owner_of_stack(struct owner_cache *c, struct mapping *m, uint32_t native_stack);

/* Is this file part of the CUDA layer itself (driver, runtime, their simulation, the recorder)? */
bool owner_is_cuda_layer(const char *path);

/* Is it the C library, which starts programs and threads? */
bool owner_is_libc(const char *path);

#endif
