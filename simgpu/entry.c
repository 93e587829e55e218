/* SPDX-License-Identifier: MIT */
/* Driver entry points by name, as cuGetProcAddress documents it. */
#include <stdio.h>
#include <string.h>

#include "simgpu/internal.h"

/* The function that NAME means for a program written for CUDA VERSION, or NULL; *STATUS says why. */
static void *lookup(const char *name, int version, bool per_thread, CUdriverProcAddressQueryResult *status)
{
	const char *symbol = sim_symbol_versioned(name, version);
	char per_thread_name[128];
	void *function = NULL;

	*status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	/* The private tables are not offered. For dlsym the function exists and refuses: NVRTC needs that. */
	if (!strcmp(name, "cuGetExportTable")) {
		sim_private_tables_asked();
		return NULL;
	}
	if (!symbol && sim_symbol_versioned(name, 1 << 30)) {
		*status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
		return NULL;
	}
	if (!symbol)
		symbol = name;
	if (per_thread) {
		snprintf(per_thread_name, sizeof(per_thread_name), "%s_ptsz", symbol);
		function = sim_symbol_address(per_thread_name);
		if (!function) {
			snprintf(per_thread_name, sizeof(per_thread_name), "%s_ptds", symbol);
			function = sim_symbol_address(per_thread_name);
		}
	}
	if (!function)
		function = sim_symbol_address(symbol);
	if (function)
		*status = CU_GET_PROC_ADDRESS_SUCCESS;
	return function;
}

/* What is not there is no error, as NVIDIA's driver has it: only *FUNCTION and *STATUS say so. The older form returns one. */
CUresult cuGetProcAddress_v2(const char *name, void **function, int version, cuuint64_t flags,
			     CUdriverProcAddressQueryResult *status)
{
	const cuuint64_t known =
	    CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
	CUdriverProcAddressQueryResult unused;

	if (!name || !function || flags & ~known)
		return CUDA_ERROR_INVALID_VALUE;
	*function = lookup(name, version, flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM,
			   status ? status : &unused);
	return CUDA_SUCCESS;
}

CUresult cuGetProcAddress(const char *name, void **function, int version, cuuint64_t flags)
{
	CUresult ret = cuGetProcAddress_v2(name, function, version, flags, NULL);

	return !ret && !*function ? CUDA_ERROR_NOT_FOUND : ret;
}
