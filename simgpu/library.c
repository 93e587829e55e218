/* SPDX-License-Identifier: MIT */
/* Objects, launches and results common to the simulated compute libraries. */
#include "simgpu/library.h"
#include "simgpu/taken.h"

#include <stdlib.h>
#include <string.h>

/* Larger than any stateless object needs; programs only ever hold its address. */
#define OPAQUE_BYTES 64

void *sim_library_new(size_t bytes)
{
	return sim_zalloc(bytes);
}

void *sim_library_opaque(void)
{
	return sim_zalloc(OPAQUE_BYTES);
}

void *sim_library_handle(size_t bytes, const char *owner, size_t taken)
{
	uint64_t address = taken ? sim_take(sim_device(), owner, taken) : 0;
	struct sim_library *lib;

	if (taken && !address)
		return NULL;
	lib = sim_library_new(bytes);
	lib->taken = address;
	return lib;
}

void sim_library_handle_free(void *handle)
{
	struct sim_library *lib = handle;

	if (lib)
		sim_give(lib->taken);
	free(lib);
}

void sim_library_launch(const void *handle)
{
	struct sim_library *lib = (struct sim_library *)handle;
	void (*before)(void *) = lib ? lib->before_launch : NULL;

	if (before) {
		lib->before_launch = NULL;
		before(lib);
	}
	sim_launch(lib ? lib->stream : NULL);
}

void sim_library_result(void *result, size_t bytes)
{
	if (result && sim_pointer_device(result) < 0)
		memset(result, 0, bytes);
}

size_t sim_library_type_bytes(cudaDataType type)
{
	switch (type) {
	case CUDA_C_64F:
	case CUDA_C_64I:
	case CUDA_C_64U:
		return 16;
	case CUDA_R_64F:
	case CUDA_R_64I:
	case CUDA_R_64U:
	case CUDA_C_32F:
	case CUDA_C_32I:
	case CUDA_C_32U:
		return 8;
	case CUDA_R_32F:
	case CUDA_R_32I:
	case CUDA_R_32U:
	case CUDA_C_16F:
	case CUDA_C_16BF:
	case CUDA_C_16I:
	case CUDA_C_16U:
		return 4;
	case CUDA_R_16F:
	case CUDA_R_16BF:
	case CUDA_R_16I:
	case CUDA_R_16U:
	case CUDA_C_8I:
	case CUDA_C_8U:
		return 2;
	default:
		return 1;
	}
}

void sim_library_property(libraryPropertyType type, int version, int major, int minor, int *value)
{
	if (type == MAJOR_VERSION)
		*value = version / major;
	else if (type == MINOR_VERSION)
		*value = version % major / minor;
	else
		*value = version % minor;
}
