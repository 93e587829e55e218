/* SPDX-License-Identifier: MIT */
/*
 * Wrappers of the driver's calls for virtual memory: physical handles, address ranges, mappings, multicast
 * objects. A handle's memory counts once, however often it is mapped, until its last reference is gone.
 */
#include "hooks_driver.h"

ALLOC(cuMemAddressReserve, TFMT_SPACE_RESERVED,
      (CUdeviceptr *out, size_t bytes, size_t alignment, CUdeviceptr at, unsigned long long flags),
      (out, bytes, alignment, at, flags), *out, bytes)
FREE(cuMemAddressFree, TFMT_SPACE_RESERVED, (CUdeviceptr address, size_t bytes), (address, bytes), address)
FREE(cuMemRelease, TFMT_SPACE_HANDLE, (CUmemGenericAllocationHandle handle), (handle), handle)

/* Physical memory lies on the device its properties name, not on the current one. */
IP_EXPORT CUresult CUDAAPI cuMemCreate(CUmemGenericAllocationHandle *out, size_t bytes,
				       const CUmemAllocationProp *prop, unsigned long long flags)
{
	struct ip_taken outer = ip_enter();
	__typeof__(&cuMemCreate) real = REAL(cuMemCreate);
	CUresult result = real ? real(out, bytes, prop, flags) : NO_DRIVER;
	bool on_device = prop && prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE;

	ip_reached();
	ip_driver_took(
		(struct tfmt_record){ .kind = TFMT_DRIVER_ALLOC,
				      .flags = on_device ? TFMT_SPACE_HANDLE : TFMT_SPACE_HANDLE_HOST,
				      .function = FN_cuMemCreate,
				      .device = on_device ? (uint8_t)prop->location.id : IP_CURRENT_DEVICE,
				      .address = result ? 0 : *out,
				      .size = bytes },
		(int)result);
	ip_leave(outer);
	return result;
}

static void reference(uint8_t kind, uint16_t function, uint64_t address, uint64_t bytes, uint64_t handle)
{
	ip_driver_event((struct tfmt_record){ .kind = kind,
					      .flags = TFMT_SPACE_HANDLE,
					      .function = function,
					      .device = IP_CURRENT_DEVICE,
					      .address = address,
					      .size = bytes,
					      .aux = handle });
}

WRAP(cuMemRetainAllocationHandle, (CUmemGenericAllocationHandle *out, void *address), (out, address),
     reference(TFMT_HANDLE_RETAIN, FN_cuMemRetainAllocationHandle, *out, 0, 0))
WRAP(cuMemMap,
     (CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
      unsigned long long flags),
     (address, bytes, offset, handle, flags), reference(TFMT_MAP, FN_cuMemMap, address, bytes, handle))

static bool unmaps(CUdeviceptr address, size_t bytes)
{
	return ip_driver_event((struct tfmt_record){ .kind = TFMT_UNMAP,
						     .flags = TFMT_SPACE_HANDLE,
						     .function = FN_cuMemUnmap,
						     .device = IP_CURRENT_DEVICE,
						     .address = address,
						     .size = bytes });
}

IP_EXPORT CUresult CUDAAPI cuMemUnmap(CUdeviceptr address, size_t bytes)
{
	bool recorded = (ip_reached(), unmaps(address, bytes));
	__typeof__(&cuMemUnmap) real = REAL(cuMemUnmap);
	CUresult result = real ? real(address, bytes) : NO_DRIVER;

	if (recorded && result)
		ip_driver_free_failed(FN_cuMemUnmap, (int)result, TFMT_SPACE_HANDLE, address);
	return result;
}

WRAP(cuMemExportToShareableHandle,
     (void *out, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
      unsigned long long flags),
     (out, handle, type, flags), ip_driver_exported(FN_cuMemExportToShareableHandle, handle, 0))
WRAP(cuMemGetHandleForAddressRange,
     (void *out, CUdeviceptr address, size_t bytes, CUmemRangeHandleType type, unsigned long long flags),
     (out, address, bytes, type, flags), ip_driver_exported(FN_cuMemGetHandleForAddressRange, address, bytes))

/* The driver tells no size; the owner pays for the memory. */
ALLOC(cuMemImportFromShareableHandle, TFMT_SPACE_HANDLE_IMPORTED,
      (CUmemGenericAllocationHandle *out, void *handle, CUmemAllocationHandleType type), (out, handle, type),
      *out, 0)

/* ---- mappings that are no range of addresses ------------------------------------------------------- */

#define ONE_TILE 1 /* the size of such a mapping: bytes are not told */

/* A number for what a thing shows at a place, the same each time, which no address of memory can be. */
static uint64_t tile(uint64_t thing, const uint64_t place[static 4])
{
	uint64_t hash = thing;

	for (int i = 0; i < 4; i++) {
		hash = (hash ^ place[i]) * 0xff51afd7ed558ccdull;
		hash ^= hash >> 29;
	}
	return (hash & (TFMT_TILE_ADDRESS - 1)) | TFMT_TILE_ADDRESS;
}

static void map_tile(uint16_t function, const CUarrayMapInfo *m)
{
	bool level = m->subresourceType == CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_SPARSE_LEVEL;
	const uint64_t of_level[4] = {
		(uint64_t)m->subresource.sparseLevel.level << 32 | m->subresource.sparseLevel.layer,
		m->subresource.sparseLevel.offsetX,
		m->subresource.sparseLevel.offsetY,
		m->subresource.sparseLevel.offsetZ,
	};
	const uint64_t of_tail[4] = { UINT64_MAX, m->subresource.miptail.layer, m->subresource.miptail.offset,
				      0 };
	uint64_t address = tile((uintptr_t)m->resource.array, level ? of_level : of_tail);

	if (m->memOperationType == CU_MEM_OPERATION_TYPE_MAP)
		reference(TFMT_MAP, function, address, ONE_TILE, m->memHandle.memHandle);
	else
		reference(TFMT_UNMAP, function, address, ONE_TILE, 0);
}

static void map_tiles(uint16_t function, const CUarrayMapInfo *list, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		map_tile(function, &list[i]);
}

WRAP(cuMemMapArrayAsync, (CUarrayMapInfo *list, unsigned count, CUstream stream), (list, count, stream),
     map_tiles(FN_cuMemMapArrayAsync, list, count))
WRAP(cuMemMapArrayAsync_ptsz, (CUarrayMapInfo *list, unsigned count, CUstream stream), (list, count, stream),
     map_tiles(FN_cuMemMapArrayAsync_ptsz, list, count))

/* ---- multicast: an object that shows memory of several devices -------------------------------------- */

ALLOC(cuMulticastCreate, TFMT_SPACE_MULTICAST,
      (CUmemGenericAllocationHandle *out, const CUmulticastObjectProp *prop), (out, prop), *out,
      prop ? prop->size : 0)
WRAP(cuMulticastAddDevice, (CUmemGenericAllocationHandle object, CUdevice device), (object, device),
     ip_driver_event((struct tfmt_record){ .kind = TFMT_OBJECT_SET,
					   .flags = TFMT_OBJECT_MULTICAST,
					   .function = FN_cuMulticastAddDevice,
					   .device = (uint8_t)device,
					   .address = object }))

/* Each device binds memory of its own at an offset, and unbinds it by its number. */
static uint64_t bound(CUmemGenericAllocationHandle object, unsigned device, size_t offset)
{
	return tile(object, (const uint64_t[4]){ UINT64_MAX, device, offset, 1 });
}

/* The device of a physical handle: of the current one if the driver does not tell. */
static unsigned device_of(CUmemGenericAllocationHandle handle)
{
	__typeof__(&cuMemGetAllocationPropertiesFromHandle) get = ASK(cuMemGetAllocationPropertiesFromHandle);
	CUmemAllocationProp prop;

	if (!get || get(&prop, handle) || prop.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return ip_driver_device();
	return (unsigned)prop.location.id;
}

static void bind_memory(CUmemGenericAllocationHandle object, size_t offset,
			CUmemGenericAllocationHandle memory)
{
	int saved = errno;

	reference(TFMT_MAP, FN_cuMulticastBindMem, bound(object, device_of(memory), offset), ONE_TILE,
		  memory);
	errno = saved;
}

/* The handle that the address belongs to is not told: recorded as the mapping of an unknown one. */
static void bind_address(CUmemGenericAllocationHandle object, size_t offset)
{
	int saved = errno;

	reference(TFMT_MAP, FN_cuMulticastBindAddr, bound(object, ip_driver_device(), offset), ONE_TILE, 0);
	errno = saved;
}

WRAP(cuMulticastBindMem,
     (CUmemGenericAllocationHandle object, size_t offset, CUmemGenericAllocationHandle memory,
      size_t memory_offset, size_t bytes, unsigned long long flags),
     (object, offset, memory, memory_offset, bytes, flags), bind_memory(object, offset, memory))
WRAP(cuMulticastBindAddr,
     (CUmemGenericAllocationHandle object, size_t offset, CUdeviceptr address, size_t bytes,
      unsigned long long flags),
     (object, offset, address, bytes, flags), bind_address(object, offset))
WRAP(cuMulticastUnbind, (CUmemGenericAllocationHandle object, CUdevice device, size_t offset, size_t bytes),
     (object, device, offset, bytes),
     reference(TFMT_UNMAP, FN_cuMulticastUnbind, bound(object, (unsigned)device, offset), ONE_TILE, 0))
