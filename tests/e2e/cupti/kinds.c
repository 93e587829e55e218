/* SPDX-License-Identifier: MIT */
/* Takes and gives back memory of every kind for which CUPTI has records, and loads a module: all in known numbers. */
#define __CUDA_API_VERSION_INTERNAL 1
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>

static void check(int status, const char *what)
{
	if (status) {
		fprintf(stderr, "kinds: %s failed with %d\n", what, status);
		exit(2);
	}
}
#define DO(call) check((int)(call), #call)

static void pools(void)
{
	struct cudaMemPoolProps props = { .allocType = cudaMemAllocationTypePinned,
					  .location = { .type = cudaMemLocationTypeDevice } };
	cudaMemPool_t pool;
	void *p, *q;

	DO(cudaMemPoolCreate(&pool, &props));
	DO(cudaMallocFromPoolAsync(&p, 3 << 20, pool, NULL));
	DO(cudaMallocAsync(&q, 5 << 20, NULL));
	DO(cudaFreeAsync(p, NULL));
	DO(cudaFreeAsync(q, NULL));
	DO(cudaStreamSynchronize(NULL));
	DO(cudaMemPoolTrimTo(pool, 0));
	DO(cudaMemPoolDestroy(pool));
}

static void modules(void)
{
	static const char ptx[] = ".version 8.0\n.target sm_80\n.address_size 64\n";
	cudaLibrary_t library;
	CUmodule module;

	DO(cuModuleLoadData(&module, ptx));
	DO(cuModuleUnload(module));
	DO(cudaLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0));
	DO(cudaLibraryUnload(library));
}

int main(void)
{
	void *device, *pinned, *managed, *kept;

	DO(cudaMalloc(&device, 1 << 20));
	DO(cudaMalloc(&kept, 7 << 20));
	DO(cudaMallocHost(&pinned, 2 << 20));
	DO(cudaMallocManaged(&managed, 4 << 20, cudaMemAttachGlobal));
	pools();
	modules();
	DO(cudaFree(device));
	DO(cudaFreeHost(pinned));
	DO(cudaFree(managed));
	return 0;
}
