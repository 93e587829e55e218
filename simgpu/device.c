/* SPDX-License-Identifier: MIT */
/* The devices: their profile, how many there are, and what is left of their capacity. */
#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "simgpu/internal.h"
#include "simgpu/memory_model.h"
#include "simgpu/shared_device.h"
#include "simgpu/taken.h"

static const struct sim_profile profiles[] = {
#define PROFILE(name_, product_, capacity_, context_mib_, sms_, cc_, optin_kib_, sm_kib_, threads_, blocks_,  \
		l2_kib_, bus_, clock_mhz_, memory_mhz_, watts_)                                             \
	{ .name = (name_), .product = (product_), .capacity_bytes = (capacity_),                            \
	  .context_bytes = SIM_MIB(context_mib_), .sms = (sms_), .cc_major = (cc_) / 10,                    \
	  .cc_minor = (cc_) % 10, .smem_optin_bytes = (optin_kib_) * 1024, .smem_sm_bytes = (sm_kib_) * 1024, \
	  .threads_per_sm = (threads_), .blocks_per_sm = (blocks_), .l2_bytes = (l2_kib_) * 1024,           \
	  .bus_bits = (bus_), .clock_khz = (clock_mhz_) * 1000, .memory_clock_khz = (memory_mhz_) * 1000,   \
	  .watts = (watts_) },
#define ALIAS(alias, name)
#include "simgpu/profiles.def"
#undef ALIAS
#undef PROFILE
};

static const struct {
	const char *name, *profile;
} aliases[] = {
#define PROFILE(...)
#define ALIAS(alias, name) { alias, name },
#include "simgpu/profiles.def"
#undef ALIAS
#undef PROFILE
};

enum { NR_PROFILES = sizeof(profiles) / sizeof(*profiles), STATUS_TROUBLE = 125 };

static struct {
	struct sim_profile profile;
	bool is_unlimited;
	int nr_physical;
	int nr;				/* after CUDA_VISIBLE_DEVICES */
	int physical[SIM_MAX_DEVICES];
} gpu;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;

void sim_lock(void)
{
	pthread_mutex_lock(&lock);
}

void sim_unlock(void)
{
	pthread_mutex_unlock(&lock);
	sim_taken_tell();
}

static _Noreturn void unusable(const char *variable, const char *value, const char *expected)
{
	dprintf(STDERR_FILENO, "simgpu: %s '%s' is not usable: %s", variable, value, expected);
	if (!strcmp(variable, "SIMGPU_PROFILE"))
		for (int i = 0; i < NR_PROFILES; i++)
			dprintf(STDERR_FILENO, " %s", profiles[i].name);
	dprintf(STDERR_FILENO, "\n");
	_exit(STATUS_TROUBLE);
}

static unsigned long long number(const char *variable, unsigned long long max, unsigned long long otherwise,
				 const char *expected)
{
	const char *value = getenv(variable);
	unsigned long long n;
	char *end;

	if (!value || !*value)
		return otherwise;
	n = strtoull(value, &end, 10);
	if (*end || !n || n > max || !isdigit((unsigned char)*value))
		unusable(variable, value, expected);
	return n;
}

static void choose_capacity(void)
{
	const char *value = getenv("SIMGPU_CAPACITY");

	gpu.is_unlimited = value && !strcmp(value, "unlimited");
	gpu.profile.capacity_bytes =
	    gpu.is_unlimited ? SIM_UNLIMITED_TOTAL
			     : number("SIMGPU_CAPACITY", SIM_CAPACITY_MAX, gpu.profile.capacity_bytes,
				      "expected a number of bytes, up to 64 TiB, or 'unlimited'");
}

static void choose_profile(void)
{
	const char *name = getenv("SIMGPU_PROFILE");
	int i = 0;

	if (!name || !*name)
		name = "h100";
	for (size_t a = 0; a < sizeof(aliases) / sizeof(*aliases); a++)
		if (!strcmp(aliases[a].name, name))
			name = aliases[a].profile;
	while (i < NR_PROFILES && strcmp(profiles[i].name, name))
		i++;
	if (i == NR_PROFILES)
		unusable("SIMGPU_PROFILE", name, "the known ones are");
	gpu.profile = profiles[i];
	sim_model_load(&gpu.profile);
	choose_capacity();
}

static void choose_visible(void)
{
	const char *list = getenv("CUDA_VISIBLE_DEVICES");

	if (list) {
		gpu.nr = sim_visible_devices(list, gpu.nr_physical, gpu.physical);
		return;
	}
	for (gpu.nr = 0; gpu.nr < gpu.nr_physical; gpu.nr++)
		gpu.physical[gpu.nr] = gpu.nr;
}

/* In the order in which all others take the two locks. */
static void before_fork(void)
{
	sim_lock();
	sim_shared_before_fork();
}

static void after_fork(void)
{
	sim_shared_after_fork(false);
	sim_unlock();
}

static void after_fork_in_child(void)
{
	sim_shared_after_fork(true);
	sim_unlock();
}

static void set_up(void)
{
	choose_profile();
	gpu.nr_physical = (int)number("SIMGPU_DEVICES", SIM_MAX_DEVICES, 1, "expected a number from 1 to 64");
	choose_visible();
	pthread_atfork(before_fork, after_fork, after_fork_in_child);
}

const struct sim_profile *sim_profile(void)
{
	pthread_once(&once, set_up);
	return &gpu.profile;
}

bool sim_is_unlimited(void)
{
	pthread_once(&once, set_up);
	return gpu.is_unlimited;
}

int sim_nr_devices(void)
{
	pthread_once(&once, set_up);
	return gpu.nr;
}

int sim_nr_physical(void)
{
	pthread_once(&once, set_up);
	return gpu.nr_physical;
}

int sim_device_physical(int dev)
{
	pthread_once(&once, set_up);
	return dev >= 0 && dev < gpu.nr ? gpu.physical[dev] : -1;
}

void sim_device_uuid(int index, unsigned char uuid[16])
{
	memset(uuid, 0, 16);
	memcpy(uuid, "simgpu", 6);
	uuid[15] = (unsigned char)index;
}

int sim_device_pci_bus(int index)
{
	return index + 1;
}

bool sim_charge(int dev, size_t bytes)
{
	size_t capacity = sim_profile()->capacity_bytes;

	if (!sim_context_touch(dev))
		return false;
	if (gpu.is_unlimited)
		capacity = bytes <= SIM_CAPACITY_MAX ? SIZE_MAX : 0;
	return sim_shared_take(gpu.physical[dev], bytes, capacity);
}

void sim_uncharge(int dev, size_t bytes)
{
	sim_shared_give(gpu.physical[dev], bytes);
}

struct sim_memory sim_device_memory(int index)
{
	struct sim_memory memory = { .total_bytes = sim_profile()->capacity_bytes,
				     .used_bytes = sim_shared_used(index) };

	if (memory.used_bytes < memory.total_bytes)
		memory.free_bytes = memory.total_bytes - memory.used_bytes;
	return memory;
}
