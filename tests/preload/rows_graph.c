/* SPDX-License-Identifier: MIT */
/* Graphs that allocate. What the driver has reserved for them is sampled when it may have changed. */
#include "rows.h"

#define CAPTURED ", \"capturing\": true"

static CUstream stream;

static void begin(void)
{
	use_primary();
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
}

static void sampled(const char *call, uint64_t reserved, uint64_t used)
{
	char more[64];

	snprintf(more, sizeof(more), ", \"used_bytes\": %" PRIu64, used);
	expect_more("pool_info", "", call, 0, reserved, more);
}

static CUdeviceptr add_alloc(CUgraph graph, size_t bytes)
{
	CUDA_MEM_ALLOC_NODE_PARAMS p = { .poolProps = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
							.location.type = CU_MEM_LOCATION_TYPE_DEVICE },
					 .bytesize = bytes };
	CUgraphNode node;

	OK(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &p));
	allocated("graph", "cuGraphAddMemAllocNode", p.dptr, bytes);
	return p.dptr;
}

static CUgraphExec instantiate(CUgraph graph)
{
	CUgraphExec exec;

	OK(cuGraphInstantiateWithFlags(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
	expect_more("object_new", "graph", "cuGraphInstantiateWithFlags", (uintptr_t)exec, 0,
		    ", \"detail\": 1");
	return exec;
}

/* An allocation in a capture is a node of the graph, and no pool's. */
static void captured_allocations(void)
{
	CUdeviceptr p, q;
	CUgraphExec exec;
	CUgraph graph;
	void *r;

	begin();
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuMemAllocAsync(&p, 1000, stream));
	expect_more("driver_alloc", "graph", "cuMemAllocAsync", p, 1000, CAPTURED);
	OK(cudaMallocAsync(&r, 2000, stream));
	expect_more("driver_alloc", "graph", "cudaMallocAsync", (uintptr_t)r, 2000, CAPTURED);
	OK(cuMemFreeAsync(p, stream));
	expect_more("driver_free", "graph", "cuMemFreeAsync", p, 1000, CAPTURED);
	OK(cuMemAllocAsync(&q, 4000, NULL)); /* this stream is not captured */
	expect_more("driver_alloc", "pool", "cuMemAllocAsync", q, 4000, ", \"capturing\": false");
	OK(cuStreamEndCapture(stream, &graph));
	exec = instantiate(graph);
	OK(cuMemAllocAsync(&q, 5000, stream));
	expect_more("driver_alloc", "pool", "cuMemAllocAsync", q, 5000, ", \"capturing\": false");
	OK(cuGraphLaunch(exec, stream));
	expect("graph_launch", "", "cuGraphLaunch", (uintptr_t)exec, 0);
	sampled("cuGraphLaunch", 2 * MIB, 2048);
	OK(cuStreamBeginCapture(stream)); /* as CUDA 10.0 had it */
	OK(cuMemAllocAsync_ptsz(&p, 6000, stream));
	expect_more("driver_alloc", "graph", "cuMemAllocAsync_ptsz", p, 6000, CAPTURED);
	OK(cuStreamEndCapture(stream, &graph));
}

/* Only the stream that began a capture ends it. */
static void captures_of_several_streams(void)
{
	CUstream joined;
	CUgraph graph;
	CUdeviceptr p;
	CUevent event;

	begin();
	OK(cuStreamCreate(&joined, CU_STREAM_NON_BLOCKING));
	OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuEventRecord(event, stream));
	OK(cuStreamWaitEvent(joined, event, 0));
	FAILS(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, cuStreamEndCapture(joined, &graph));
	OK(cuMemAllocAsync(&p, 1000, stream));
	expect_more("driver_alloc", "graph", "cuMemAllocAsync", p, 1000, CAPTURED);
	OK(cuEventRecord(event, joined));
	OK(cuStreamWaitEvent(stream, event, 0));
	OK(cuStreamEndCapture(stream, &graph));
}

/* More nodes than graphs are remembered, and more graphs. */
static void many_of_them(void)
{
	CUgraph graph[70], large;
	CUgraphExec exec;

	begin();
	OK(cuGraphCreate(&graph[0], 0));
	add_alloc(graph[0], 3 * MIB);
	OK(cuGraphCreate(&large, 0));
	for (int i = 0; i < 70; i++)
		add_alloc(large, 512);
	instantiate(graph[0]);
	for (int i = 1; i < 70; i++) {
		OK(cuGraphCreate(&graph[i], 0));
		add_alloc(graph[i], MIB);
	}
	OK(cuGraphInstantiateWithFlags(&exec, graph[1], 0));
	expect("object_new", "graph", "cuGraphInstantiateWithFlags", (uintptr_t)exec, 0);
	OK(cuGraphLaunch(exec, stream));
	expect("graph_launch", "", "cuGraphLaunch", (uintptr_t)exec, 0);
	sampled("cuGraphLaunch", 2 * MIB, MIB);
}

/* Nodes say where they allocate, whatever device the graph is launched from. */
static void graphs_of_other_devices(void)
{
	CUDA_MEM_ALLOC_NODE_PARAMS p = { .poolProps = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
							.location = { CU_MEM_LOCATION_TYPE_DEVICE, { 1 } } },
					 .bytesize = 3 * MIB };
	CUgraphExec exec;
	CUgraphNode node;
	CUgraph graph;

	begin();
	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &p));
	expect_more("driver_alloc", "graph", "cuGraphAddMemAllocNode", p.dptr, 3 * MIB, ", \"device\": 1");
	exec = instantiate(graph);
	OK(cuGraphLaunch(exec, stream));
	expect("graph_launch", "", "cuGraphLaunch", (uintptr_t)exec, 0);
	expect_more("pool_info", "", "cuGraphLaunch", 0, 4 * MIB, ", \"device\": 1");
}

static void allocation_nodes(void)
{
	struct cudaMemAllocNodeParams runtime = { .poolProps = { .allocType = cudaMemAllocationTypePinned,
								 .location.type = cudaMemLocationTypeDevice },
						  .bytesize = 3000 };
	CUDA_MEM_ALLOC_NODE_PARAMS bad = { .bytesize = 0 };
	CUgraphNode node;
	CUgraph graph;
	CUdeviceptr p;

	begin();
	OK(cuGraphCreate(&graph, 0));
	p = add_alloc(graph, 2000);
	OK(cudaGraphAddMemAllocNode(&node, graph, NULL, 0, &runtime));
	allocated("graph", "cudaGraphAddMemAllocNode", (uintptr_t)runtime.dptr, 3000);
	OK(cuGraphAddMemFreeNode(&node, graph, NULL, 0, p));
	freed("graph", "cuGraphAddMemFreeNode", p, 2000);
	OK(cudaGraphAddMemFreeNode(&node, graph, NULL, 0, runtime.dptr));
	freed("graph", "cudaGraphAddMemFreeNode", (uintptr_t)runtime.dptr, 3000);
	FAILS(INVALID, cuGraphAddMemAllocNode(&node, graph, NULL, 0, &bad));
	FAILS(INVALID, cuGraphAddMemFreeNode(&node, graph, NULL, 0, 42));
}

static CUgraphNodeParams alloc_node(size_t bytes)
{
	CUgraphNodeParams p = { .type = CU_GRAPH_NODE_TYPE_MEM_ALLOC };

	p.alloc.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	p.alloc.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	p.alloc.bytesize = bytes;
	return p;
}

static CUgraphNodeParams free_node(CUdeviceptr p)
{
	CUgraphNodeParams params = { .type = CU_GRAPH_NODE_TYPE_MEM_FREE };

	params.free.dptr = p;
	return params;
}

static void nodes_of_any_kind(void)
{
	CUgraphNodeParams p, empty = { .type = CU_GRAPH_NODE_TYPE_EMPTY },
			     none = { .type = CU_GRAPH_NODE_TYPE_MEM_ALLOC };
	CUgraphNode node;
	CUgraph graph;
	CUdeviceptr at;

	begin();
	OK(cuGraphCreate(&graph, 0));
	p = alloc_node(1000);
	OK(cuGraphAddNode_v2(&node, graph, NULL, NULL, 0, &p));
	at = p.alloc.dptr;
	allocated("graph", "cuGraphAddNode_v2", at, 1000);
	p = free_node(at);
	OK(cuGraphAddNode_v2(&node, graph, NULL, NULL, 0, &p));
	freed("graph", "cuGraphAddNode_v2", at, 1000);
	p = alloc_node(2000);
	OK(cuGraphAddNode(&node, graph, NULL, 0, &p));
	at = p.alloc.dptr;
	allocated("graph", "cuGraphAddNode", at, 2000);
	p = free_node(at);
	OK(cuGraphAddNode(&node, graph, NULL, 0, &p));
	freed("graph", "cuGraphAddNode", at, 2000);
	p = alloc_node(3000);
	OK(cudaGraphAddNode(&node, graph, NULL, NULL, 0, (struct cudaGraphNodeParams *)&p));
	allocated("graph", "cudaGraphAddNode", p.alloc.dptr, 3000);
	OK(cuGraphAddNode_v2(&node, graph, NULL, NULL, 0, &empty));
	FAILS(INVALID, cuGraphAddNode_v2(&node, graph, NULL, NULL, 0, &none));
}

static void made(const char *call, CUgraphExec exec)
{
	expect_more("object_new", "graph", call, (uintptr_t)exec, 0, ", \"detail\": 0");
}

static void executable_graphs(void)
{
	CUDA_GRAPH_INSTANTIATE_PARAMS params = { 0 };
	cudaGraphInstantiateParams runtime_params = { 0 };
	CUgraphExec exec;
	CUgraph graph;

	begin();
	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	made("cuGraphInstantiateWithFlags", exec);
	OK(cuGraphExecDestroy(exec));
	gone("graph", "cuGraphExecDestroy", exec);
	OK(cuGraphInstantiateWithParams(&exec, graph, &params));
	made("cuGraphInstantiateWithParams", exec);
	OK(cuGraphInstantiateWithParams_ptsz(&exec, graph, &params));
	made("cuGraphInstantiateWithParams_ptsz", exec);
	OK(cuGraphInstantiate_v2(&exec, graph, NULL, NULL, 0));
	made("cuGraphInstantiate_v2", exec);
	OK(cuGraphInstantiate(&exec, graph, NULL, NULL, 0));
	made("cuGraphInstantiate", exec);
	OK(cudaGraphInstantiate(&exec, graph, 0));
	made("cudaGraphInstantiate", exec);
	OK(cudaGraphInstantiateWithFlags(&exec, graph, 0));
	made("cudaGraphInstantiateWithFlags", exec);
	OK(cudaGraphInstantiateWithParams(&exec, graph, &runtime_params));
	made("cudaGraphInstantiateWithParams", exec);
	OK(cudaGraphInstantiateWithParams_ptsz(&exec, graph, &runtime_params));
	made("cudaGraphInstantiateWithParams_ptsz", exec);
	OK(cudaGraphExecDestroy(exec));
	gone("graph", "cudaGraphExecDestroy", exec);
	FAILS(INVALID, cuGraphInstantiateWithFlags(&exec, NULL, 0));
	FAILS(INVALID, cuGraphExecDestroy(NULL));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	made("cuGraphInstantiateWithFlags", exec);
	/* Without allocation nodes nobody needs to know. */
	OK(cuGraphLaunch(exec, stream));
	OK(cuGraphUpload(exec, stream));
}

static void launches(void)
{
	CUgraphExec exec;
	CUgraph graph;

	begin();
	OK(cuGraphCreate(&graph, 0));
	add_alloc(graph, 3 * MIB);
	exec = instantiate(graph);
	OK(cuGraphUpload(exec, stream));
	expect_more("graph_launch", "", "cuGraphUpload", (uintptr_t)exec, 0, ", \"upload\": 1");
	OK(cuGraphUpload_ptsz(exec, stream));
	expect_more("graph_launch", "", "cuGraphUpload_ptsz", (uintptr_t)exec, 0, ", \"upload\": 1");
	OK(cudaGraphUpload(exec, stream));
	expect_more("graph_launch", "", "cudaGraphUpload", (uintptr_t)exec, 0, ", \"upload\": 1");
	OK(cudaGraphUpload_ptsz(exec, stream));
	expect_more("graph_launch", "", "cudaGraphUpload_ptsz", (uintptr_t)exec, 0, ", \"upload\": 1");
	OK(cuGraphLaunch(exec, stream));
	expect_more("graph_launch", "", "cuGraphLaunch", (uintptr_t)exec, 0, ", \"upload\": 0");
	sampled("cuGraphLaunch", 4 * MIB, 3 * MIB);
	OK(cuGraphLaunch_ptsz(exec, stream)); /* reserved stays: no sample */
	expect("graph_launch", "", "cuGraphLaunch_ptsz", (uintptr_t)exec, 0);
	OK(cudaGraphLaunch(exec, stream));
	expect("graph_launch", "", "cudaGraphLaunch", (uintptr_t)exec, 0);
	OK(cudaGraphLaunch_ptsz(exec, stream));
	expect("graph_launch", "", "cudaGraphLaunch_ptsz", (uintptr_t)exec, 0);
	FAILS(INVALID, cuGraphLaunch(NULL, stream));
	FAILS(INVALID, cuGraphUpload(NULL, stream));
}

static void graph_trim(void)
{
	CUgraphExec exec;
	CUdeviceptr p;
	CUgraph graph;

	begin();
	OK(cuGraphCreate(&graph, 0));
	p = add_alloc(graph, 3 * MIB);
	exec = instantiate(graph);
	OK(cuGraphLaunch(exec, stream));
	expect("graph_launch", "", "cuGraphLaunch", (uintptr_t)exec, 0);
	sampled("cuGraphLaunch", 4 * MIB, 3 * MIB);
	OK(cuMemFreeAsync(p, stream));
	freed("graph", "cuMemFreeAsync", p, 3 * MIB);
	OK(cuDeviceGraphMemTrim(0));
	sampled("cuDeviceGraphMemTrim", 0, 0);
	OK(cuGraphLaunch(exec, stream));
	expect("graph_launch", "", "cuGraphLaunch", (uintptr_t)exec, 0);
	sampled("cuGraphLaunch", 4 * MIB, 3 * MIB);
	OK(cuMemFree_v2(p)); /* the node's address, a second time */
	expect("driver_free", "device", "cuMemFree_v2", p, 0);
	OK(cudaDeviceGraphMemTrim(0));
	sampled("cudaDeviceGraphMemTrim", 0, 0);
	OK(cuGraphExecDestroy(exec));
	gone("graph", "cuGraphExecDestroy", exec);
	FAILS(101, cuDeviceGraphMemTrim(77));
}

int main(int argc, char **argv)
{
	return RUN_CASES(argc, argv, CASE(captured_allocations), CASE(captures_of_several_streams),
			 CASE(many_of_them), CASE(graphs_of_other_devices), CASE(allocation_nodes),
			 CASE(nodes_of_any_kind), CASE(executable_graphs), CASE(launches), CASE(graph_trim));
}
