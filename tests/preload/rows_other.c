/* SPDX-License-Identifier: MIT */
/* What the simulated GPU does not have, with the driver of rows_driver.c. */
#include <unistd.h>

#include "rows.h"

static const CUmemAllocationProp anywhere = { .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1 } };

void shut_down(void);
void take_contexts_away(void);
cudaError_t cudaGraphAddNode_v2(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *after,
				const cudaGraphEdgeData *edges, size_t nr, struct cudaGraphNodeParams *p);

static void tile(const char *kind, const char *call, CUmemGenericAllocationHandle handle)
{
	printf("{\"kind\": \"%s\", \"what\": \"\", \"call\": \"%s\", \"size\": 1", kind, call);
	if (!strcmp(kind, "map"))
		printf(", \"handle\": %llu", handle);
	puts("}");
}

/* What it shows are references to memory of others; the object has none of its own. */
static void multicast(void)
{
	CUmulticastObjectProp prop = { .numDevices = 2, .size = 8 * MIB }, bad = { .size = 0 };
	CUmemGenericAllocationHandle object, memory;

	OK(cuInit(0));
	OK(cuMemCreate(&memory, 4 * MIB, &anywhere, 0));
	allocated("handle", "cuMemCreate", memory, 4 * MIB);
	OK(cuMulticastCreate(&object, &prop));
	allocated("multicast", "cuMulticastCreate", object, 8 * MIB);
	OK(cuMulticastAddDevice(object, 1));
	expect_more("object_set", "multicast", "cuMulticastAddDevice", object, 0, ", \"device\": 1");
	OK(cuMulticastBindMem(object, 0, memory, 0, 4 * MIB, 0));
	tile("map", "cuMulticastBindMem", memory);
	OK(cuMulticastBindAddr(object, 4 * MIB, 0x5000, 4 * MIB, 0));
	tile("map", "cuMulticastBindAddr", 0);
	OK(cuMemRelease(memory));
	freed("handle", "cuMemRelease", memory, 4 * MIB);
	live(4 * MIB); /* bound still */
	OK(cuMulticastUnbind(object, 1, 0, 4 * MIB));
	tile("unmap", "cuMulticastUnbind", 0);
	live(0);
	OK(cuMemRelease(object));
	freed("multicast", "cuMemRelease", object, 8 * MIB);
	FAILS(INVALID, cuMulticastCreate(&object, &bad));
	FAILS(101, cuMulticastAddDevice(object, 7));
	FAILS(INVALID, cuMulticastBindMem(object, 0, 0, 0, 4 * MIB, 0));
	FAILS(INVALID, cuMulticastBindAddr(object, 0, 0, 4 * MIB, 0));
	FAILS(INVALID, cuMulticastUnbind(0, 1, 0, 4 * MIB));
}

static void memory_given_to_other_devices(void)
{
	CUdeviceptr p;
	int fd;

	OK(cuInit(0));
	OK(cuMemAlloc_v2(&p, 3 * MIB));
	allocated("device", "cuMemAlloc_v2", p, 3 * MIB);
	OK(cuMemGetHandleForAddressRange(&fd, p, 3 * MIB, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	born("export", "cuMemGetHandleForAddressRange", (void *)p, 3 * MIB);
	FAILS(INVALID, cuMemGetHandleForAddressRange(&fd, p, 0, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
}

static void external_memory(void)
{
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC d = { .size = 3 * MIB }, none = { .size = 0 },
					 too_large = { .size = TOO_MUCH };
	CUDA_EXTERNAL_MEMORY_BUFFER_DESC part = { .size = MIB };
	CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC levels = { .numLevels = 1 };
	struct cudaExternalMemoryHandleDesc rd = { .size = 5 * MIB };
	struct cudaExternalMemoryBufferDesc rpart = { .size = 2 * MIB };
	struct cudaExternalMemoryMipmappedArrayDesc rlevels = { .numLevels = 1 };
	cudaMipmappedArray_t rarray;
	cudaExternalMemory_t rm;
	CUmipmappedArray array;
	CUexternalMemory m;
	CUdeviceptr p;
	void *q;

	OK(cuInit(0));
	OK(cuImportExternalMemory(&m, &d));
	born("external", "cuImportExternalMemory", m, 3 * MIB);
	OK(cudaImportExternalMemory(&rm, &rd));
	born("external", "cudaImportExternalMemory", rm, 5 * MIB);
	OK(cuExternalMemoryGetMappedBuffer(&p, m, &part));
	allocated("ipc", "cuExternalMemoryGetMappedBuffer", p, MIB);
	OK(cudaExternalMemoryGetMappedBuffer(&q, rm, &rpart));
	allocated("ipc", "cudaExternalMemoryGetMappedBuffer", (uintptr_t)q, 2 * MIB);
	OK(cuExternalMemoryGetMappedMipmappedArray(&array, m, &levels));
	allocated("array", "cuExternalMemoryGetMappedMipmappedArray", (uintptr_t)array, 0);
	OK(cudaExternalMemoryGetMappedMipmappedArray(&rarray, rm, &rlevels));
	allocated("array", "cudaExternalMemoryGetMappedMipmappedArray", (uintptr_t)rarray, 0);
	live(0);
	OK(cuMemFree_v2(p));
	freed("ipc", "cuMemFree_v2", p, MIB);
	OK(cuMipmappedArrayDestroy(array));
	freed("array", "cuMipmappedArrayDestroy", (uintptr_t)array, 0);
	OK(cuDestroyExternalMemory(m));
	gone("external", "cuDestroyExternalMemory", m);
	OK(cudaDestroyExternalMemory(rm));
	gone("external", "cudaDestroyExternalMemory", rm);
	FAILS(INVALID, cuImportExternalMemory(&m, &none));
	FAILS(NO_MEMORY, cuImportExternalMemory(&m, &too_large));
	refused("device", "cuImportExternalMemory", 0);
	FAILS(INVALID, cuExternalMemoryGetMappedBuffer(&p, NULL, &part));
	FAILS(INVALID, cuExternalMemoryGetMappedMipmappedArray(&array, NULL, &levels));
	FAILS(INVALID, cuDestroyExternalMemory(NULL));
}

static void primary(const char *kind, const char *call, uint64_t handle)
{
	expect(kind, "context", call, handle, 0);
}

/* The last release of the primary context ends it, a green context's among them. */
static void green_contexts(void)
{
	CUdeviceptr p;
	CUgreenCtx g;

	OK(cuInit(0));
	OK(cuGreenCtxCreate(&g, NULL, 0, CU_GREEN_CTX_DEFAULT_STREAM));
	primary("object_new", "cuGreenCtxCreate", 0);
	born("green_context", "cuGreenCtxCreate", g, 0);
	OK(cuMemAlloc_v2(&p, 3000));
	allocated("device", "cuMemAlloc_v2", p, 3000);
	OK(cuGreenCtxDestroy(g));
	gone("green_context", "cuGreenCtxDestroy", g);
	expect("reset", "", "cuGreenCtxDestroy", 0, 0);
	primary("object_gone", "cuGreenCtxDestroy", 0);
	live(0);
	FAILS(INVALID, cuGreenCtxCreate(&g, NULL, 0, 0));
	FAILS(NO_MEMORY, cuGreenCtxCreate(&g, NULL, 1, CU_GREEN_CTX_DEFAULT_STREAM));
	expect_more("alloc_failed", "device", "cuGreenCtxCreate", 0, 0, ", \"device\": 1");
	FAILS(INVALID, cuGreenCtxDestroy(NULL));
}

static void the_last_release(void)
{
	CUdeviceptr p;
	CUcontext c;

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&c, 0));
	primary("object_new", "cuDevicePrimaryCtxRetain", 0x4242);
	OK(cuDevicePrimaryCtxRetain(&c, 0));
	OK(cuMemAlloc_v2(&p, 3000));
	allocated("device", "cuMemAlloc_v2", p, 3000);
	OK(cuDevicePrimaryCtxRelease_v2(0)); /* one retain is left */
	OK(cuDevicePrimaryCtxRelease(0));
	expect("reset", "", "cuDevicePrimaryCtxRelease", 0, 0);
	primary("object_gone", "cuDevicePrimaryCtxRelease", 0x4242);
	live(0);
	FAILS(CUDA_ERROR_INVALID_CONTEXT, cuDevicePrimaryCtxRelease_v2(0));
	OK(cuDevicePrimaryCtxRetain(&c, 0));
	primary("object_new", "cuDevicePrimaryCtxRetain", 0x4242);
	OK(cuDevicePrimaryCtxRelease_v2(0));
	expect("reset", "", "cuDevicePrimaryCtxRelease_v2", 0, 0);
	primary("object_gone", "cuDevicePrimaryCtxRelease_v2", 0x4242);
}

/* The runtime resets the device that it has for this thread, which need not have a context. */
static void a_reset_without_a_context(void)
{
	CUcontext c;

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&c, 1));
	primary("object_new", "cuDevicePrimaryCtxRetain", 0x4242);
	take_contexts_away();
	OK(cudaDeviceReset());
	expect_more("reset", "", "cudaDeviceReset", 0, 0, ", \"device\": 1");
	primary("object_gone", "cudaDeviceReset", 0x4242);
}

/* Pools that nobody made: their memory says what they are. */
static void pools_that_are_just_there(void)
{
	CUmemLocation host = { .type = CU_MEM_LOCATION_TYPE_HOST },
		      none = { .type = CU_MEM_LOCATION_TYPE_NONE };
	CUmemoryPool pool;
	CUdeviceptr p;

	OK(cuInit(0));
	OK(cuMemGetDefaultMemPool(&pool, &host, CU_MEM_ALLOCATION_TYPE_PINNED));
	OK(cuMemAllocFromPoolAsync(&p, 1000, pool, NULL));
	allocated("pool_host", "cuMemAllocFromPoolAsync", p, 1000);
	OK(cuMemAllocFromPoolAsync(&p, 2000, pool, NULL));
	allocated("pool_host", "cuMemAllocFromPoolAsync", p, 2000);
	OK(cuMemGetDefaultMemPool(&pool, &none, CU_MEM_ALLOCATION_TYPE_MANAGED));
	OK(cuMemAllocFromPoolAsync(&p, 4000, pool, NULL));
	allocated("managed", "cuMemAllocFromPoolAsync", p, 4000);
	live(0);
}

/* NULL is the per-thread default stream in these functions, which is captured; the legacy one is not. */
static void captures_of_the_default_stream(void)
{
	CUgraph graph;
	CUdeviceptr p;

	OK(cuInit(0));
	OK(cuMemAllocAsync_ptsz(&p, 500, NULL));
	expect_more("driver_alloc", "pool", "cuMemAllocAsync_ptsz", p, 500, ", \"stream\": 2");
	OK(cuStreamBeginCapture_v2(CU_STREAM_PER_THREAD, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuMemAllocAsync_ptsz(&p, 1000, NULL));
	expect_more("driver_alloc", "graph", "cuMemAllocAsync_ptsz", p, 1000, ", \"capturing\": true");
	OK(cuMemFreeAsync_ptsz(p, NULL));
	expect_more("driver_free", "graph", "cuMemFreeAsync_ptsz", p, 1000, ", \"capturing\": true");
	OK(cuStreamEndCapture(CU_STREAM_PER_THREAD, &graph));
	live(500);
}

/* Initializes the driver, and makes a graph that allocates so much ready to be launched. */
static CUgraphExec graph_of_1000_bytes(CUgraph graph)
{
	CUgraphNodeParams p = { .type = CU_GRAPH_NODE_TYPE_MEM_ALLOC };
	CUgraphNode node;
	CUgraphExec exec;

	OK(cuInit(0));
	p.alloc.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	p.alloc.bytesize = 1000;
	OK(cuGraphAddNode_v2(&node, graph, NULL, NULL, 0, &p));
	allocated("graph", "cuGraphAddNode_v2", p.alloc.dptr, 1000);
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	born("graph", "cuGraphInstantiateWithFlags", exec, 0);
	return exec;
}

/* While a capture is open, however it was begun, the driver is asked nothing; once it has ended it is. */
static void every_form_of_a_capture(void)
{
	CUgraph graph = (CUgraph)0x77000, made;
	CUstream stream = (CUstream)0x500;

	graph_of_1000_bytes(graph);
	FAILS(INVALID, cuStreamBeginCaptureToGraph(stream, NULL, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_RELAXED));
	FAILS(INVALID, cuStreamBeginCaptureToGraph_ptsz(stream, NULL, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_RELAXED));
	for (uint64_t i = 0; i < 6; i++) {
		if (i == 0)
			OK(cuStreamBeginCapture(stream));
		else if (i == 1)
			OK(cuStreamBeginCapture_ptsz(stream));
		else if (i == 2)
			OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
		else if (i == 3)
			OK(cuStreamBeginCapture_v2_ptsz(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
		else if (i == 4)
			OK(cuStreamBeginCaptureToGraph(stream, graph, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_RELAXED));
		else
			OK(cuStreamBeginCaptureToGraph_ptsz(stream, graph, NULL, NULL, 0,
							    CU_STREAM_CAPTURE_MODE_RELAXED));
		OK(cuDeviceGraphMemTrim(0));
		OK(i % 2 ? cuStreamEndCapture_ptsz(stream, &made) : cuStreamEndCapture(stream, &made));
		OK(cuDeviceGraphMemTrim(0));
		expect("pool_info", "", "cuDeviceGraphMemTrim", 0, 0x1000 * (i + 1));
	}
}

/* Destroying the stream ends its capture; a call that fails does not. */
static void captures_that_end_with_their_stream(void)
{
	CUgraph graph = (CUgraph)0x77000;
	CUstream stream = (CUstream)0x500;

	graph_of_1000_bytes(graph);
	for (uint64_t i = 0; i < 2; i++) {
		OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
		FAILS(INVALID, i ? cuStreamDestroy_v2(NULL) : cuStreamDestroy(NULL));
		OK(cuDeviceGraphMemTrim(0));
		OK(i ? cuStreamDestroy_v2(stream) : cuStreamDestroy(stream));
		OK(cuDeviceGraphMemTrim(0));
		expect("pool_info", "", "cuDeviceGraphMemTrim", 0, 0x1000 * (i + 1));
	}
}

/* The first launch is followed by a question, further ones are not while it would cost too much. */
static void launches_in_quick_succession(void)
{
	CUgraphExec exec = graph_of_1000_bytes((CUgraph)0x77000);

	for (int i = 0; i < 100; i++) {
		OK(cuGraphLaunch(exec, NULL));
		expect("graph_launch", "", "cuGraphLaunch", (uintptr_t)exec, 0);
		if (!i)
			expect("pool_info", "", "cuGraphLaunch", 0, 0x1000);
	}
}

static void checkpoints(void)
{
	CUdeviceptr p;

	OK(cuInit(0));
	OK(cuMemAlloc_v2(&p, 3000));
	allocated("device", "cuMemAlloc_v2", p, 3000);
	OK(cuCheckpointProcessCheckpoint(getpid(), NULL));
	expect_more("object_set", "context", "cuCheckpointProcessCheckpoint", 0, 1, ", \"which\": 256");
	OK(cuCheckpointProcessRestore(getpid(), NULL));
	expect_more("object_set", "context", "cuCheckpointProcessRestore", 0, 0, ", \"which\": 256");
	OK(cuCheckpointProcessCheckpoint(getpid() + 1, NULL)); /* another's memory */
	FAILS(INVALID, cuCheckpointProcessCheckpoint(0, NULL));
	FAILS(INVALID, cuCheckpointProcessRestore(0, NULL));
	live(3000);
}

/* Where the driver tells what an array takes, that counts. */
static void array_sizes_that_are_told(void)
{
	CUDA_ARRAY_DESCRIPTOR d = { 10, 10, CU_AD_FORMAT_FLOAT, 1 };
	CUarray a;

	OK(cuInit(0));
	OK(cuArrayCreate_v2(&a, &d));
	expect_more("driver_alloc", "array", "cuArrayCreate_v2", (uintptr_t)a, 12345678,
		    ", \"estimated\": false");
}

/* Destructors free what the driver has already dropped: that is no leak. */
static void frees_while_the_driver_shuts_down(void)
{
	CUdeviceptr p;

	OK(cuInit(0));
	OK(cuMemAlloc_v2(&p, 3000));
	allocated("device", "cuMemAlloc_v2", p, 3000);
	shut_down();
	FAILS(CUDA_ERROR_DEINITIALIZED, cuMemFree_v2(p));
	freed("device", "cuMemFree_v2", p, 3000);
	live(0);
}

static void nodes_of_cuda_12(void)
{
	struct cudaGraphNodeParams p = { .type = cudaGraphNodeTypeMemAlloc };
	cudaGraphNode_t node;

	OK(cuInit(0));
	p.alloc.poolProps.location.type = cudaMemLocationTypeDevice;
	p.alloc.bytesize = 1000;
	OK(cudaGraphAddNode_v2(&node, (cudaGraph_t)0x77, NULL, NULL, 0, &p));
	allocated("graph", "cudaGraphAddNode_v2", (uintptr_t)p.alloc.dptr, 1000);
	FAILS(INVALID, cudaGraphAddNode_v2(&node, NULL, NULL, NULL, 0, &p));
}

int main(int argc, char **argv)
{
	return RUN_CASES(argc, argv, CASE(multicast), CASE(memory_given_to_other_devices),
			 CASE(external_memory), CASE(green_contexts), CASE(the_last_release),
			 CASE(a_reset_without_a_context), CASE(pools_that_are_just_there),
			 CASE(captures_of_the_default_stream), CASE(every_form_of_a_capture),
			 CASE(captures_that_end_with_their_stream),
			 CASE(launches_in_quick_succession), CASE(checkpoints), CASE(array_sizes_that_are_told),
			 CASE(frees_while_the_driver_shuts_down), CASE(nodes_of_cuda_12));
}
