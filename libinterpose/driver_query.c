/* SPDX-License-Identifier: MIT */
/*
 * What the recorder asks the driver itself: which device is current, what it is, what is free on it.
 * Real functions only, on the program's own thread, never from the drain (whose descriptors are not the
 * driver's). cuCtxGetDevice reads the thread's context and nothing else.
 */
#define __CUDA_API_VERSION_INTERNAL 1
#include <cuda.h>
#include <stdio.h>
#include <string.h>

#include "env.h"
#include "info.h"
#include "interpose.h"
#include "resolve.h"

/* Looked up once; `asked` is set last. A process has one driver. */
static struct {
	_Atomic bool asked;
	CUresult (*ctx_get_device)(CUdevice *);
	CUresult (*mem_get_info)(size_t *, size_t *);
	CUresult (*device_get)(CUdevice *, int);
	CUresult (*get_name)(char *, int, CUdevice);
	CUresult (*total_mem)(size_t *, CUdevice);
	CUresult (*get_uuid)(CUuuid *, CUdevice);
	CUresult (*get_pci)(char *, int, CUdevice);
} driver;

static void look_up(void)
{
	if (atomic_load_explicit(&driver.asked, memory_order_acquire))
		return;
	driver.ctx_get_device = (CUresult(*)(CUdevice *))ip_driver_symbol("cuCtxGetDevice");
	driver.mem_get_info = (CUresult(*)(size_t *, size_t *))ip_driver_symbol("cuMemGetInfo_v2");
	driver.device_get = (CUresult(*)(CUdevice *, int))ip_driver_symbol("cuDeviceGet");
	driver.get_name = (CUresult(*)(char *, int, CUdevice))ip_driver_symbol("cuDeviceGetName");
	driver.total_mem = (CUresult(*)(size_t *, CUdevice))ip_driver_symbol("cuDeviceTotalMem_v2");
	driver.get_uuid = (CUresult(*)(CUuuid *, CUdevice))ip_driver_symbol("cuDeviceGetUuid_v2");
	if (!driver.get_uuid)
		driver.get_uuid = (CUresult(*)(CUuuid *, CUdevice))ip_driver_symbol("cuDeviceGetUuid");
	driver.get_pci = (CUresult(*)(char *, int, CUdevice))ip_driver_symbol("cuDeviceGetPCIBusId");
	atomic_store_explicit(&driver.asked, driver.ctx_get_device != NULL, memory_order_release);
}

unsigned ip_driver_device(void)
{
	CUdevice device = 0;

	look_up();
	if (!driver.ctx_get_device || driver.ctx_get_device(&device) || (unsigned)device >= TFMT_NR_DEVICES)
		return TFMT_DEVICE_NONE;
	return (unsigned)device;
}

/* "GPU-xxxxxxxx-xxxx-...", as nvidia-smi writes it. */
static void uuid_text(const CUuuid *uuid, char *out, size_t size)
{
	const unsigned char *b = (const unsigned char *)uuid->bytes;

	snprintf(out, size, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1], b[2],
		 b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}

/* Ask with t->busy set: whatever the driver calls is not the program's doing. */
static void define(unsigned ordinal)
{
	char name[128] = "", pci[32] = "", uuid[48] = "";
	uint8_t payload[320], *p = payload;
	size_t capacity = 0;
	CUdevice device;
	CUuuid id;

	if (!driver.device_get || driver.device_get(&device, (int)ordinal))
		return;
	if (driver.get_name)
		driver.get_name(name, sizeof(name), device);
	if (driver.total_mem)
		driver.total_mem(&capacity, device);
	if (driver.get_uuid && !driver.get_uuid(&id, device))
		uuid_text(&id, uuid, sizeof(uuid));
	if (driver.get_pci)
		driver.get_pci(pci, sizeof(pci), device);
	p = tfmt_put_varint(p, info_is_capacity_unlimited() ? TFMT_CAPACITY_UNLIMITED : capacity);
	p = tfmt_put_string(p, name, strlen(name));
	p = tfmt_put_string(p, uuid, strlen(uuid));
	p = tfmt_put_string(p, pci, strlen(pci));
	p = tfmt_put_varint(p, 0);
	p = tfmt_put_varint(p, 0);
	ip_define(TFMT_DEF_DEVICE, ordinal, payload, (size_t)(p - payload));
}

void ip_driver_define_device(struct ip_thread *t, unsigned device)
{
	uint32_t unknown = 0;

	if (atomic_load_explicit(&ip_recorder->device_known[device], memory_order_relaxed) ||
	    !atomic_compare_exchange_strong(&ip_recorder->device_known[device], &unknown, 1))
		return;
	t->busy = true;
	look_up();
	define(device);
	t->busy = false;
}

/* Once a device, after its first allocation: what the context and other processes hold shows in the total. */
void ip_driver_sample(struct ip_thread *t, unsigned device)
{
	struct tfmt_record ev = { .kind = TFMT_MEMORY_INFO, .device = (uint8_t)device };
	uint32_t known = 1;
	size_t free_bytes, total_bytes;

	if (!atomic_compare_exchange_strong(&ip_recorder->device_known[device], &known, 2))
		return;
	if (!driver.mem_get_info || ip_driver_device() != device)
		return;
	t->busy = true;
	if (!driver.mem_get_info(&free_bytes, &total_bytes)) {
		ev.size = free_bytes;
		ev.aux = total_bytes;
		ip_record(t, &ev);
	}
	t->busy = false;
}
