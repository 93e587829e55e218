/* SPDX-License-Identifier: MIT */
/*
 * Measuring a GPU. Memory is what the driver says is used before and after: other programs on the GPU would
 * be counted in, so calibrate wants it to itself.
 */
#include "analyzer/calibrate/measure.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/base/message.h"
#include "analyzer/command.h"

static int cuda_trouble(const struct libraries *l, const char *what, CUresult result)
{
	const char *text = NULL;

	l->cuGetErrorString(result, &text);
	return message_error("%s failed: %s (%d)", what, text ? text : "unknown error", (int)result);
}

int measure_open(struct measured_gpu *m, const struct libraries *l, int64_t index)
{
	char bus_id[32];
	CUresult result;
	int count = 0;

	*m = (struct measured_gpu){ .libraries = l };
	if (!l->has_cuda)
		return message_error("no CUDA driver here ('libcuda.so.1'): calibrate measures a real GPU");
	result = l->cuInit(0);
	if (result)
		return cuda_trouble(l, "cuInit", result);
	l->cuDeviceGetCount(&count);
	if (index < 0 || index >= count)
		return message_error("there is no GPU %" PRId64 " here: %d in all", index, count);
	m->device = (int)index;
	if (l->has_nvml && !l->cuDeviceGetPCIBusId(bus_id, sizeof(bus_id), m->device) && !l->nvmlInit_v2() &&
	    l->nvmlDeviceGetHandleByPciBusId_v2(bus_id, &m->nvml))
		m->nvml = NULL;
	return CMD_FINE;
}

/* Used bytes as NVML says; false where it does not. */
static bool nvml_used(const struct measured_gpu *m, uint64_t *bytes)
{
	struct nvml_memory memory;

	if (!m->nvml || m->libraries->nvmlDeviceGetMemoryInfo(m->nvml, &memory))
		return false;
	*bytes = memory.used;
	return true;
}

/* Used bytes of the current context's device. */
static uint64_t used(const struct libraries *l)
{
	size_t free_bytes = 0, total = 0;

	l->cuCtxSynchronize();
	l->cuMemGetInfo_v2(&free_bytes, &total);
	return total - free_bytes;
}

static uint64_t growth(uint64_t before, uint64_t after)
{
	return after > before ? after - before : 0;
}

int measure_context(struct measured_gpu *m, struct gpufile *g)
{
	const struct libraries *l = m->libraries;
	uint64_t before, after;
	bool has_nvml = nvml_used(m, &before);
	CUresult result = l->cuDevicePrimaryCtxRetain(&m->context, m->device);

	if (!result)
		result = l->cuCtxSetCurrent(m->context);
	if (result)
		return cuda_trouble(l, "creating a context", result);
	if (has_nvml && nvml_used(m, &after)) {
		gpufile_set(g, "context_bytes", growth(before, after));
	} else {
		message_warn(
			"no NVML here: context_bytes is all that is used on the GPU, by other programs too");
		gpufile_set(g, "context_bytes", used(l));
	}
	return CMD_FINE;
}

static const struct {
	const char *name;
	CUdevice_attribute attribute;
} attributes[] = {
	{ "sms", CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT },
	{ "smem_optin_bytes", CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN },
	{ "smem_sm_bytes", CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR },
	{ "threads_per_sm", CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR },
	{ "blocks_per_sm", CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR },
	{ "l2_bytes", CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE },
	{ "bus_bits", CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH },
	{ "clock_khz", CU_DEVICE_ATTRIBUTE_CLOCK_RATE },
	{ "memory_clock_khz", CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE },
};

int measure_device(const struct measured_gpu *m, struct gpufile *g)
{
	const struct libraries *l = m->libraries;
	size_t free_bytes, total = 0;
	int major = 0, minor = 0, value;
	unsigned milliwatts;
	char name[256] = "";

	l->cuDeviceGetName(name, sizeof(name), m->device);
	l->cuMemGetInfo_v2(&free_bytes, &total);
	l->cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, m->device);
	l->cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, m->device);
	g->product = heap_copy(name);
	gpufile_set(g, "capacity_bytes", total);
	gpufile_set(g, "compute_capability", (uint64_t)(major * 10 + minor));
	/* What a driver does not tell it answers with 0, which a GPU file does not take: the base's holds. */
	for (size_t i = 0; i < sizeof(attributes) / sizeof(attributes[0]); i++) {
		if (!l->cuDeviceGetAttribute(&value, attributes[i].attribute, m->device) && value > 0)
			gpufile_set(g, attributes[i].name, (uint64_t)value);
	}
	if (m->nvml && !l->nvmlDeviceGetEnforcedPowerLimit(m->nvml, &milliwatts) && milliwatts >= 1000)
		gpufile_set(g, "watts", milliwatts / 1000);
	return CMD_FINE;
}

/* An empty kernel, in a form that every driver compiles for its GPU. */
static const char kernel_ptx[] =
	".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry nothing()\n{\n"
	"\tret;\n}\n";

int measure_code(const struct measured_gpu *m, struct gpufile *g)
{
	const struct libraries *l = m->libraries;
	uint64_t before = used(l);
	CUmodule module;
	CUfunction kernel;
	CUresult result = l->cuModuleLoadData(&module, kernel_ptx);

	if (!result)
		result = l->cuModuleGetFunction(&kernel, module, "nothing");
	if (!result)
		result = l->cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
	if (result)
		return cuda_trouble(l, "loading a kernel", result);
	gpufile_set(g, "code_bytes", growth(before, used(l)));
	return CMD_FINE;
}

int measure_handles(const struct measured_gpu *m, struct gpufile *g)
{
	const struct libraries *l = m->libraries;
	uint64_t before = used(l);
	cublasHandle_t cublas;
	cudnnHandle_t cudnn;
	cusolverDnHandle_t cusolver;

	if (l->has_cublas && !l->cublasCreate_v2(&cublas)) {
		gpufile_set(g, "cublas_handle_bytes", growth(before, used(l)));
		l->cublasDestroy_v2(cublas);
	}
	before = used(l);
	if (l->has_cudnn && !l->cudnnCreate(&cudnn)) {
		gpufile_set(g, "cudnn_handle_bytes", growth(before, used(l)));
		l->cudnnDestroy(cudnn);
	}
	before = used(l);
	if (l->has_cusolver && !l->cusolverDnCreate(&cusolver)) {
		gpufile_set(g, "cusolver_handle_bytes", growth(before, used(l)));
		l->cusolverDnDestroy(cusolver);
	}
	return CMD_FINE;
}
