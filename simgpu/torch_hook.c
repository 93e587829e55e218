/* SPDX-License-Identifier: MIT */
/*
 * The interposed functions that are not CUDA's.
 *
 * PyTorch's allocator reports each block it hands out, and that block's memory then reads 0. Without it a
 * recycled block would show a program old bytes where, on a GPU, a kernel would have written a count or a
 * size. A program that started to use the device before it had imported PyTorch gets the value shadow
 * here.
 *
 * PyTorch asks whether a dispatch mode is active where it chooses between ways to compute the same: with
 * one, the backward pass adds gradients into new tensors instead of into old ones. The value shadow is a
 * mode, but must not change what the program allocates: where it is the only one, the answer is no.
 * Calling modes is libtorch_python's affair, which therefore gets the true answer.
 */
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <string.h>

#include "simgpu/simgpu.h"
#include "simgpu/values.h"

/* c10::reportMemoryUsageToProfiler(void *ptr, int64_t bytes, size_t allocated, size_t reserved, c10::Device
 * device) */
#define REPORT "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE"

/*
 * bool c10::impl::dispatch_mode_enabled(), int64_t c10::impl::TorchDispatchModeTLS::stack_len(), and const
 * std::shared_ptr<SafePyObject> &c10::impl::TorchDispatchModeTLS::get_stack_at(int64_t): all of this
 * thread.
 */
#define ENABLED "_ZN3c104impl21dispatch_mode_enabledEv"
#define STACK_LEN "_ZN3c104impl20TorchDispatchModeTLS9stack_lenEv"
#define STACK_AT "_ZN3c104impl20TorchDispatchModeTLS12get_stack_atEl"

enum { DEVICE_TYPE_CUDA = 1 };

typedef void report_fn(void *p, int64_t bytes, size_t allocated, size_t reserved, uint16_t device);
typedef bool enabled_fn(void);
typedef int64_t stack_len_fn(void);
/* A std::shared_ptr's first word points to the SafePyObject, whose first word is the PyObject. */
typedef void *const *const *stack_at_fn(int64_t at);

SIM_EXPORT report_fn sim_torch_report __asm__(REPORT);
SIM_EXPORT enabled_fn sim_torch_mode_enabled __asm__(ENABLED);

/*
 * The definition of NAME that OURS hides: next in the search order, else the defining library, because
 * RTLD_NEXT does not see one that was loaded RTLD_LOCAL. NULL when there is none.
 */
static void *torch_function(const char *name, void *ours)
{
	void *next = dlsym(RTLD_NEXT, name), *torch;

	if (next && next != ours)
		return next;
	torch = dlopen("libc10.so", RTLD_NOLOAD | RTLD_LAZY);
	if (!torch)
		return NULL;
	next = dlsym(torch, name);
	dlclose(torch);
	return next == ours ? NULL : next;
}

void sim_torch_report(void *p, int64_t bytes, size_t allocated, size_t reserved, uint16_t device)
{
	static report_fn *next;
	report_fn *found = __atomic_load_n(&next, __ATOMIC_ACQUIRE);

	if (!found) {
		found = (report_fn *)torch_function(REPORT, (void *)sim_torch_report);
		__atomic_store_n(&next, found, __ATOMIC_RELEASE);
	}
	if (p && bytes > 0 && (device & 0xff) == DEVICE_TYPE_CUDA) {
		sim_fresh(p, (size_t)bytes);
		sim_values_start();
	}
	if (found)
		found(p, bytes, allocated, reserved, device);
}

static struct {
	enabled_fn *enabled;
	stack_len_fn *stack_len;
	stack_at_fn *stack_at;
	uintptr_t caller_start, caller_end;	/* libtorch_python */
} modes;

/* For dl_iterate_phdr: note the addresses of libtorch_python, and stop there. */
static int find_caller(struct dl_phdr_info *info, size_t bytes, void *context)
{
	const char *base = strrchr(info->dlpi_name, '/');

	(void)bytes;
	(void)context;
	if (!base || strcmp(base, "/libtorch_python.so") != 0)
		return 0;
	modes.caller_start = info->dlpi_addr;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		uintptr_t end = info->dlpi_addr + segment->p_vaddr + segment->p_memsz;

		if (segment->p_type == PT_LOAD && end > modes.caller_end)
			modes.caller_end = end;
	}
	return 1;
}

static void find_enabled(void)
{
	modes.enabled = (enabled_fn *)torch_function(ENABLED, (void *)sim_torch_mode_enabled);
}

/* Later than the above: PyTorch's Python half is loaded last. */
static void find_modes(void)
{
	modes.stack_len = (stack_len_fn *)torch_function(STACK_LEN, NULL);
	modes.stack_at = (stack_at_fn *)torch_function(STACK_AT, NULL);
	dl_iterate_phdr(find_caller, NULL);
}

/* Whether CALLER, who is not the one that calls modes, finds OURS as the only mode of this thread. */
static bool is_ours_alone(uintptr_t caller, const void *ours)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find_modes);
	if (!modes.caller_end || (caller >= modes.caller_start && caller < modes.caller_end))
		return false;
	return modes.stack_len && modes.stack_at && modes.stack_len() == 1 && **modes.stack_at(0) == ours;
}

bool sim_torch_mode_enabled(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	const void *ours = values_mode();

	pthread_once(&once, find_enabled);
	if (!modes.enabled || !modes.enabled())
		return false;
	return !ours || !is_ours_alone((uintptr_t)__builtin_return_address(0), ours);
}
