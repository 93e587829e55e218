/* SPDX-License-Identifier: MIT */
/* The devices: their profile, how many there are, and what is taken of their capacity. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "simgpu/internal.h"

static const struct sim_profile profiles[] = {
#define PROFILE(name_, product_, capacity_, context_mib_, sms_, cc_, optin_kib_, sm_kib_, threads_, blocks_,  \
		l2_kib_, bus_, clock_mhz_, memory_mhz_, watts_)                                             \
	{ .name = (name_), .product = (product_), .capacity_bytes = (capacity_),                            \
	  .context_bytes = SIM_MIB(context_mib_), .sms = (sms_), .cc_major = (cc_) / 10,                    \
	  .cc_minor = (cc_) % 10, .smem_optin_bytes = (optin_kib_) * 1024, .smem_sm_bytes = (sm_kib_) * 1024, \
	  .threads_per_sm = (threads_), .blocks_per_sm = (blocks_), .l2_bytes = (l2_kib_) * 1024,           \
	  .bus_bits = (bus_), .clock_khz = (clock_mhz_) * 1000, .memory_clock_khz = (memory_mhz_) * 1000,   \
	  .watts = (watts_) },
#include "simgpu/profiles.def"
#undef PROFILE
};

enum { NR_PROFILES = sizeof(profiles) / sizeof(*profiles), STATUS_TROUBLE = 125 };

static struct {
	struct sim_profile profile;
	int nr_physical;
	int nr;				/* after CUDA_VISIBLE_DEVICES */
	int physical[SIM_MAX_DEVICES];
	size_t used_bytes[SIM_MAX_DEVICES], peak_bytes[SIM_MAX_DEVICES];
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

static unsigned long long number(const char *variable, unsigned long long max, unsigned long long otherwise)
{
	const char *value = getenv(variable);
	unsigned long long n;
	char *end;

	if (!value || !*value)
		return otherwise;
	n = strtoull(value, &end, 10);
	if (*end || !n || n > max || *value == '-')
		unusable(variable, value, "expected a positive number in its range");
	return n;
}

static void choose_profile(void)
{
	const char *name = getenv("SIMGPU_PROFILE");
	int i = 0;

	if (!name || !*name)
		name = "h100";
	while (i < NR_PROFILES && strcmp(profiles[i].name, name))
		i++;
	if (i == NR_PROFILES)
		unusable("SIMGPU_PROFILE", name, "the known ones are");
	gpu.profile = profiles[i];
	gpu.profile.capacity_bytes = number("SIMGPU_CAPACITY", 1ULL << 46, gpu.profile.capacity_bytes);
}

/* The physical index that one entry of CUDA_VISIBLE_DEVICES names, or -1, where the list ends. */
static int visible_index(const char *entry)
{
	char *end;
	long n = strtol(entry, &end, 10);

	if (!strncmp(entry, "GPU-", 4)) {
		unsigned char uuid[16];
		char text[48];

		for (int i = 0; i < gpu.nr_physical; i++) {
			int at = snprintf(text, sizeof(text), "GPU-");

			sim_device_uuid(i, uuid);
			for (int b = 0; b < 16; b++)
				at += snprintf(text + at, sizeof(text) - (size_t)at, "%s%02x",
					       b == 4 || b == 6 || b == 8 || b == 10 ? "-" : "", uuid[b]);
			if (!strcmp(text, entry))
				return i;
		}
		return -1;
	}
	return end == entry || *end || n < 0 || n >= gpu.nr_physical ? -1 : (int)n;
}

static void choose_visible(void)
{
	const char *list = getenv("CUDA_VISIBLE_DEVICES");
	char *copy, *save, *entry;
	int index;

	if (!list) {
		for (gpu.nr = 0; gpu.nr < gpu.nr_physical; gpu.nr++)
			gpu.physical[gpu.nr] = gpu.nr;
		return;
	}
	copy = strcpy(sim_alloc(strlen(list) + 1), list);
	for (entry = strtok_r(copy, ",", &save); entry && gpu.nr < gpu.nr_physical;
	     entry = strtok_r(NULL, ",", &save)) {
		index = visible_index(entry);
		if (index < 0)
			break;
		gpu.physical[gpu.nr++] = index;
	}
	free(copy);
}

static void set_up(void)
{
	choose_profile();
	gpu.nr_physical = (int)number("SIMGPU_DEVICES", SIM_MAX_DEVICES, 1);
	choose_visible();
	pthread_atfork(sim_lock, sim_unlock, sim_unlock);
}

const struct sim_profile *sim_profile(void)
{
	pthread_once(&once, set_up);
	return &gpu.profile;
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

	sim_context_touch(dev);
	if (bytes > capacity || gpu.used_bytes[dev] > capacity - bytes)
		return false;
	gpu.used_bytes[dev] += bytes;
	if (gpu.used_bytes[dev] > gpu.peak_bytes[dev])
		gpu.peak_bytes[dev] = gpu.used_bytes[dev];
	return true;
}

void sim_uncharge(int dev, size_t bytes)
{
	gpu.used_bytes[dev] -= bytes;
}

size_t sim_used_bytes(int dev)
{
	return gpu.used_bytes[dev];
}

size_t sim_used_peak_bytes(int dev)
{
	return gpu.peak_bytes[dev];
}
