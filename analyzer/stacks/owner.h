/* SPDX-License-Identifier: MIT */
/*
 * Who took memory from the driver: the library that made the call, by the files on its stack (owner_rules.h); of
 * memory that a simulated device models, the owner that it names (owner_names.h).
 */
#ifndef VT_OWNER_H
#define VT_OWNER_H

#include "analyzer/stacks/mapping.h"
#include "analyzer/stacks/owner_names.h"

struct owner_answer {
	enum owner owner;
	bool torch_allocator; /* called by PyTorch's own allocator (libc10_cuda): counts in what it has
				 reserved */
};

struct symbols;

/* What is known of a stack by its id: an answer, found once. */
struct owner_answers {
	struct owner_answer *answer;
	bool *known;
	uint32_t room;
};

/* Answers about the stacks of one trace. Zero before first use; `symbols` serves rules that ask for functions. */
struct owner_cache {
	struct owner_answers native, python;
	struct symbols *symbols;
};
void owner_cache_release(struct owner_cache *c);

/*
 * Judge a call of the trace of `m` by its native stack (leaf id); where that only leads into the interpreter, by
 * its Python stack.
 */
struct owner_answer owner_of_call(struct owner_cache *c, struct mapping *m, uint32_t native_stack,
				   uint32_t python_stack);

/* Is this file part of the CUDA layer itself (driver, runtime, their simulation, the recorder)? */
bool owner_is_cuda_layer(const char *path);

/* Is it the C library, which starts programs and threads? */
bool owner_is_libc(const char *path);

#endif
