/* SPDX-License-Identifier: MIT */
/* A CUDA program over the shared runtime: takes memory of every kind, prints what it took as one JSON line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime_api.h>

#define MIB ((size_t)1 << 20)

static void need(int ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "with_runtime: %s\n", what);
		exit(1);
	}
}

/* What is written to the device is what is read back, also over a second buffer and through a stream. */
static void copy_round_trip(void *a, void *b)
{
	char sent[256], received[256];
	cudaStream_t stream;

	for (int i = 0; i < 256; i++)
		sent[i] = (char)i;
	need(!cudaStreamCreate(&stream), "no stream");
	need(!cudaMemcpy(a, sent, sizeof(sent), cudaMemcpyHostToDevice), "no copy to the device");
	need(!cudaMemcpyAsync(b, a, sizeof(sent), cudaMemcpyDeviceToDevice, stream), "no copy on the device");
	need(!cudaStreamSynchronize(stream), "no wait");
	need(!cudaMemcpy(received, b, sizeof(received), cudaMemcpyDeviceToHost), "no copy from the device");
	need(!memcmp(sent, received, sizeof(sent)), "other bytes came back");
	need(!cudaStreamDestroy(stream), "stream not destroyed");
}

static void launch_kernel(void)
{
	static const char ptx[] = ".version 8.0\n.target sm_70\n.address_size 64\n.visible .entry nothing() { ret; }\n";
	const dim3 one = { 1, 1, 1 };
	cudaLibrary_t library;
	cudaKernel_t kernel;

	need(!cudaLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0), "library not loaded");
	need(!cudaLibraryGetKernel(&kernel, library, "nothing"), "no kernel");
	need(!cudaLaunchKernel((void *)kernel, one, one, NULL, 0, NULL), "not launched");
	need(cudaLaunchKernel((void *)launch_kernel, one, one, NULL, 0, NULL) == cudaErrorInvalidDeviceFunction,
	     "a host function was launched");
	need(!cudaDeviceSynchronize(), "not synchronised");
}

int main(void)
{
	size_t free_bytes, total, pitch;
	void *large, *small, *pitched, *pinned, *managed, *pooled, *none = NULL;
	struct cudaPointerAttributes attributes;

	need(!cudaMalloc(&large, 64 * MIB) && !cudaMalloc(&small, 1000), "cudaMalloc failed");
	need(!cudaMallocPitch(&pitched, &pitch, 1000, 100), "cudaMallocPitch failed");
	need(!cudaMallocHost(&pinned, 3 * MIB), "cudaMallocHost failed");
	need(!cudaMallocManaged(&managed, 5 * MIB, cudaMemAttachGlobal), "cudaMallocManaged failed");
	need(!cudaMallocAsync(&pooled, 7 * MIB, NULL), "cudaMallocAsync failed");
	copy_round_trip(large, pooled);
	launch_kernel();
	need(!cudaPointerGetAttributes(&attributes, (char *)large + 5), "no attributes");
	need(attributes.type == cudaMemoryTypeDevice && attributes.device == 0, "other attributes");
	need(!cudaMemGetInfo(&free_bytes, &total) && free_bytes < total - 71 * MIB, "memory not taken");
	need(cudaMalloc(&none, total) == cudaErrorMemoryAllocation && !none, "more than there is");
	need(cudaGetLastError() == cudaErrorMemoryAllocation && !cudaGetLastError(), "error not kept, or kept twice");
	need(cudaFree((char *)large + 512) == cudaErrorInvalidValue, "freed the middle of a block");
	need(!cudaFree(large) && cudaFree(large) == cudaErrorInvalidValue, "freed twice");
	need(!cudaFreeAsync(pooled, NULL) && !cudaFreeHost(pinned) && !cudaFree(managed), "not freed");
	printf("{\"allocs\": 4, \"frees\": 2, \"peak\": %zu, \"left\": %zu, \"pinned\": %zu, \"managed\": %zu}\n",
	       64 * MIB + 1000 + pitch * 100 + 7 * MIB, 1000 + pitch * 100, 3 * MIB, 5 * MIB);
	return 0;
}
