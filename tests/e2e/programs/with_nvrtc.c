/* SPDX-License-Identifier: MIT */
/* A CUDA program that compiles its kernel at run time (NVRTC) and launches it over the driver. */
#include <stdio.h>
#include <stdlib.h>

#include <cuda.h>
#include <nvrtc.h>

static void need(int ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "with_nvrtc: %s\n", what);
		exit(1);
	}
}

int main(void)
{
	static const char source[] = "extern \"C\" __global__ void twice(float *x) { x[threadIdx.x] *= 2; }";
	const char *options[] = { "--gpu-architecture=compute_80" };
	nvrtcProgram program;
	CUcontext context;
	CUdevice device;
	CUmodule module;
	CUfunction function;
	CUdeviceptr x;
	size_t size;
	char *ptx;

	need(!cuInit(0) && !cuDeviceGet(&device, 0), "no device");
	need(!cuDevicePrimaryCtxRetain(&context, device) && !cuCtxSetCurrent(context), "no context");
	need(!nvrtcCreateProgram(&program, source, "twice.cu", 0, NULL, NULL), "no program");
	need(!nvrtcCompileProgram(program, 1, options), "not compiled");
	need(!nvrtcGetPTXSize(program, &size) && size > 1, "no PTX");
	ptx = malloc(size);
	need(ptx && !nvrtcGetPTX(program, ptx), "PTX not given");
	need(!nvrtcDestroyProgram(&program), "program not destroyed");
	need(!cuModuleLoadData(&module, ptx) && !cuModuleGetFunction(&function, module, "twice"), "not loaded");
	need(!cuMemAlloc(&x, 4096), "no memory");
	need(!cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, NULL, (void *[]){ &x }, NULL), "not launched");
	need(!cuCtxSynchronize() && !cuMemFree(x), "not freed");
	free(ptx);
	printf("{\"allocs\": 1, \"frees\": 1, \"peak\": 4096, \"left\": 0, \"pinned\": 0, \"managed\": 0}\n");
	return 0;
}
