/* SPDX-License-Identifier: MIT */
/*
 * The one interposed function that is not CUDA's: PyTorch's allocator reports each block it hands out, and
 * that block's memory then reads 0. Without it a recycled block would show a program old bytes where, on a
 * GPU, a kernel would have written a count or a size.
 */
#include <dlfcn.h>

#include "simgpu/simgpu.h"

/* c10::reportMemoryUsageToProfiler(void *ptr, int64_t bytes, size_t allocated, size_t reserved, c10::Device
 * device) */
#define REPORT "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE"

enum { DEVICE_TYPE_CUDA = 1 };

typedef void report_fn(void *p, int64_t bytes, size_t allocated, size_t reserved, uint16_t device);

SIM_EXPORT report_fn sim_torch_report __asm__(REPORT);

/* Next in the search order, else the defining library: RTLD_NEXT does not see one that was loaded RTLD_LOCAL.
 */
static report_fn *next_report(void)
{
	report_fn *next = (report_fn *)dlsym(RTLD_NEXT, REPORT);
	void *torch;

	if (next && next != sim_torch_report)
		return next;
	torch = dlopen("libc10.so", RTLD_NOLOAD | RTLD_LAZY);
	if (!torch)
		return NULL;
	next = (report_fn *)dlsym(torch, REPORT);
	dlclose(torch);
	return next == sim_torch_report ? NULL : next;
}

void sim_torch_report(void *p, int64_t bytes, size_t allocated, size_t reserved, uint16_t device)
{
	static report_fn *next;
	report_fn *found = __atomic_load_n(&next, __ATOMIC_ACQUIRE);

	if (!found) {
		found = next_report();
		__atomic_store_n(&next, found, __ATOMIC_RELEASE);
	}
	if (p && bytes > 0 && (device & 0xff) == DEVICE_TYPE_CUDA)
		sim_fresh(p, (size_t)bytes);
	if (found)
		found(p, bytes, allocated, reserved, device);
}
