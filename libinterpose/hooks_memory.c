/* SPDX-License-Identifier: MIT */
/* Wrappers of the driver's calls for linear, managed, pinned and registered memory. */
#include "hooks_driver.h"

ALLOC(cuMemAlloc_v2, TFMT_SPACE_DEVICE, (CUdeviceptr *out, size_t bytes), (out, bytes), *out, bytes)
ALLOC(cuMemAlloc, TFMT_SPACE_DEVICE, (CUdeviceptr_v1 *out, unsigned bytes), (out, bytes), *out, bytes)
ALLOC(cuMemAllocPitch_v2, TFMT_SPACE_DEVICE,
      (CUdeviceptr *out, size_t *pitch, size_t width, size_t height, unsigned element),
      (out, pitch, width, height, element), *out, result ? width *height : *pitch *height)
ALLOC(cuMemAllocPitch, TFMT_SPACE_DEVICE,
      (CUdeviceptr_v1 *out, unsigned *pitch, unsigned width, unsigned height, unsigned element),
      (out, pitch, width, height, element), *out, (uint64_t)(result ? width : *pitch) * height)
ALLOC(cuMemAllocManaged, TFMT_SPACE_MANAGED, (CUdeviceptr *out, size_t bytes, unsigned flags),
      (out, bytes, flags), *out, bytes)
FREE(cuMemFree_v2, TFMT_SPACE_DEVICE, (CUdeviceptr address), (address), address)
FREE(cuMemFree, TFMT_SPACE_DEVICE, (CUdeviceptr_v1 address), (address), address)

ALLOC(cuMemHostAlloc, TFMT_SPACE_PINNED, (void **out, size_t bytes, unsigned flags), (out, bytes, flags),
      (uintptr_t)*out, bytes)
ALLOC(cuMemAllocHost_v2, TFMT_SPACE_PINNED, (void **out, size_t bytes), (out, bytes), (uintptr_t)*out, bytes)
ALLOC(cuMemAllocHost, TFMT_SPACE_PINNED, (void **out, unsigned bytes), (out, bytes), (uintptr_t)*out, bytes)
FREE(cuMemFreeHost, TFMT_SPACE_PINNED, (void *address), (address), (uintptr_t)address)
ALLOC(cuMemHostRegister_v2, TFMT_SPACE_REGISTERED, (void *address, size_t bytes, unsigned flags),
      (address, bytes, flags), (uintptr_t)address, bytes)
ALLOC(cuMemHostRegister, TFMT_SPACE_REGISTERED, (void *address, size_t bytes, unsigned flags),
      (address, bytes, flags), (uintptr_t)address, bytes)
FREE(cuMemHostUnregister, TFMT_SPACE_REGISTERED, (void *address), (address), (uintptr_t)address)
