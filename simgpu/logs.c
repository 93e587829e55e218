/* SPDX-License-Identifier: MIT */
/* The driver's error log: programs may listen to it and read it; nothing is ever written to it here. */
#include <stdlib.h>

#include "simgpu/internal.h"

struct CUlogsCallbackEntry_st {
	CUlogsCallback callback;
	void *data;
};

CUresult cuLogsRegisterCallback(CUlogsCallback callback, void *data, CUlogsCallbackHandle *handle)
{
	if (!callback)
		return CUDA_ERROR_INVALID_VALUE;
	if (handle) {
		*handle = sim_alloc(sizeof(**handle));
		**handle = (struct CUlogsCallbackEntry_st){ callback, data };
	}
	return CUDA_SUCCESS;
}

CUresult cuLogsUnregisterCallback(CUlogsCallbackHandle handle)
{
	free(handle);
	return handle ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuLogsCurrent(CUlogIterator *iterator, unsigned int flags)
{
	if (!iterator || flags)
		return CUDA_ERROR_INVALID_VALUE;
	*iterator = 0;
	return CUDA_SUCCESS;
}

CUresult cuLogsDumpToMemory(CUlogIterator *iterator, char *buffer, size_t *size, unsigned int flags)
{
	(void)iterator;
	if (!buffer || !size || flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (*size)
		*buffer = 0;
	*size = 0;
	return CUDA_SUCCESS;
}
