/* SPDX-License-Identifier: MIT */
/* The runtime's libraries: images that a program loads by itself, and their kernels. */
#include "simgpu/driver_table.h"
#include "simgpu/runtime.h"

cudaError_t cudaLibraryLoadData(cudaLibrary_t *library, const void *code, enum cudaJitOption *jit,
				void **jit_values, unsigned int nr_jit, enum cudaLibraryOption *options,
				void **values, unsigned int nr)
{
	return RUNTIME(cuLibraryLoadData((CUlibrary *)library, code, (CUjit_option *)jit, jit_values, nr_jit,
					 (CUlibraryOption *)options, values, nr));
}

cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t *library, const char *path, enum cudaJitOption *jit,
				    void **jit_values, unsigned int nr_jit, enum cudaLibraryOption *options,
				    void **values, unsigned int nr)
{
	return RUNTIME(cuLibraryLoadFromFile((CUlibrary *)library, path, (CUjit_option *)jit, jit_values, nr_jit,
					     (CUlibraryOption *)options, values, nr));
}

cudaError_t cudaLibraryUnload(cudaLibrary_t library)
{
	return RUNTIME(cuLibraryUnload((CUlibrary)library));
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t *kernel, cudaLibrary_t library, const char *name)
{
	CUfunction function;
	cudaError_t e = RUNTIME(cuLibraryGetKernel((CUkernel *)kernel, (CUlibrary)library, name));

	if (!e)
		e = RUNTIME(cuKernelGetFunction(&function, (CUkernel)*kernel));
	if (!e)
		sim_runtime_kernel(*kernel, function);
	return e;
}

cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t kernel, enum cudaFuncAttribute attribute, int value,
					    int device)
{
	return RUNTIME(cuKernelSetAttribute((CUfunction_attribute)attribute, value, (CUkernel)kernel, device));
}

cudaError_t cudaLibraryGetGlobal(void **dptr, size_t *bytes, cudaLibrary_t library, const char *name)
{
	return RUNTIME(cuLibraryGetGlobal((CUdeviceptr *)dptr, bytes, (CUlibrary)library, name));
}

cudaError_t cudaLibraryGetKernelCount(unsigned int *nr, cudaLibrary_t library)
{
	return RUNTIME(cuLibraryGetKernelCount(nr, (CUlibrary)library));
}

cudaError_t cudaLibraryEnumerateKernels(cudaKernel_t *kernels, unsigned int nr, cudaLibrary_t library)
{
	CUfunction function;
	cudaError_t e = RUNTIME(cuLibraryEnumerateKernels((CUkernel *)kernels, nr, (CUlibrary)library));
	unsigned there = 0;

	if (!e)
		e = RUNTIME(cuLibraryGetKernelCount(&there, (CUlibrary)library));
	for (unsigned i = 0; i < nr && i < there && !e; i++) {
		e = RUNTIME(cuKernelGetFunction(&function, (CUkernel)kernels[i]));
		if (!e)
			sim_runtime_kernel(kernels[i], function);
	}
	return e;
}
