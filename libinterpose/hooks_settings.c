/* SPDX-License-Identifier: MIT */
/*
 * Settings of PyTorch's allocator, given while the program runs: libtorch_python hands their text to one function of libc10 or
 * libc10_cuda, through its PLT; which one, depends on the version. C++ functions of stable names; exceptions pass through
 * (-fexceptions), as of wrong settings, which are then not recorded.
 */
#include "settings.h"

#include <stdbool.h>
#include <string.h>

#include "autograd.h"
#include "env.h"
#include "hooks_torch.h"
#include "strings.h"

#define TRIES 100000u /* many times a copy's time */

/* The latest ones. A text may be cut: no setting is as long. */
static struct {
	_Atomic bool is_taken; /* by somebody who reads or writes it: for the time of a copy */
	bool is_given;
	char text[sizeof(ip_env.allocator_conf)];
} latest;

/* In a child that was forked while somebody had them nobody gives them back: then it goes without. */
static bool take(void)
{
	for (uint32_t tries = 0; tries < TRIES; tries++)
		if (!atomic_exchange_explicit(&latest.is_taken, true, memory_order_acquire))
			return true;
	return false;
}

static void give(void)
{
	atomic_store_explicit(&latest.is_taken, false, memory_order_release);
}

void ip_settings_before(char *text, size_t size)
{
	if (!take())
		return;
	if (latest.is_given && size)
		*(char *)mempcpy(text, latest.text, strnlen(latest.text, size - 1)) = 0;
	give();
}

/* Are they others than those in effect? PyTorch itself gives those of the environment once. */
static bool is_new(const char *text)
{
	bool differs;

	if (!take())
		return true;
	differs = strncmp(latest.is_given ? latest.text : ip_env.allocator_conf, text, sizeof(latest.text) - 1) != 0;
	latest.is_given = true;
	*(char *)mempcpy(latest.text, text, strnlen(text, sizeof(latest.text) - 1)) = 0;
	give();
	return differs;
}

static void record(const char *text)
{
	struct tfmt_record ev = { .kind = TFMT_SETTINGS, .device = TFMT_DEVICE_NONE, .stream = TFMT_STREAM_OTHER };
	struct ip_thread *t = ip_event_thread();

	if (!t)
		return;
	t->busy = true;
	ev.address = ip_string(text, strnlen(text, sizeof(latest.text) - 1));
	autograd_before_event(t);
	ip_record(t, &ev);
	t->busy = false;
}

/* A std::string of either of libstdc++'s forms begins with the address of its bytes, which end with a NUL. */
static void given(const char *const *string)
{
	int saved = errno;

	if (is_new(*string) && ip_state() == IP_RECORDING)
		record(*string);
	errno = saved;
}

/* void c10::cuda::CUDACachingAllocator::setAllocatorSettings(const std::string &), until PyTorch 2.9 */
#define SET_SETTINGS(name)                                                                          \
	IP_EXPORT void name(const char *const *string);                                             \
	IP_EXPORT void name(const char *const *string)                                              \
	{                                                                                           \
		static struct real_function f = { "libc10_cuda.so", #name, NULL, false };           \
		__typeof__(&name) real = (__typeof__(&name))torch_function(&f, (const void *)name); \
                                                                                                    \
		if (real)                                                                           \
			real(string);                                                               \
		given(string);                                                                      \
	}
SET_SETTINGS(_ZN3c104cuda20CUDACachingAllocator20setAllocatorSettingsERKSs)
SET_SETTINGS(_ZN3c104cuda20CUDACachingAllocator20setAllocatorSettingsERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE)

/*
 * void c10::CachingAllocator::AcceleratorAllocatorConfig::parseArgs(const std::string &), and before PyTorch 2.12 the one of
 * CUDAAllocatorConfig
 */
#define PARSE_SETTINGS(file, name)                                                                  \
	IP_EXPORT void name(void *config, const char *const *string);                               \
	IP_EXPORT void name(void *config, const char *const *string)                                \
	{                                                                                           \
		static struct real_function f = { file, #name, NULL, false };                       \
		__typeof__(&name) real = (__typeof__(&name))torch_function(&f, (const void *)name); \
                                                                                                    \
		if (real)                                                                           \
			real(config, string);                                                       \
		given(string);                                                                      \
	}
PARSE_SETTINGS("libc10.so",
	       _ZN3c1016CachingAllocator26AcceleratorAllocatorConfig9parseArgsERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE)
PARSE_SETTINGS("libc10_cuda.so",
	       _ZN3c104cuda20CUDACachingAllocator19CUDAAllocatorConfig9parseArgsERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE)
