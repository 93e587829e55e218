/* SPDX-License-Identifier: MIT */
/* Contexts, limits, and device code. */
#include <elf.h>
#include <fcntl.h>
#include <unistd.h>

#include "rows.h"

static void context(const char *kind, const char *call, const void *handle, unsigned number, unsigned device)
{
	char more[96];

	snprintf(more, sizeof(more), ", \"device\": %u", device);
	if (!strcmp(kind, "object_new"))
		snprintf(more + strlen(more), sizeof(more) - strlen(more), ", \"detail\": %u", number);
	expect_more(kind, "context", call, (uintptr_t)handle, 0, more);
}

static void reset(const char *call, unsigned number, unsigned device)
{
	char more[96];

	snprintf(more, sizeof(more), ", \"device\": %u, \"context\": %u", device, number);
	expect_more("reset", "", call, 0, 0, more);
}

static void allocated_in(unsigned number, CUdeviceptr p, uint64_t bytes)
{
	char more[32];

	snprintf(more, sizeof(more), ", \"context\": %u", number);
	expect_more("driver_alloc", "device", "cuMemAlloc_v2", p, bytes, more);
}

static void contexts(void)
{
	CUcontext c;

	OK(cuInit(0));
	OK(cuCtxCreate_v4(&c, NULL, 0, 0));
	context("object_new", "cuCtxCreate_v4", c, 1, 0);
	OK(cuCtxCreate_v3(&c, NULL, 0, 0, 1));
	context("object_new", "cuCtxCreate_v3", c, 2, 1);
	OK(cuCtxCreate_v2(&c, 0, 0));
	context("object_new", "cuCtxCreate_v2", c, 3, 0);
	OK(cuCtxCreate(&c, 0, 0));
	context("object_new", "cuCtxCreate", c, 4, 0);
	OK(cuCtxDestroy(c));
	reset("cuCtxDestroy", 4, 0);
	context("object_gone", "cuCtxDestroy", c, 4, 0);
	FAILS(101, cuCtxCreate_v2(&c, 0, 77));
	FAILS(CUDA_ERROR_INVALID_CONTEXT, cuCtxDestroy_v2(NULL));
}

/* What was allocated in it ends with it; pool memory belongs to no context, and other contexts keep theirs.
 */
static void the_end_of_a_context(void)
{
	CUdeviceptr p, q, pooled, other;
	CUcontext c, second;

	OK(cuInit(0));
	OK(cuCtxCreate_v2(&second, 0, 0));
	context("object_new", "cuCtxCreate_v2", second, 1, 0);
	OK(cuMemAlloc_v2(&other, 5000));
	allocated_in(1, other, 5000);
	OK(cuCtxCreate_v2(&c, 0, 0));
	context("object_new", "cuCtxCreate_v2", c, 2, 0);
	OK(cuMemAlloc_v2(&p, 3000));
	allocated_in(2, p, 3000);
	OK(cuMemAllocAsync(&pooled, 7000, NULL));
	allocated("pool", "cuMemAllocAsync", pooled, 7000);
	OK(cuCtxDestroy_v2(c));
	reset("cuCtxDestroy_v2", 2, 0);
	context("object_gone", "cuCtxDestroy_v2", c, 2, 0);
	live(5000 + 7000);
	FAILS(INVALID, cuMemFree_v2(p));
	not_freed("device", "cuMemFree_v2", p);
	OK(cuMemAlloc_v2(&q, 9000));
	allocated_in(1, q, 9000);
	OK(cuMemFree_v2(other));
	freed("device", "cuMemFree_v2", other, 5000);
	live(9000 + 7000);
}

static void primary_contexts(void)
{
	CUcontext c, again;
	CUdeviceptr p;

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&c, 0));
	context("object_new", "cuDevicePrimaryCtxRetain", c, 0, 0);
	OK(cuCtxSetCurrent(c));
	OK(cuDevicePrimaryCtxRetain(&again, 0)); /* the same */
	OK(cuMemAlloc_v2(&p, 3000));
	allocated_in(0, p, 3000);
	OK(cuDevicePrimaryCtxReset_v2(0));
	reset("cuDevicePrimaryCtxReset_v2", 0, 0);
	context("object_gone", "cuDevicePrimaryCtxReset_v2", c, 0, 0);
	live(0);
	OK(cuMemAlloc_v2(&p, 4000));
	context("object_new", "cuMemAlloc_v2", NULL, 0, 0);
	allocated_in(0, p, 4000);
	OK(cuDevicePrimaryCtxReset(0));
	reset("cuDevicePrimaryCtxReset", 0, 0);
	context("object_gone", "cuDevicePrimaryCtxReset", NULL, 0, 0);
	FAILS(101, cuDevicePrimaryCtxRetain(&c, 77));
	FAILS(101, cuDevicePrimaryCtxReset_v2(77));
	FAILS(101, cuDevicePrimaryCtxRelease_v2(77));
	live(0);
}

static void device_reset(void)
{
	void *p;

	OK(cudaInitDevice(0, 0, 0));
	printf("{\"kind\": \"object_new\", \"what\": \"context\", \"call\": \"cudaInitDevice\"}\n");
	OK(cudaMalloc(&p, 3000));
	allocated("device", "cudaMalloc", (uintptr_t)p, 3000);
	OK(cudaDeviceReset());
	reset("cudaDeviceReset", 0, 0);
	printf("{\"kind\": \"object_gone\", \"what\": \"context\", \"call\": \"cudaDeviceReset\"}\n");
	live(0);
}

static void limits(void)
{
	use_primary();
	OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096));
	expect_more("object_set", "context", "cuCtxSetLimit", 0, 4096, ", \"which\": 0");
	OK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 64 * MIB));
	expect_more("object_set", "context", "cudaDeviceSetLimit", 0, 64 * MIB, ", \"which\": 2");
	FAILS(CUDA_ERROR_UNSUPPORTED_LIMIT, cuCtxSetLimit((CUlimit)100, 1));
}

/* ---- device code --------------------------------------------------------------------------------- */

/* A cubin of so many bytes: an ELF file without contents. */
static const void *cubin(char *image, size_t bytes)
{
	Elf64_Ehdr head = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, 1 },
			    .e_shentsize = 64,
			    .e_shnum = 1 };

	head.e_shoff = bytes - 64;
	memset(image, 0, bytes);
	memcpy(image, &head, sizeof(head));
	return image;
}

static const char ptx[] = ".version 8.0\n.target sm_90\n.address_size 64\n";

static const char *file_of(size_t bytes)
{
	static char path[64];
	char image[2048];
	int fd;

	snprintf(path, sizeof(path), "/tmp/rows-module-%d", getpid());
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (fd < 0 || write(fd, cubin(image, bytes), bytes) != (ssize_t)bytes || close(fd))
		exit(1);
	return path;
}

static void modules(void)
{
	const char *path = file_of(700);
	char image[1024];
	CUmodule m;

	use_primary();
	OK(cuModuleLoad(&m, path));
	unlink(path);
	born("module", "cuModuleLoad", m, 700);
	OK(cuModuleLoadData(&m, cubin(image, 512)));
	born("module", "cuModuleLoadData", m, 512);
	OK(cuModuleLoadDataEx(&m, cubin(image, 640), 0, NULL, NULL));
	born("module", "cuModuleLoadDataEx", m, 640);
	OK(cuModuleLoadData(&m, ptx)); /* what it is compiled to, is not told */
	born("module", "cuModuleLoadData", m, 0);
	OK(cuModuleLoadFatBinary(&m, cubin(image, 1024)));
	born("module", "cuModuleLoadFatBinary", m, 1024);
	OK(cuModuleUnload(m));
	gone("module", "cuModuleUnload", m);
	FAILS(301, cuModuleLoad(&m, "/nonexistent"));
	FAILS(INVALID, cuModuleLoadData(&m, NULL));
	FAILS(400, cuModuleUnload(NULL));
}

static void libraries(void)
{
	const char *path = file_of(700);
	cudaLibrary_t runtime;
	char image[1024];
	CUlibrary l;

	use_primary();
	OK(cuLibraryLoadData(&l, cubin(image, 512), NULL, NULL, 0, NULL, NULL, 0));
	born("library", "cuLibraryLoadData", l, 512);
	OK(cuLibraryLoadFromFile(&l, path, NULL, NULL, 0, NULL, NULL, 0));
	born("library", "cuLibraryLoadFromFile", l, 700);
	OK(cudaLibraryLoadData(&runtime, cubin(image, 640), NULL, NULL, 0, NULL, NULL, 0));
	born("library", "cudaLibraryLoadData", runtime, 640);
	OK(cudaLibraryUnload(runtime));
	gone("library", "cudaLibraryUnload", runtime);
	OK(cudaLibraryLoadFromFile(&runtime, path, NULL, NULL, 0, NULL, NULL, 0));
	born("library", "cudaLibraryLoadFromFile", runtime, 700);
	unlink(path);
	OK(cuLibraryUnload(l));
	gone("library", "cuLibraryUnload", l);
	FAILS(301, cuLibraryLoadFromFile(&l, "/nonexistent", NULL, NULL, 0, NULL, NULL, 0));
	FAILS(INVALID, cuLibraryLoadData(&l, NULL, NULL, NULL, 0, NULL, NULL, 0));
}

int main(int argc, char **argv)
{
	return RUN_CASES(argc, argv, CASE(contexts), CASE(the_end_of_a_context), CASE(primary_contexts),
			 CASE(device_reset), CASE(limits), CASE(modules), CASE(libraries));
}
