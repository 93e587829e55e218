/* SPDX-License-Identifier: MIT */
/*
 * Copies onto device memory that the runtime is asked for, as PyTorch asks for those of whole tensors: from the host, or from
 * another place on a device. They tell data from what was computed, and a copy from its original. Copies by kernels (of another
 * type, of strides) are not seen, nor are those that somebody asks the driver for.
 */
#include <cuda_runtime_api.h>

#include "hooks_driver.h"

/* What a program gets from a wrapper when there is no runtime to call. */
#define NO_RUNTIME cudaErrorInitializationError

static void copied(enum ip_fn fn, void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
	bool is_from_host = kind == cudaMemcpyHostToDevice;

	if ((!is_from_host && kind != cudaMemcpyDeviceToDevice) || !bytes || ip_state() != IP_RECORDING)
		return;
	ip_driver_event((struct tfmt_record){ .kind = TFMT_COPY,
					      .address = (uintptr_t)to,
					      .size = bytes,
					      .aux = is_from_host ? 0 : (uintptr_t)from,
					      .function = (uint16_t)fn,
					      .stream = ip_stream_number((CUstream)stream),
					      .device = IP_CURRENT_DEVICE });
}

#define COPY(name, stream, params, args)                                                                    \
	IP_EXPORT cudaError_t CUDARTAPI name params;                                                        \
	IP_EXPORT cudaError_t CUDARTAPI name params                                                         \
	{                                                                                                   \
		__typeof__(&name) real =                                                                    \
			(__typeof__(&name))ip_real_runtime(FN_##name, __builtin_return_address(0));         \
		cudaError_t result = real ? real args : NO_RUNTIME;                                         \
                                                                                                            \
		if (!result)                                                                                \
			copied(FN_##name, to, from, bytes, kind, stream);                                   \
		return result;                                                                              \
	}

COPY(cudaMemcpy, cudaStreamLegacy, (void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind), (to, from, bytes, kind))
COPY(cudaMemcpyAsync, stream, (void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream),
     (to, from, bytes, kind, stream))
