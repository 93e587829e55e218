/* SPDX-License-Identifier: MIT */
/*
 * Which real function a wrapper forwards to, and how callers that look functions up by name get the wrapper.
 *
 * libcudart, NCCL, cuBLAS and PyTorch reach the driver through dlsym and cuGetProcAddress: both are wrapped,
 * call the real lookup first, and replace only what it found, matched by exact name and ABI version.
 */
#ifndef IP_RESOLVE_H
#define IP_RESOLVE_H

#include <stdint.h>

enum ip_fn {
	FN_NONE,
#define DRIVER(symbol, base, version, stream, records) FN_##symbol,
#define RUNTIME(symbol, records) FN_##symbol,
#include "hooks.def"
#undef DRIVER
#undef RUNTIME
	FN_NR
};

enum ip_stream_variant { STREAM_ANY, STREAM_LEGACY, STREAM_PER_THREAD, STREAM_RUNTIME /* not a driver function */ };

struct ip_hook {
	const char *name; /* the exported symbol */
	const char *base; /* driver: the name cuGetProcAddress is asked for */
	int version;
	enum ip_stream_variant stream;
	void *wrapper;
};

extern const struct ip_hook ip_hooks[FN_NR]; /* [FN_NONE] is empty */

/* The real driver function, or NULL when no driver is in the process. Cached. */
void *ip_real_driver(enum ip_fn fn);

/*
 * The real runtime function for a caller at this return address: that of another interposer in the global scope,
 * else of the libcudart that the caller's own library was linked with (two of them can be in one process, each
 * with its own error state), else of any. NULL when there is none. Cached per call site.
 */
void *ip_real_runtime(enum ip_fn fn, const void *caller);

/* A driver function that is not hooked, by its exported name; NULL if absent. */
void *ip_driver_symbol(const char *name);

/*
 * Replace what a lookup of `base` at `version` found by our wrapper of the same ABI; `found` itself when it is
 * none of ours. per_thread: the lookup asked for the per-thread default stream variant.
 */
void *ip_wrap(const char *base, int version, int per_thread, void *found);

/* A symbol of a torch library: the next definition in the global scope, else that of the loaded `library`. */
void *ip_real_torch(const char *library, const char *symbol, const void *wrapper);

/*
 * The simulated device's list of calls that it does not support, and where it takes a listener; NULL on a real one.
 * Looked up when recording is prepared (ip_resolve_prepare), so that the drain and hooks need not.
 */
void *ip_simulated_report(void);
void *ip_simulated_listen(void);
void ip_resolve_prepare(void);

/* The next definition of a libc function. */
void *ip_real_libc(const char *symbol);

#endif
