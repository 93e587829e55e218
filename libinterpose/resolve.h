/* SPDX-License-Identifier: MIT */
/*
 * Which real function a wrapper forwards to: that of another interposer which the program began with, after us;
 * else the library's own. Found without the loader's functions (objects.h) and remembered; what lies in a library
 * that the program unloads is forgotten (ip_forget_unloaded). How callers that look functions up by name get the
 * wrapper is in lookup.h.
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

/* The names of NVIDIA's objects begin so, whatever version follows. */
#define IP_DRIVER_OBJECT "libcuda.so"
#define IP_RUNTIME_OBJECT "libcudart"

/* The real driver function; NULL when no driver is in the process, or one too old for it. Cached. */
void *ip_real_driver(enum ip_fn fn);

/*
 * A lookup by name has found a driver function: what the wrapper forwards to from now on, unless it has been
 * reached before. Returns what it forwards to.
 */
void *ip_remember_driver(enum ip_fn fn, void *found);

/*
 * The CUresult of a call of a driver function that does not exist: CUDA_ERROR_SHARED_OBJECT_INIT_FAILED without
 * a driver, CUDA_ERROR_NOT_FOUND (documented for "driver function names") when it is too old.
 */
int ip_no_driver(void);

/* Changes when a driver has left the process: function pointers into it that were kept are to be looked up again. */
uint32_t ip_driver_epoch(void);

/* After an object was unloaded: forget the functions that went with it. */
void ip_forget_unloaded(void);

/*
 * The real runtime function for a caller at this return address: that of another interposer in the global scope,
 * else of the libcudart that the caller's own library was linked with (two of them can be in one process, each
 * with its own error state), else of any. NULL when there is none. Cached per call site.
 */
void *ip_real_runtime(enum ip_fn fn, const void *caller);

/*
 * What a call from one place goes on to, remembered until either end is unloaded. `what` tells functions apart: those
 * of hooks.def by their number, others by numbers from FN_NR on. `find` is asked when it is not known.
 */
void *ip_real_at(unsigned what, const void *caller, void *(*find)(unsigned what, const void *caller));

/* A driver function that is not hooked, by its exported name; NULL if absent. */
void *ip_driver_symbol(const char *name);

/*
 * A symbol of a torch library: the next definition in the global scope, else that of the loaded `library`, else any,
 * for torch may be linked into a library of another name.
 */
void *ip_real_torch(const char *library, const char *symbol, const void *wrapper);

/*
 * The simulated device's list of calls that it does not support, and where it takes a listener; NULL on a real one.
 * Looked up when recording is prepared (ip_resolve_prepare), so that the drain and hooks need not.
 */
void *ip_simulated_report(void);
void *ip_simulated_listen(void);
void ip_resolve_prepare(void);

/* The next definition of a libc function, by the loader: for constructors. */
void *ip_real_libc(const char *symbol);

#endif
