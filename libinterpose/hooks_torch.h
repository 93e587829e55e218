/* SPDX-License-Identifier: MIT */
/* Functions that PyTorch's libraries export: the real ones, which our wrappers call, and others that we call. */
#ifndef IP_HOOKS_TORCH_H
#define IP_HOOKS_TORCH_H

#include "interpose.h"

/* Looked up at the first call, by torch itself: its libraries are loaded then. */
struct real_function {
	const char *library, *symbol;
	void *_Atomic address; /* NULL: not looked up yet, or absent */
	_Atomic bool asked;
};

void *torch_function_resolve(struct real_function *f, const void *wrapper);

/* The function that `wrapper` stands before, or without a wrapper (NULL) any; NULL if there is none. */
static inline void *torch_function(struct real_function *f, const void *wrapper)
{
	if (__builtin_expect(!atomic_load_explicit(&f->asked, memory_order_acquire), 0))
		return torch_function_resolve(f, wrapper);
	return atomic_load_explicit(&f->address, memory_order_relaxed);
}

#endif
