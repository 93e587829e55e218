/* SPDX-License-Identifier: MIT */
/* The simulated GPU's rules for memory, capture and entry points, through its own public functions. */
#define __CUDA_API_VERSION_INTERNAL 1
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <cuda.h>
#include <cuda_runtime_api.h>

/* cudaMemcpy of programs that were compiled with --default-stream per-thread. */
cudaError_t cudaMemcpy_ptds(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind);

#define MIB(n) ((size_t)(n) << 20)
#define CAPACITY MIB(1024)

static size_t free_bytes(void)
{
	size_t available = 0, total = 0;

	assert_int_equal(cuMemGetInfo_v2(&available, &total), CUDA_SUCCESS);
	assert_int_equal(total, CAPACITY);
	return available;
}

static void allocations_end_at_the_capacity(void **state)
{
	size_t before = free_bytes();
	CUdeviceptr p = 0, q = 0;

	(void)state;
	assert_int_equal(cuMemAlloc_v2(&p, before + 1), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(cuMemAlloc_v2(&p, SIZE_MAX - 5), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(free_bytes(), before);
	assert_int_equal(cuMemAlloc_v2(&p, before), CUDA_SUCCESS);
	assert_int_equal(free_bytes(), 0);
	assert_int_equal(cuMemAlloc_v2(&q, 1), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(cuMemFree_v2(p), CUDA_SUCCESS);
	assert_int_equal(free_bytes(), before);
	assert_int_equal(cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemFree_v2(0), CUDA_SUCCESS);
	assert_int_equal(cuMemAlloc_v2(&p, 0), CUDA_ERROR_INVALID_VALUE);
}

static void frees_of_what_is_not_allocated_are_errors(void **state)
{
	CUdeviceptr p, small;
	char host[64];
	void *pinned;

	(void)state;
	assert_int_equal(cuMemAlloc_v2(&p, MIB(4)), CUDA_SUCCESS);
	assert_int_equal(cuMemAlloc_v2(&small, 100), CUDA_SUCCESS);
	assert_int_equal(cuMemHostAlloc(&pinned, 100, 0), CUDA_SUCCESS);
	assert_int_equal(cuMemFree_v2(p + 512), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemFree_v2((CUdeviceptr)host), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemFree_v2((CUdeviceptr)pinned), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemFreeHost((void *)p), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemFreeHost(host), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemFreeAsync((CUdeviceptr)host, NULL), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemHostUnregister(host), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	assert_int_equal(cuMemFree_v2(p), CUDA_SUCCESS);
	assert_int_equal(cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemFree_v2(small), CUDA_SUCCESS);
	assert_int_equal(cuMemFree_v2(small), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemFreeHost(pinned), CUDA_SUCCESS);
	assert_int_equal(cuMemFreeHost(pinned), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cudaFree(host), cudaErrorInvalidValue);
	assert_int_equal(cudaGetLastError(), cudaErrorInvalidValue);
}

static void handles_that_are_none_are_errors(void **state)
{
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 } };
	CUmemPoolProps pool_props = { .allocType = prop.type, .location = prop.location };
	CUmemGenericAllocationHandle physical;
	CUmemoryPool pool;
	char host[64];

	(void)state;
	assert_int_equal(cuMemCreate(&physical, MIB(2), &prop, 0), CUDA_SUCCESS);
	assert_int_equal(cuMemRelease(physical), CUDA_SUCCESS);
	assert_int_equal(cuMemRelease(physical), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemRelease(0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemRelease(0x1234), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemGetAllocationPropertiesFromHandle(&prop, physical), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemPoolCreate(&pool, &pool_props), CUDA_SUCCESS);
	assert_int_equal(cuMemPoolDestroy(pool), CUDA_SUCCESS);
	assert_int_equal(cuMemPoolDestroy(pool), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemPoolDestroy((CUmemoryPool)host), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemPoolTrimTo(NULL, 0), CUDA_ERROR_INVALID_VALUE);
}

static void a_host_access_to_freed_memory_faults(void **state)
{
	CUdeviceptr p;
	int status = -1;
	pid_t child;

	(void)state;
	assert_int_equal(cuMemAlloc_v2(&p, MIB(4)), CUDA_SUCCESS);
	assert_int_equal(*(volatile char *)p, 0);
	assert_int_equal(cuMemFree_v2(p), CUDA_SUCCESS);
	child = fork();
	if (!child) {
		signal(SIGSEGV, SIG_DFL);
		_exit(*(volatile char *)p);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

static void small_allocations_share_a_granule(void **state)
{
	size_t before = free_bytes();
	CUdeviceptr p[4096];

	(void)state;
	for (int i = 0; i < 4096; i++) {
		assert_int_equal(cuMemAlloc_v2(&p[i], 100), CUDA_SUCCESS);
		assert_int_equal(free_bytes(), before - MIB(2));
	}
	assert_int_equal(p[1] - p[0], 512);
	assert_int_equal(cuMemFree_v2(p[7]), CUDA_SUCCESS);
	assert_int_equal(cuMemAlloc_v2(&p[7], 512), CUDA_SUCCESS);
	assert_int_equal(p[7] - p[0], 7 * 512);
	for (int i = 0; i < 4096; i++)
		assert_int_equal(cuMemFree_v2(p[i]), CUDA_SUCCESS);
	assert_int_equal(free_bytes(), before);
}

static void contents_are_what_the_host_wrote_and_else_zero(void **state)
{
	char out[5000], in[5000];
	CUdeviceptr p, q;

	(void)state;
	memset(in, 7, sizeof(in));
	memset(out, 1, sizeof(out));
	assert_int_equal(cuMemAlloc_v2(&p, MIB(4)), CUDA_SUCCESS);
	assert_int_equal(cuMemAlloc_v2(&q, MIB(4)), CUDA_SUCCESS);
	assert_int_equal(cuMemcpyDtoH_v2(out, p, sizeof(out)), CUDA_SUCCESS);
	assert_int_equal(out[0] | out[4999], 0);
	assert_int_equal(cuMemcpyHtoD_v2(p + 100, in, sizeof(in)), CUDA_SUCCESS);
	assert_int_equal(cuMemcpyDtoD_v2(q, p + 100, sizeof(in)), CUDA_SUCCESS);
	assert_int_equal(cuMemcpyDtoH_v2(out, q, sizeof(out)), CUDA_SUCCESS);
	assert_memory_equal(in, out, sizeof(in));
	assert_int_equal(cuMemsetD32_v2(q, 0, 1000), CUDA_SUCCESS);
	assert_int_equal(cuMemcpyDtoH_v2(out, q, sizeof(out)), CUDA_SUCCESS);
	assert_int_equal(out[3999], 0);
	assert_int_equal(out[4000], 7);
	assert_int_equal(cuMemcpyDtoD_v2(q, p + MIB(1), 4500), CUDA_SUCCESS);
	assert_int_equal(cuMemcpyDtoH_v2(out, q, sizeof(out)), CUDA_SUCCESS);
	assert_int_equal(out[4499], 0);
	assert_int_equal(out[4500], 7);
	cuMemFree_v2(p);
	cuMemFree_v2(q);
}

static void physical_memory_is_charged_until_released_and_unmapped(void **state)
{
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 } };
	CUmemAccessDesc access = { .location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUmemGenericAllocationHandle handle, retained;
	size_t before = free_bytes();
	CUdeviceptr p;
	char byte = 9;

	(void)state;
	assert_int_equal(cuMemAddressReserve(&p, MIB(64), 0, 0, 0), CUDA_SUCCESS);
	assert_int_equal(cuMemCreate(&handle, MIB(64) + 1, &prop, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemCreate(&handle, 2 * CAPACITY, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(cuMemCreate(&handle, MIB(8), &prop, 0), CUDA_SUCCESS);
	assert_int_equal(free_bytes(), before - MIB(8));
	assert_int_equal(cuMemMap(p + MIB(60), MIB(8), 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemMap(p, MIB(8), 0, handle, 0), CUDA_SUCCESS);
	assert_int_equal(cuMemMap(p, MIB(8), 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemMap(p + MIB(8), MIB(2), MIB(6), handle, 0), CUDA_SUCCESS);
	assert_int_equal(cuMemSetAccess(p, MIB(10), &access, 1), CUDA_SUCCESS);
	assert_int_equal(cuMemcpyHtoD_v2(p + MIB(7), &byte, 1), CUDA_SUCCESS);
	/* Two mappings of the same bytes; not through a copy, which trusts that it knows who wrote. */
	assert_int_equal(*(char *)(p + MIB(9)), 9);
	assert_int_equal(cuMemRetainAllocationHandle(&retained, (void *)(p + MIB(3))), CUDA_SUCCESS);
	assert_int_equal(retained, handle);
	assert_int_equal(cuMemRelease(handle), CUDA_SUCCESS);
	assert_int_equal(cuMemRelease(handle), CUDA_SUCCESS);
	assert_int_equal(cuMemUnmap(p, MIB(4)), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemUnmap(p, MIB(8)), CUDA_SUCCESS);
	assert_int_equal(free_bytes(), before - MIB(8));
	assert_int_equal(cuMemUnmap(p + MIB(8), MIB(2)), CUDA_SUCCESS);
	assert_int_equal(free_bytes(), before);
	assert_int_equal(cuMemAddressFree(p, MIB(64)), CUDA_SUCCESS);
	assert_int_equal(cuMemAddressFree(p, MIB(64)), CUDA_ERROR_INVALID_VALUE);
}

static void many_handles_need_few_descriptors(void **state)
{
	enum { NR = 200 };
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 } };
	CUmemAccessDesc access = { .location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	struct rlimit old, few = { 32, 32 };
	CUmemGenericAllocationHandle handles[NR];
	size_t before = free_bytes();
	CUdeviceptr p;

	(void)state;
	getrlimit(RLIMIT_NOFILE, &old);
	few.rlim_max = old.rlim_max;
	setrlimit(RLIMIT_NOFILE, &few);
	assert_int_equal(cuMemAddressReserve(&p, NR * MIB(2), 0, 0, 0), CUDA_SUCCESS);
	for (int i = 0; i < NR; i++) {
		assert_int_equal(cuMemCreate(&handles[i], MIB(2), &prop, 0), CUDA_SUCCESS);
		assert_int_equal(cuMemMap(p + i * MIB(2), MIB(2), 0, handles[i], 0), CUDA_SUCCESS);
		assert_int_equal(cuMemRelease(handles[i]), CUDA_SUCCESS);
	}
	setrlimit(RLIMIT_NOFILE, &old);
	assert_int_equal(cuMemSetAccess(p, NR * MIB(2), &access, 1), CUDA_SUCCESS);
	for (int i = 0; i < NR; i++)
		assert_int_equal(*(int *)(p + i * MIB(2)), 0);
	assert_int_equal(cuMemUnmap(p, NR * MIB(2)), CUDA_SUCCESS);
	assert_int_equal(cuMemAddressFree(p, NR * MIB(2)), CUDA_SUCCESS);
	assert_int_equal(free_bytes(), before);
}

static cuuint64_t pool_bytes(CUmemoryPool pool, CUmemPool_attribute attribute)
{
	cuuint64_t value = 0;

	assert_int_equal(cuMemPoolGetAttribute(pool, attribute, &value), CUDA_SUCCESS);
	return value;
}

static void pools_keep_what_their_threshold_says(void **state)
{
	cuuint64_t threshold = MIB(40);
	size_t before = free_bytes();
	CUmemoryPool pool;
	CUdeviceptr p, q;

	(void)state;
	assert_int_equal(cuDeviceGetDefaultMemPool(&pool, 0), CUDA_SUCCESS);
	assert_int_equal(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold), CUDA_SUCCESS);
	assert_int_equal(cuMemAllocAsync(&p, 1000, NULL), CUDA_SUCCESS);
	assert_int_equal(cuMemAllocAsync(&q, MIB(60), NULL), CUDA_SUCCESS);
	assert_int_equal(pool_bytes(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), MIB(60) + 1024);
	assert_int_equal(pool_bytes(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), MIB(64));
	assert_int_equal(free_bytes(), before - MIB(64));
	assert_int_equal(cuMemFreeAsync(q, NULL), CUDA_SUCCESS);
	assert_int_equal(cuMemFree_v2(p), CUDA_SUCCESS);
	assert_int_equal(free_bytes(), before - MIB(64));
	assert_int_equal(cuStreamSynchronize(NULL), CUDA_SUCCESS);
	assert_int_equal(free_bytes(), before - MIB(40));
	assert_int_equal(cuMemPoolTrimTo(pool, 0), CUDA_SUCCESS);
	assert_int_equal(free_bytes(), before);
	assert_int_equal(pool_bytes(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), MIB(60) + 1024);
	assert_int_equal(cuMemAllocAsync(&p, 2 * CAPACITY, NULL), CUDA_ERROR_OUT_OF_MEMORY);
}

static void capture_counts_nodes_and_prohibits_allocation(void **state)
{
	CUstreamCaptureMode relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUstreamCaptureStatus status;
	CUstream origin, other;
	CUgraphExec exec;
	CUdeviceptr p, q;
	CUevent event;
	CUgraph graph;
	size_t nr = 0;

	(void)state;
	assert_int_equal(cuMemAlloc_v2(&p, 4096), CUDA_SUCCESS);
	assert_int_equal(cuStreamCreate(&origin, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
	assert_int_equal(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
	assert_int_equal(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
	assert_int_equal(cuStreamBeginCapture_v2(origin, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
	assert_int_equal(cuThreadExchangeStreamCaptureMode(&relaxed), CUDA_SUCCESS);
	assert_int_equal(cuMemAlloc_v2(&q, 4096), CUDA_SUCCESS);
	assert_int_equal(cuMemFree_v2(q), CUDA_SUCCESS);
	assert_int_equal(cuThreadExchangeStreamCaptureMode(&relaxed), CUDA_SUCCESS);
	assert_int_equal(cuMemsetD8Async(p, 5, 10, origin), CUDA_SUCCESS);
	assert_int_equal(cuEventRecord(event, origin), CUDA_SUCCESS);
	assert_int_equal(cuStreamWaitEvent(other, event, 0), CUDA_SUCCESS);
	assert_int_equal(cuMemcpyDtoDAsync_v2(p, p + 100, 10, other), CUDA_SUCCESS);
	assert_int_equal(cuStreamEndCapture(other, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
	assert_int_equal(cuStreamEndCapture(origin, &graph), CUDA_SUCCESS);
	assert_int_equal(cuGraphGetNodes(graph, NULL, &nr), CUDA_SUCCESS);
	assert_int_equal(nr, 2);
	assert_int_equal(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
	assert_int_equal(cuGraphDestroy(graph), CUDA_SUCCESS);
	assert_int_equal(cuGraphLaunch(exec, origin), CUDA_SUCCESS);
	assert_int_equal(cuGraphExecDestroy(exec), CUDA_SUCCESS);
	assert_int_equal(cuStreamIsCapturing(other, &status), CUDA_SUCCESS);
	assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_NONE);

	assert_int_equal(cuStreamBeginCapture_v2(origin, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
	assert_int_equal(cuMemAlloc_v2(&q, 4096), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	assert_int_equal(cuStreamEndCapture(origin, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	assert_int_equal(cuStreamBeginCapture_v2(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL),
			 CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	assert_int_equal(cuEventDestroy_v2(event), CUDA_SUCCESS);
	assert_int_equal(cuStreamDestroy_v2(origin), CUDA_SUCCESS);
	assert_int_equal(cuStreamDestroy_v2(other), CUDA_SUCCESS);
	assert_int_equal(cuMemFree_v2(p), CUDA_SUCCESS);
}

static void capture(CUstream stream, CUstreamCaptureMode mode)
{
	assert_int_equal(cuStreamBeginCapture_v2(stream, mode), CUDA_SUCCESS);
}

static void assert_invalidated(CUstream stream)
{
	CUgraph graph;

	assert_int_equal(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	assert_null(graph);
}

/* As the programming guide has it: the legacy stream waits for blocking streams, and synchronous copies are work in it. */
static void the_legacy_stream_spoils_captures_of_blocking_streams(void **state)
{
	CUstream blocking, free_one;
	CUdeviceptr p;
	CUevent event;
	CUgraph graph;
	int word = 7;

	(void)state;
	assert_int_equal(cuMemAlloc_v2(&p, 4096), CUDA_SUCCESS);
	assert_int_equal(cuStreamCreate(&blocking, CU_STREAM_DEFAULT), CUDA_SUCCESS);
	assert_int_equal(cuStreamCreate(&free_one, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
	assert_int_equal(cuEventCreate(&event, 0), CUDA_SUCCESS);
	capture(blocking, CU_STREAM_CAPTURE_MODE_RELAXED);
	assert_int_equal(cudaMemcpy((void *)p, &word, sizeof(word), cudaMemcpyDefault), cudaErrorStreamCaptureImplicit);
	assert_invalidated(blocking);
	capture(blocking, CU_STREAM_CAPTURE_MODE_GLOBAL);
	assert_int_equal(cuMemsetD8Async(p, 1, 16, CU_STREAM_LEGACY), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	assert_invalidated(blocking);
	capture(blocking, CU_STREAM_CAPTURE_MODE_GLOBAL);
	assert_int_equal(cuStreamSynchronize(NULL), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	assert_invalidated(blocking);
	capture(blocking, CU_STREAM_CAPTURE_MODE_GLOBAL);
	assert_int_equal(cuEventRecord(event, NULL), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	assert_invalidated(blocking);
	/* The default stream of a thread is another one, and who does not wait for the legacy stream is free of it. */
	capture(blocking, CU_STREAM_CAPTURE_MODE_RELAXED);
	assert_int_equal(cuMemsetD8Async(p, 1, 16, CU_STREAM_PER_THREAD), CUDA_SUCCESS);
	assert_int_equal(cudaMemcpy_ptds((void *)p, &word, sizeof(word), cudaMemcpyDefault), cudaSuccess);
	assert_int_equal(cuStreamEndCapture(blocking, &graph), CUDA_SUCCESS);
	assert_int_equal(cuGraphDestroy(graph), CUDA_SUCCESS);
	capture(free_one, CU_STREAM_CAPTURE_MODE_RELAXED);
	assert_int_equal(cuMemcpyHtoD_v2(p, &word, sizeof(word)), CUDA_SUCCESS);
	/* A stream that waits for it joins the capture: now the legacy stream concerns it. */
	assert_int_equal(cuEventRecord(event, free_one), CUDA_SUCCESS);
	assert_int_equal(cuStreamWaitEvent(blocking, event, 0), CUDA_SUCCESS);
	assert_int_equal(cuMemcpyHtoD_v2(p, &word, sizeof(word)), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	assert_invalidated(free_one);
	assert_int_equal(cuMemcpyHtoD_v2(p, &word, sizeof(word)), CUDA_SUCCESS);
	assert_int_equal(cuStreamDestroy_v2(blocking), CUDA_SUCCESS);
	assert_int_equal(cuStreamDestroy_v2(free_one), CUDA_SUCCESS);
	assert_int_equal(cuEventDestroy_v2(event), CUDA_SUCCESS);
	assert_int_equal(cuMemFree_v2(p), CUDA_SUCCESS);
	cudaGetLastError();
}

static void waiting_spoils_a_capture_in_every_mode(void **state)
{
	static const CUstreamCaptureMode modes[] = {
		CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_RELAXED,
	};
	CUstream stream, other;
	CUcontext current;
	CUevent event;
	CUgraph graph;

	(void)state;
	assert_int_equal(cuCtxGetCurrent(&current), CUDA_SUCCESS);
	assert_int_equal(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
	assert_int_equal(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
	assert_int_equal(cuEventCreate(&event, 0), CUDA_SUCCESS);
	for (unsigned i = 0; i < 3; i++) {
		capture(stream, modes[i]);
		assert_int_equal(cuCtxSynchronize(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
		assert_invalidated(stream);
		capture(stream, modes[i]);
		assert_int_equal(cuCtxSynchronize_v2(current), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
		assert_invalidated(stream);
		capture(stream, modes[i]);
		assert_int_equal(cuStreamSynchronize(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
		assert_invalidated(stream);
		capture(stream, modes[i]);
		assert_int_equal(cuEventRecord(event, stream), CUDA_SUCCESS);
		assert_int_equal(cuEventQuery(event), CUDA_ERROR_CAPTURED_EVENT);
		assert_invalidated(stream);
		capture(stream, modes[i]);
		assert_int_equal(cuEventRecord(event, stream), CUDA_SUCCESS);
		assert_int_equal(cuEventSynchronize(event), CUDA_ERROR_CAPTURED_EVENT);
		assert_invalidated(stream);
		capture(stream, modes[i]);
		assert_int_equal(cuStreamSynchronize(other), CUDA_SUCCESS);
		assert_int_equal(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
		assert_int_equal(cuGraphDestroy(graph), CUDA_SUCCESS);
	}
	assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
	capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
	assert_int_equal(cuStreamDestroy_v2(stream), CUDA_SUCCESS);	/* the capture ends with it */
	assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
	assert_int_equal(cuEventDestroy_v2(event), CUDA_SUCCESS);
	assert_int_equal(cuStreamDestroy_v2(other), CUDA_SUCCESS);
}

struct elsewhere {
	CUcontext context;
	CUstreamCaptureMode mode;
	CUresult result;
};

static void *allocate_elsewhere(void *arg)
{
	struct elsewhere *e = arg;
	CUdeviceptr p;

	if (cuCtxSetCurrent(e->context) || cuThreadExchangeStreamCaptureMode(&e->mode))
		return NULL;
	e->result = cuMemAlloc_v2(&p, 4096);
	if (!e->result)
		cuMemFree_v2(p);
	return NULL;
}

/* What another thread of MODE gets for an allocation. */
static CUresult allocation_elsewhere(CUstreamCaptureMode mode)
{
	struct elsewhere e = { .mode = mode, .result = CUDA_ERROR_UNKNOWN };
	pthread_t thread;

	assert_int_equal(cuCtxGetCurrent(&e.context), CUDA_SUCCESS);
	assert_int_equal(pthread_create(&thread, NULL, allocate_elsewhere, &e), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	return e.result;
}

static void other_threads_are_prohibited_as_documented(void **state)
{
	CUstreamCaptureMode mode;
	CUdeviceptr p;
	CUstream stream;
	CUgraph graph;

	(void)state;
	assert_int_equal(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
	capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
	assert_int_equal(allocation_elsewhere(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), CUDA_SUCCESS);
	assert_int_equal(allocation_elsewhere(CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
	assert_int_equal(allocation_elsewhere(CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	assert_invalidated(stream);
	for (mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL; mode <= CU_STREAM_CAPTURE_MODE_RELAXED; mode++) {
		capture(stream, mode);
		assert_int_equal(allocation_elsewhere(CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
		assert_int_equal(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
		assert_int_equal(cuGraphDestroy(graph), CUDA_SUCCESS);
	}
	capture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
	assert_int_equal(cuMemAlloc_v2(&p, 4096), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	assert_invalidated(stream);
	assert_int_equal(cuStreamDestroy_v2(stream), CUDA_SUCCESS);
}

static void entry_points_follow_the_asked_version(void **state)
{
	CUdriverProcAddressQueryResult status;
	void *f = NULL;

	(void)state;
	assert_int_equal(cuGetProcAddress_v2("cuMemAlloc", &f, 12000, 0, &status), CUDA_SUCCESS);
	assert_ptr_equal(f, cuMemAlloc_v2);
	assert_int_equal(cuGetProcAddress_v2("cuGetProcAddress", &f, 11030, 0, NULL), CUDA_SUCCESS);
	assert_ptr_equal(f, cuGetProcAddress);
	assert_int_equal(cuGetProcAddress_v2("cuGetProcAddress", &f, 12000, 0, NULL), CUDA_SUCCESS);
	assert_ptr_equal(f, cuGetProcAddress_v2);
	assert_int_equal(cuGetProcAddress_v2("cuMemAllocAsync", &f, 10000, 0, &status), CUDA_SUCCESS);
	assert_null(f);
	assert_int_equal(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
	assert_int_equal(cuGetProcAddress_v2("cuGetExportTable", &f, 13000, 0, &status), CUDA_SUCCESS);
	assert_int_equal(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	assert_null(f);
	assert_int_equal(cuGetProcAddress_v2("", &f, 0, 0, NULL), CUDA_SUCCESS);
	assert_null(f);
	assert_int_equal(cuGetProcAddress("cuMemAllocAsync", &f, 10000, 0), CUDA_ERROR_NOT_FOUND);
	assert_int_equal(cuGetProcAddress_v2("cuGraphInstantiate", &f, 13000, 0, NULL), CUDA_SUCCESS);
	assert_ptr_equal(f, cuGraphInstantiate_v2);
}

static void runtime_errors_stay_until_asked_for(void **state)
{
	void *p = (void *)1;

	(void)state;
	assert_int_equal(cudaMalloc(&p, 2 * CAPACITY), cudaErrorMemoryAllocation);
	assert_int_equal(cudaMalloc(&p, 0), cudaSuccess);
	assert_null(p);
	assert_int_equal(cudaPeekAtLastError(), cudaErrorMemoryAllocation);
	assert_int_equal(cudaGetLastError(), cudaErrorMemoryAllocation);
	assert_int_equal(cudaGetLastError(), cudaSuccess);
	assert_int_equal(cudaFree(&p), cudaErrorInvalidValue);
	assert_int_equal(cudaGetLastError(), cudaErrorInvalidValue);
	assert_string_equal(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
}

static void reset_frees_what_the_device_held(void **state)
{
	size_t before = free_bytes();
	void *p, *q;

	(void)state;
	assert_int_equal(cudaMalloc(&p, MIB(5)), cudaSuccess);
	assert_int_equal(cudaMalloc(&q, 5), cudaSuccess);
	assert_int_equal(cudaDeviceReset(), cudaSuccess);
	assert_int_equal(cudaFree(p), cudaErrorInvalidValue);
	cudaGetLastError();
	assert_int_equal(cudaMalloc(&q, 5), cudaSuccess);
	assert_int_equal(cudaFree(q), cudaSuccess);
	assert_int_equal(free_bytes(), before);
}

static void a_fork_child_gets_errors(void **state)
{
	int status = -1;
	pid_t child = fork();
	void *p;

	(void)state;
	if (!child)
		_exit(cudaMalloc(&p, 100) == cudaErrorInitializationError ? 0 : 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static int set_up(void **state)
{
	void *p;

	(void)state;
	return cudaMalloc(&p, 1) || cudaFree(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(allocations_end_at_the_capacity),
		cmocka_unit_test(frees_of_what_is_not_allocated_are_errors),
		cmocka_unit_test(handles_that_are_none_are_errors),
		cmocka_unit_test(a_host_access_to_freed_memory_faults),
		cmocka_unit_test(small_allocations_share_a_granule),
		cmocka_unit_test(contents_are_what_the_host_wrote_and_else_zero),
		cmocka_unit_test(physical_memory_is_charged_until_released_and_unmapped),
		cmocka_unit_test(many_handles_need_few_descriptors),
		cmocka_unit_test(pools_keep_what_their_threshold_says),
		cmocka_unit_test(capture_counts_nodes_and_prohibits_allocation),
		cmocka_unit_test(the_legacy_stream_spoils_captures_of_blocking_streams),
		cmocka_unit_test(waiting_spoils_a_capture_in_every_mode),
		cmocka_unit_test(other_threads_are_prohibited_as_documented),
		cmocka_unit_test(entry_points_follow_the_asked_version),
		cmocka_unit_test(runtime_errors_stay_until_asked_for),
		cmocka_unit_test(reset_frees_what_the_device_held),
		cmocka_unit_test(a_fork_child_gets_errors),
	};

	setenv("SIMGPU_CAPACITY", "1073741824", 1);
	setenv("SIMGPU_PROFILE", "h100", 1);
	return cmocka_run_group_tests(tests, set_up, NULL);
}
