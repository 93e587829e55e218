/* SPDX-License-Identifier: MIT */
/*
 * Wrappers of the driver's calls for memory of other processes and of other interfaces: it shows here, and
 * its owner pays for it.
 */
#include "hooks_driver.h"

uint64_t ip_range_bytes(CUdeviceptr address)
{
	int saved = errno;
	__typeof__(&cuMemGetAddressRange_v2) get = ASK(cuMemGetAddressRange_v2);
	CUdeviceptr base;
	size_t bytes = 0;

	if (!get || get(&base, &bytes, address))
		bytes = 0;
	errno = saved;
	return bytes;
}

WRAP(cuIpcGetMemHandle, (CUipcMemHandle *out, CUdeviceptr address), (out, address),
     ip_driver_exported(FN_cuIpcGetMemHandle, address, 0))
ALLOC(cuIpcOpenMemHandle_v2, TFMT_SPACE_IPC, (CUdeviceptr *out, CUipcMemHandle handle, unsigned flags),
      (out, handle, flags), *out, result ? 0 : ip_range_bytes(*out))
ALLOC(cuIpcOpenMemHandle, TFMT_SPACE_IPC, (CUdeviceptr *out, CUipcMemHandle handle, unsigned flags),
      (out, handle, flags), *out, result ? 0 : ip_range_bytes(*out))
FREE(cuIpcCloseMemHandle, TFMT_SPACE_IPC, (CUdeviceptr address), (address), address)

/* ---- external memory: of a graphics interface, mostly ---------------------------------------------- */

WRAP(cuImportExternalMemory, (CUexternalMemory *out, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *d), (out, d),
     ip_driver_born((struct tfmt_record){ .kind = TFMT_OBJECT_NEW,
					  .flags = TFMT_OBJECT_EXTERNAL,
					  .function = FN_cuImportExternalMemory,
					  .device = IP_CURRENT_DEVICE,
					  .address = (uintptr_t)*out,
					  .size = d->size }))
WRAP(cuDestroyExternalMemory, (CUexternalMemory memory), (memory),
     ip_driver_gone(FN_cuDestroyExternalMemory, TFMT_OBJECT_EXTERNAL, (uintptr_t)memory))
ALLOC(cuExternalMemoryGetMappedBuffer, TFMT_SPACE_IPC,
      (CUdeviceptr *out, CUexternalMemory memory, const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *d),
      (out, memory, d), *out, d ? d->size : 0)
/* An array without memory of its own. */
ALLOC(cuExternalMemoryGetMappedMipmappedArray, TFMT_SPACE_ARRAY,
      (CUmipmappedArray *out, CUexternalMemory memory, const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *d),
      (out, memory, d), (uintptr_t)*out, 0)
