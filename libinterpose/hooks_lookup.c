/* SPDX-License-Identifier: MIT */
/*
 * The doors through which libraries ask for driver functions, and dlclose, which takes functions away. The
 * caller gets the wrapper of exactly what the driver would have given it (lookup.h).
 */
#define __CUDA_API_VERSION_INTERNAL 1
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include "interpose.h"
#include "lookup.h"
#include "objects.h"
#include "resolve.h"
#include "unwind.h"
#include "unwind_libunwind.h"

/* Flags of lookups: the driver's and the runtime's have the same bits. */
#define LEGACY_STREAM 1
#define PER_THREAD_STREAM 2

static void wrap_found(const char *symbol, void **pfn, int version, bool per_thread, int error, const void *caller)
{
	int saved = errno;

	if (!error && pfn && *pfn && symbol)
		*pfn = ip_wrap(symbol, version, per_thread, *pfn, caller);
	errno = saved;
}

IP_EXPORT CUresult CUDAAPI cuGetProcAddress_v2(const char *symbol, void **pfn, int version, cuuint64_t flags,
					       CUdriverProcAddressQueryResult *status)
{
	__typeof__(&cuGetProcAddress_v2) real =
		(__typeof__(&cuGetProcAddress_v2))ip_real_driver(FN_cuGetProcAddress_v2);
	CUresult result = real ? real(symbol, pfn, version, flags, status) : (CUresult)ip_no_driver();

	wrap_found(symbol, pfn, version, flags & PER_THREAD_STREAM, (int)result, __builtin_return_address(0));
	return result;
}

/* The four-argument form of CUDA 11.3 to 11.8. */
IP_EXPORT CUresult CUDAAPI cuGetProcAddress(const char *symbol, void **pfn, int version, cuuint64_t flags);
IP_EXPORT CUresult CUDAAPI cuGetProcAddress(const char *symbol, void **pfn, int version, cuuint64_t flags)
{
	__typeof__(&cuGetProcAddress) real = (__typeof__(&cuGetProcAddress))ip_real_driver(FN_cuGetProcAddress);
	CUresult result = real ? real(symbol, pfn, version, flags) : (CUresult)ip_no_driver();

	wrap_found(symbol, pfn, version, flags & PER_THREAD_STREAM, (int)result, __builtin_return_address(0));
	return result;
}

/*
 * The runtime's doors lead through the driver's, whose answer is wrapped already unless the runtime was loaded
 * out of our sight. CUDA 11's takes three arguments and ignores the fourth.
 */
#define ENTRY_POINT(name, params, args, version, per_thread)                                                \
	IP_EXPORT cudaError_t CUDARTAPI name params;                                                        \
	IP_EXPORT cudaError_t CUDARTAPI name params                                                         \
	{                                                                                                   \
		const void *caller = __builtin_return_address(0);                                           \
		cudaError_t(CUDARTAPI *real) params =                                                       \
			(cudaError_t(CUDARTAPI *) params)ip_real_runtime(FN_##name, caller);                \
		cudaError_t result = real ? real args : cudaErrorInitializationError;                       \
                                                                                                            \
		wrap_found(symbol, pfn, version, per_thread, (int)result, caller);                          \
		return result;                                                                              \
	}

ENTRY_POINT(cudaGetDriverEntryPoint,
	    (const char *symbol, void **pfn, unsigned long long flags, enum cudaDriverEntryPointQueryResult *status),
	    (symbol, pfn, flags, status), IP_ANY_VERSION, flags & PER_THREAD_STREAM)
ENTRY_POINT(cudaGetDriverEntryPoint_ptsz,
	    (const char *symbol, void **pfn, unsigned long long flags, enum cudaDriverEntryPointQueryResult *status),
	    (symbol, pfn, flags, status), IP_ANY_VERSION, !(flags & LEGACY_STREAM))
ENTRY_POINT(cudaGetDriverEntryPointByVersion,
	    (const char *symbol, void **pfn, unsigned version, unsigned long long flags,
	     enum cudaDriverEntryPointQueryResult *status),
	    (symbol, pfn, version, flags, status), (int)version, flags & PER_THREAD_STREAM)
ENTRY_POINT(cudaGetDriverEntryPointByVersion_ptsz,
	    (const char *symbol, void **pfn, unsigned version, unsigned long long flags,
	     enum cudaDriverEntryPointQueryResult *status),
	    (symbol, pfn, version, flags, status), (int)version, !(flags & LEGACY_STREAM))

/* A library that the program unloads takes functions with it, and another may come to lie in its place. */
IP_EXPORT int dlclose(void *handle)
{
	static int (*_Atomic real)(void *);
	uint64_t unloaded = ip_objects_unloaded();
	int result, saved;

	if (!atomic_load_explicit(&real, memory_order_relaxed))
		atomic_store(&real, (int (*)(void *))ip_symbol_libc("dlclose"));
	ip_dlerror_drop();
	unwind_objects_changed();
	result = real(handle);
	saved = errno;
	if (ip_objects_unloaded() != unloaded) {
		ip_forget_unloaded();
		unwind_objects_changed();
		libunwind_objects_changed();
		atomic_store(&ip_recorder->library_unloaded, true);
	}
	errno = saved;
	return result;
}
