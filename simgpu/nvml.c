/* SPDX-License-Identifier: MIT */
/*
 * NVML: the devices, their memory and the processes on them. NVML counts physical devices, whatever
 * CUDA_VISIBLE_DEVICES hides. Sensors read as an idle board's; everything else is not supported, as on many
 * boards.
 */
#include "simgpu/nvml_api.h"
#include "simgpu/shared_device.h"
#include "simgpu/simgpu.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define DRIVER_VERSION "580.00"
#define IDLE_CELSIUS 30
#define IDLE_POWER_PERCENT 10
#define NO_INSTANCE 0xffffffffu		/* of a GPU that is not partitioned */

/* A handle is its physical index, plus one so that none is NULL. */
static nvmlDevice_t handle_of(int index)
{
	return (nvmlDevice_t)(uintptr_t)(index + 1);
}

static bool handle_index(nvmlDevice_t device, int *index)
{
	*index = (int)(uintptr_t)device - 1;
	return *index >= 0 && *index < sim_nr_physical();
}

/* How often NVML was initialised and not shut down since. */
static atomic_uint nr_users;

#define INITIALISED_OR_RETURN()        \
	if (!atomic_load(&nr_users))   \
	return NVML_ERROR_UNINITIALIZED

#define INDEX_OR_RETURN(device, index)     \
	int index;                         \
	INITIALISED_OR_RETURN();           \
	if (!handle_index(device, &index)) \
	return NVML_ERROR_INVALID_ARGUMENT

static nvmlReturn_t put_string(char *out, unsigned int length, const char *text)
{
	if (!out)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (strlen(text) >= length)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	strcpy(out, text);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlInit_v2(void)
{
	atomic_fetch_add(&nr_users, 1);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlInit(void)
{
	return nvmlInit_v2();
}

nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
	(void)flags;
	return nvmlInit_v2();
}

/* As documented, all is closed when as many calls were made as of nvmlInit. */
nvmlReturn_t nvmlShutdown(void)
{
	unsigned int users = atomic_load(&nr_users);

	while (users && !atomic_compare_exchange_weak(&nr_users, &users, users - 1))
		;
	return users ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
}

const char *nvmlErrorString(nvmlReturn_t result)
{
	switch (result) {
	case NVML_SUCCESS:
		return "Success";
	case NVML_ERROR_UNINITIALIZED:
		return "Uninitialized";
	case NVML_ERROR_INVALID_ARGUMENT:
		return "Invalid Argument";
	case NVML_ERROR_NOT_SUPPORTED:
		return "Not Supported";
	case NVML_ERROR_NOT_FOUND:
		return "Not Found";
	case NVML_ERROR_INSUFFICIENT_SIZE:
		return "Insufficient Size";
	}
	return "Unknown Error";
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
	INITIALISED_OR_RETURN();
	return put_string(version, length, DRIVER_VERSION);
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length)
{
	return put_string(version, length, "13." DRIVER_VERSION);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *cudaDriverVersion)
{
	*cudaDriverVersion = CUDA_VERSION;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *cudaDriverVersion)
{
	return nvmlSystemGetCudaDriverVersion(cudaDriverVersion);
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *deviceCount)
{
	INITIALISED_OR_RETURN();
	*deviceCount = (unsigned int)sim_nr_physical();
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount(unsigned int *deviceCount)
{
	return nvmlDeviceGetCount_v2(deviceCount);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
	INITIALISED_OR_RETURN();
	if (index >= (unsigned int)sim_nr_physical())
		return NVML_ERROR_INVALID_ARGUMENT;
	*device = handle_of((int)index);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device)
{
	return nvmlDeviceGetHandleByIndex_v2(index, device);
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
	char text[SIM_UUID_TEXT];

	INITIALISED_OR_RETURN();
	if (!uuid)
		return NVML_ERROR_INVALID_ARGUMENT;
	for (int i = 0; i < sim_nr_physical(); i++) {
		sim_device_uuid_text(i, text);
		if (strcasecmp(text, uuid))
			continue;
		*device = handle_of(i);
		return NVML_SUCCESS;
	}
	return NVML_ERROR_NOT_FOUND;
}

/* "domain:bus:device.function", where the domain may be left out. */
nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *pciBusId, nvmlDevice_t *device)
{
	unsigned int domain = 0, bus;

	INITIALISED_OR_RETURN();
	if (!pciBusId ||
	    (sscanf(pciBusId, "%x:%x:%*x", &domain, &bus) != 2 && sscanf(pciBusId, "%x:%*x", &bus) != 1))
		return NVML_ERROR_INVALID_ARGUMENT;
	for (int i = 0; i < sim_nr_physical(); i++) {
		if (domain || bus != (unsigned int)sim_device_pci_bus(i))
			continue;
		*device = handle_of(i);
		return NVML_SUCCESS;
	}
	return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *pciBusId, nvmlDevice_t *device)
{
	return nvmlDeviceGetHandleByPciBusId_v2(pciBusId, device);
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
{
	INDEX_OR_RETURN(device, physical);

	*index = (unsigned int)physical;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *minorNumber)
{
	return nvmlDeviceGetIndex(device, minorNumber);
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length)
{
	INDEX_OR_RETURN(device, index);

	return put_string(name, length, sim_profile()->product);
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
	char text[SIM_UUID_TEXT];
	INDEX_OR_RETURN(device, index);

	sim_device_uuid_text(index, text);
	return put_string(uuid, length, text);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
	INDEX_OR_RETURN(device, index);

	memset(pci, 0, sizeof(*pci));
	pci->bus = (unsigned int)sim_device_pci_bus(index);
	snprintf(pci->busIdLegacy, sizeof(pci->busIdLegacy), "0000:%02X:00.0", pci->bus & 0xff);
	snprintf(pci->busId, sizeof(pci->busId), "00000000:%02X:00.0", pci->bus);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
	return nvmlDeviceGetPciInfo_v3(device, pci);
}

nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
	return nvmlDeviceGetPciInfo_v3(device, pci);
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
	struct sim_memory now;
	INDEX_OR_RETURN(device, index);

	now = sim_device_memory(index);
	*memory = (nvmlMemory_t){ .total = now.total_bytes, .used = now.used_bytes, .free = now.free_bytes };
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
	struct sim_memory now;
	INDEX_OR_RETURN(device, index);

	now = sim_device_memory(index);
	memory->total = now.total_bytes;
	memory->reserved = 0;
	memory->used = now.used_bytes;
	memory->free = now.free_bytes;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
	INDEX_OR_RETURN(device, index);

	*major = sim_profile()->cc_major;
	*minor = sim_profile()->cc_minor;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryBusWidth(nvmlDevice_t device, unsigned int *busWidth)
{
	INDEX_OR_RETURN(device, index);

	*busWidth = (unsigned int)sim_profile()->bus_bits;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *currentMode, unsigned int *pendingMode)
{
	INDEX_OR_RETURN(device, index);

	*currentMode = 0;
	*pendingMode = 0;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int *isMigDevice)
{
	INDEX_OR_RETURN(device, index);

	*isMigDevice = 0;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *utilization)
{
	INDEX_OR_RETURN(device, index);

	*utilization = (nvmlUtilization_t){ 0, 0 };
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, int sensorType, unsigned int *temp)
{
	INDEX_OR_RETURN(device, index);

	(void)sensorType;
	*temp = IDLE_CELSIUS;
	return NVML_SUCCESS;
}

/* Milliwatts. */
nvmlReturn_t nvmlDeviceGetPowerManagementLimit(nvmlDevice_t device, unsigned int *limit)
{
	INDEX_OR_RETURN(device, index);

	*limit = (unsigned int)sim_profile()->watts * 1000;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned int *limit)
{
	return nvmlDeviceGetPowerManagementLimit(device, limit);
}

nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int *power)
{
	unsigned int limit;
	nvmlReturn_t result = nvmlDeviceGetPowerManagementLimit(device, &limit);

	if (result == NVML_SUCCESS)
		*power = limit / 100 * IDLE_POWER_PERCENT;
	return result;
}

/* MHz. */
nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned int *clock)
{
	const struct sim_profile *profile = sim_profile();
	INDEX_OR_RETURN(device, index);

	*clock = (unsigned int)(type == NVML_CLOCK_MEM ? profile->memory_clock_khz : profile->clock_khz) /
		 1000;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned int *clock)
{
	return nvmlDeviceGetMaxClockInfo(device, type, clock);
}

/*
 * The processes on DEVICE, as the caller has ROOM for. The protocol of all process lists: too little room is
 * answered with the room needed.
 */
static nvmlReturn_t holders(nvmlDevice_t device, unsigned int *infoCount, const void *infos,
			    struct sim_holder found[SIM_SHARED_PROCESSES])
{
	unsigned int room;
	INDEX_OR_RETURN(device, index);

	room = infos ? *infoCount : 0;
	*infoCount = (unsigned int)sim_shared_holders(index, found, SIM_SHARED_PROCESSES);
	return room < *infoCount ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *infoCount,
						     nvmlProcessInfo_t *infos)
{
	struct sim_holder found[SIM_SHARED_PROCESSES];
	nvmlReturn_t result = holders(device, infoCount, infos, found);

	for (unsigned int i = 0; result == NVML_SUCCESS && i < *infoCount; i++)
		infos[i] = (nvmlProcessInfo_t){ found[i].pid, found[i].bytes, NO_INSTANCE, NO_INSTANCE };
	return result;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned int *infoCount,
						     nvmlProcessInfo_t *infos)
{
	return nvmlDeviceGetComputeRunningProcesses_v3(device, infoCount, infos);
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned int *infoCount,
						  nvmlProcessInfo_v1_t *infos)
{
	struct sim_holder found[SIM_SHARED_PROCESSES];
	nvmlReturn_t result = holders(device, infoCount, infos, found);

	for (unsigned int i = 0; result == NVML_SUCCESS && i < *infoCount; i++)
		infos[i] = (nvmlProcessInfo_v1_t){ found[i].pid, found[i].bytes };
	return result;
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned int *infoCount,
						      nvmlProcessInfo_t *infos)
{
	INDEX_OR_RETURN(device, index);

	(void)infos;
	*infoCount = 0;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v2(nvmlDevice_t device, unsigned int *infoCount,
						      nvmlProcessInfo_t *infos)
{
	return nvmlDeviceGetGraphicsRunningProcesses_v3(device, infoCount, infos);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses(nvmlDevice_t device, unsigned int *infoCount,
						   nvmlProcessInfo_v1_t *infos)
{
	(void)infos;
	return nvmlDeviceGetGraphicsRunningProcesses_v3(device, infoCount, NULL);
}
