/* SPDX-License-Identifier: MIT */
/*
 * What the recorder asks the driver itself: which device is current, and what it is.
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
#include "nvml_query.h"
#include "resolve.h"

/* Looked up once in a driver's life; `asked` is set last, to its epoch and 1. A process has one driver at a time. */
static struct {
	_Atomic uint32_t asked;
	CUresult (*ctx_get_device)(CUdevice *);
	CUresult (*device_get)(CUdevice *, int);
	CUresult (*get_name)(char *, int, CUdevice);
	CUresult (*total_mem)(size_t *, CUdevice);
	CUresult (*get_uuid)(CUuuid *, CUdevice);
	CUresult (*get_pci)(char *, int, CUdevice);
} driver;

static void look_up(void)
{
	uint32_t epoch = ip_driver_epoch() + 1;

	if (atomic_load_explicit(&driver.asked, memory_order_acquire) == epoch)
		return;
	driver.ctx_get_device = (CUresult(*)(CUdevice *))ip_driver_symbol("cuCtxGetDevice");
	driver.device_get = (CUresult(*)(CUdevice *, int))ip_driver_symbol("cuDeviceGet");
	driver.get_name = (CUresult(*)(char *, int, CUdevice))ip_driver_symbol("cuDeviceGetName");
	driver.total_mem = (CUresult(*)(size_t *, CUdevice))ip_driver_symbol("cuDeviceTotalMem_v2");
	driver.get_uuid = (CUresult(*)(CUuuid *, CUdevice))ip_driver_symbol("cuDeviceGetUuid_v2");
	if (!driver.get_uuid)
		driver.get_uuid = (CUresult(*)(CUuuid *, CUdevice))ip_driver_symbol("cuDeviceGetUuid");
	driver.get_pci = (CUresult(*)(char *, int, CUdevice))ip_driver_symbol("cuDeviceGetPCIBusId");
	atomic_store_explicit(&driver.asked, epoch, memory_order_release);
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

	snprintf(out, size, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1],
		 b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}

/*
 * False if there was no room for it. Ask with t->busy set: whatever the driver calls is not the program's
 * doing.
 */
static bool define(unsigned ordinal)
{
	char name[128] = "", pci[32] = "", uuid[48] = "";
	uint8_t payload[320], *p = payload;
	struct ip_nvml_identity nvml;
	size_t capacity = 0;
	CUdevice device;
	CUuuid id;

	if (!driver.device_get || driver.device_get(&device, (int)ordinal))
		return true;
	if (driver.get_name)
		driver.get_name(name, sizeof(name), device);
	if (driver.total_mem)
		driver.total_mem(&capacity, device);
	if (driver.get_uuid && !driver.get_uuid(&id, device))
		uuid_text(&id, uuid, sizeof(uuid));
	if (driver.get_pci)
		driver.get_pci(pci, sizeof(pci), device);
	nvml = ip_nvml_find(ordinal, uuid, pci);
	p = tfmt_put_varint(p, info_is_capacity_unlimited() ? TFMT_CAPACITY_UNLIMITED : capacity);
	p = tfmt_put_string(p, name, strlen(name));
	p = tfmt_put_string(p, uuid, strlen(uuid));
	p = tfmt_put_string(p, pci, strlen(pci));
	p = tfmt_put_varint(p, nvml.mig);
	p = tfmt_put_varint(p, (uint64_t)(nvml.physical_index + 1));
	return ip_define(TFMT_DEF_DEVICE, ordinal, payload, (size_t)(p - payload));
}

enum device_known { UNKNOWN = 0, BEING_DEFINED, DEFINED };

/* An event of the device must not come before its definition: wait for the thread that is making it. */
static void wait_until_defined(_Atomic uint32_t *known)
{
	uint64_t since = ip_now_ns();

	while (atomic_load_explicit(known, memory_order_acquire) == BEING_DEFINED &&
	       ip_now_ns() - since < IP_WAIT_NS)
		ip_pause(IP_WAIT_NS / 1000);
	ip_waited(since);
}

void ip_driver_define_device(struct ip_thread *t, unsigned device)
{
	_Atomic uint32_t *known = &ip_recorder->device_known[device];
	uint32_t state = UNKNOWN;
	bool done;

	if (atomic_load_explicit(known, memory_order_acquire) == DEFINED)
		return;
	if (!atomic_compare_exchange_strong(known, &state, BEING_DEFINED)) {
		if (state == BEING_DEFINED)
			wait_until_defined(known);
		return;
	}
	t->busy = true;
	look_up();
	done = define(device);
	atomic_store_explicit(known, done ? DEFINED : UNKNOWN, memory_order_release);
	t->busy = false;
}
