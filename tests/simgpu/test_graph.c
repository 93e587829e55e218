/* SPDX-License-Identifier: MIT */
/* Graphs as programs build, change, copy and launch them, through the public functions. */
#define __CUDA_API_VERSION_INTERNAL 1
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <cuda.h>
#include <cuda_runtime_api.h>

static CUfunction kernel;
static CUdeviceptr memory;

#define OK(call) assert_int_equal(call, CUDA_SUCCESS)

static CUDA_KERNEL_NODE_PARAMS launch_of(unsigned grid)
{
	return (CUDA_KERNEL_NODE_PARAMS){ .func = kernel,
					  .gridDimX = grid,
					  .gridDimY = 1,
					  .gridDimZ = 1,
					  .blockDimX = 32,
					  .blockDimY = 1,
					  .blockDimZ = 1 };
}

static CUDA_MEMCPY3D copy_of(void *dst, const void *src, size_t bytes)
{
	return (CUDA_MEMCPY3D){ .srcMemoryType = CU_MEMORYTYPE_UNIFIED,
				.srcDevice = (CUdeviceptr)src,
				.dstMemoryType = CU_MEMORYTYPE_UNIFIED,
				.dstDevice = (CUdeviceptr)dst,
				.WidthInBytes = bytes,
				.Height = 1,
				.Depth = 1 };
}

static int first_word(void)
{
	int word;

	OK(cuMemcpyDtoH_v2(&word, memory, sizeof(word)));
	return word;
}

static void count(void *data)
{
	++*(int *)data;
}

static void kernel_nodes_keep_what_they_were_given(void **state)
{
	CUDA_KERNEL_NODE_PARAMS params = launch_of(7), got;
	char arguments[12] = "argument";
	size_t bytes = sizeof(arguments), nr = 9;
	void *extra[] = { CU_LAUNCH_PARAM_BUFFER_POINTER, arguments, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
			  CU_LAUNCH_PARAM_END };
	CUgraphNode nodes[9], a, b;
	CUgraphNodeType type;
	CUgraph graph;

	(void)state;
	params.extra = extra;
	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddKernelNode_v2(&a, graph, NULL, 0, &params));
	memset(arguments, 0, sizeof(arguments));
	OK(cuGraphAddKernelNode_v2(&b, graph, &a, 1, &params));
	OK(cuGraphKernelNodeGetParams_v2(a, &got));
	assert_ptr_equal(got.func, kernel);
	assert_int_equal(got.gridDimX, 7);
	assert_null(got.kernelParams);
	assert_string_equal(got.extra[1], "argument");
	assert_int_equal(*(size_t *)got.extra[3], 12);
	params.gridDimX = 9;
	OK(cuGraphKernelNodeSetParams_v2(a, &params));
	OK(cuGraphKernelNodeGetParams_v2(a, &got));
	assert_int_equal(got.gridDimX, 9);
	OK(cuGraphNodeGetType(b, &type));
	assert_int_equal(type, CU_GRAPH_NODE_TYPE_KERNEL);
	OK(cuGraphGetRootNodes(graph, nodes, &nr));
	assert_int_equal(nr, 1);
	assert_ptr_equal(nodes[0], a);
	params.gridDimX = 0;
	assert_int_equal(cuGraphAddKernelNode_v2(&b, graph, NULL, 0, &params), CUDA_ERROR_INVALID_VALUE);
	params = launch_of(1);
	params.func = (CUfunction)graph;
	assert_int_equal(cuGraphAddKernelNode_v2(&b, graph, NULL, 0, &params), CUDA_ERROR_INVALID_HANDLE);
	OK(cuGraphDestroy(graph));
	assert_int_equal(cuGraphDestroy(NULL), CUDA_ERROR_INVALID_VALUE);
}

static void edges_are_kept(void **state)
{
	CUgraphNode a, b, c, from[4], to[4];
	CUgraph graph, other;
	size_t nr = 4;

	(void)state;
	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphCreate(&other, 0));
	OK(cuGraphAddEmptyNode(&a, graph, NULL, 0));
	OK(cuGraphAddEmptyNode(&b, graph, &a, 1));
	OK(cuGraphAddEmptyNode(&c, other, NULL, 0));
	assert_int_equal(cuGraphAddEmptyNode(&c, other, &a, 1), CUDA_ERROR_INVALID_VALUE);
	OK(cuGraphAddEmptyNode(&c, graph, NULL, 0));
	OK(cuGraphAddDependencies_v2(graph, &b, &c, NULL, 1));
	assert_int_equal(cuGraphAddDependencies_v2(graph, &b, &c, NULL, 1), CUDA_ERROR_INVALID_VALUE);
	OK(cuGraphGetEdges_v2(graph, from, to, NULL, &nr));
	assert_int_equal(nr, 2);
	assert_ptr_equal(from[0], a);
	assert_ptr_equal(to[1], c);
	assert_null(from[2]);
	nr = 4;
	OK(cuGraphNodeGetDependentNodes_v2(a, to, NULL, &nr));
	assert_int_equal(nr, 1);
	assert_ptr_equal(to[0], b);
	OK(cuGraphDestroyNode(b));
	OK(cuGraphGetEdges_v2(graph, NULL, NULL, NULL, &nr));
	assert_int_equal(nr, 0);
	OK(cuGraphDestroy(other));
	OK(cuGraphDestroy(graph));
}

static void a_circle_cannot_be_instantiated(void **state)
{
	CUDA_GRAPH_INSTANTIATE_PARAMS params = { 0 };
	CUgraphExec exec;
	CUgraphNode a, b;
	CUgraph graph;

	(void)state;
	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddEmptyNode(&a, graph, NULL, 0));
	OK(cuGraphAddEmptyNode(&b, graph, &a, 1));
	OK(cuGraphAddDependencies_v2(graph, &b, &a, NULL, 1));
	assert_int_equal(cuGraphInstantiateWithParams(&exec, graph, &params), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(params.result_out, CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE);
	OK(cuGraphDestroy(graph));
}

/* Nodes run at each launch, after those that they wait for, whatever the order they were added in. */
static void a_launch_does_what_nodes_say(void **state)
{
	static int value = 5, calls;
	CUDA_MEMCPY3D up = copy_of((void *)memory, &value, sizeof(value));
	CUDA_MEMSET_NODE_PARAMS set = { memory, 0, 3, 4, 1, 1 };
	CUDA_HOST_NODE_PARAMS host = { count, &calls };
	CUgraphNode copied, cleared, called;
	unsigned enabled = 7;
	CUgraphExec exec;
	CUgraph graph;

	(void)state;
	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddMemcpyNode(&copied, graph, NULL, 0, &up, NULL));
	OK(cuGraphAddMemsetNode(&cleared, graph, NULL, 0, &set, NULL));
	OK(cuGraphAddHostNode(&called, graph, &copied, 1, &host));
	OK(cuGraphAddDependencies_v2(graph, &cleared, &copied, NULL, 1));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphLaunch(exec, NULL));
	assert_int_equal(calls, 1);
	assert_int_equal(first_word(), 5);
	OK(cuGraphNodeSetEnabled(exec, copied, 0));
	OK(cuGraphNodeGetEnabled(exec, copied, &enabled));
	assert_int_equal(enabled, 0);
	OK(cuGraphLaunch(exec, NULL));
	assert_int_equal(first_word(), 3);
	set.value = 8;
	OK(cuGraphExecMemsetNodeSetParams(exec, cleared, &set, NULL));
	OK(cuGraphLaunch(exec, NULL));
	assert_int_equal(first_word(), 8);
	assert_int_equal(calls, 3);
	assert_int_equal(cuGraphNodeSetEnabled(exec, called, 0), CUDA_ERROR_INVALID_VALUE);
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
}

static void captured_work_is_repeated(void **state)
{
	static int value = 11, calls;
	CUstream stream, other;
	CUgraphNode nodes[8], from[8], to[8];
	CUgraphExec exec;
	CUevent event;
	CUgraph graph;
	size_t nr = 8;

	(void)state;
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	OK(cuLaunchKernel(kernel, 3, 1, 1, 32, 1, 1, 0, stream, NULL, NULL));
	OK(cuEventRecord(event, stream));
	OK(cuStreamWaitEvent(other, event, 0));
	OK(cuMemcpyHtoDAsync_v2(memory, &value, sizeof(value), other));
	OK(cuLaunchHostFunc(stream, count, &calls));
	OK(cuEventRecord(event, other));
	OK(cuStreamWaitEvent(stream, event, 0));
	OK(cuLaunchKernel(kernel, 4, 1, 1, 32, 1, 1, 0, stream, NULL, NULL));
	OK(cuStreamEndCapture(stream, &graph));
	OK(cuGraphGetNodes(graph, nodes, &nr));
	assert_int_equal(nr, 4);
	nr = 8;
	OK(cuGraphGetEdges_v2(graph, from, to, NULL, &nr));
	assert_int_equal(nr, 4); /* a diamond */
	assert_ptr_equal(from[0], nodes[0]);
	assert_ptr_equal(from[1], nodes[0]);
	assert_ptr_equal(to[2], nodes[3]);
	assert_int_equal(calls, 0);
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphDestroy(graph));
	OK(cuGraphLaunch(exec, stream));
	OK(cuGraphLaunch(exec, stream));
	assert_int_equal(calls, 2);
	assert_int_equal(first_word(), 11);
	OK(cuGraphExecDestroy(exec));
	OK(cuEventDestroy_v2(event));
	OK(cuStreamDestroy_v2(other));
	OK(cuStreamDestroy_v2(stream));
}

static CUgraph captured(CUstream stream, unsigned grid, bool with_memset)
{
	CUgraph graph;

	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuLaunchKernel(kernel, grid, 1, 1, 32, 1, 1, 0, stream, NULL, NULL));
	if (with_memset)
		OK(cuMemsetD32Async(memory, grid, 1, stream));
	else
		OK(cuLaunchKernel(kernel, grid, 1, 1, 32, 1, 1, 0, stream, NULL, NULL));
	OK(cuStreamEndCapture(stream, &graph));
	return graph;
}

static void an_executable_graph_is_updated(void **state)
{
	CUgraphExecUpdateResultInfo info;
	CUgraph first, second, third, fourth;
	CUgraphNode node;
	CUgraphExec exec;
	CUstream stream;

	(void)state;
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	first = captured(stream, 1, true);
	second = captured(stream, 2, true);
	third = captured(stream, 3, false);
	fourth = captured(stream, 4, true);
	OK(cuGraphAddEmptyNode(&node, fourth, NULL, 0));
	OK(cuGraphInstantiateWithFlags(&exec, first, 0));
	OK(cuGraphExecUpdate_v2(exec, second, &info));
	assert_int_equal(info.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
	OK(cuGraphLaunch(exec, stream));
	assert_int_equal(first_word(), 2);
	assert_int_equal(cuGraphExecUpdate_v2(exec, third, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
	assert_int_equal(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED);
	assert_non_null(info.errorNode);
	assert_int_equal(cuGraphExecUpdate_v2(exec, fourth, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
	assert_int_equal(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
	OK(cuGraphLaunch(exec, stream));
	assert_int_equal(first_word(), 2);
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(first));
	OK(cuGraphDestroy(second));
	OK(cuGraphDestroy(third));
	OK(cuGraphDestroy(fourth));
	OK(cuStreamDestroy_v2(stream));
}

/* As PyTorch does it: the body of a condition is captured into the graph that the node brings. */
static void a_condition_has_a_body(void **state)
{
	CUgraphNodeParams params = { .type = CU_GRAPH_NODE_TYPE_CONDITIONAL };
	CUstreamCaptureStatus status;
	const CUgraphNode *before;
	CUgraphConditionalHandle unused;
	CUgraph graph, body;
	CUgraphExec exec;
	CUgraphNode node;
	CUstream stream, inner;
	cuuint64_t id;
	size_t nr;

	(void)state;
	OK(cuMemsetD32_v2(memory, 0, 1));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&inner, CU_STREAM_NON_BLOCKING));
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL));
	OK(cuStreamGetCaptureInfo_v3(stream, &status, &id, &graph, &before, NULL, &nr));
	assert_int_equal(nr, 1);
	OK(cuGraphConditionalHandleCreate(&params.conditional.handle, graph, NULL, 1,
					  CU_GRAPH_COND_ASSIGN_DEFAULT));
	params.conditional.size = 1;
	OK(cuGraphAddNode_v2(&node, graph, before, NULL, nr, &params));
	assert_int_equal(cuGraphAddNode_v2(&node, graph, NULL, NULL, 0, &params), CUDA_ERROR_INVALID_VALUE);
	OK(cuStreamUpdateCaptureDependencies_v2(stream, &node, NULL, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
	body = params.conditional.phGraph_out[0];
	OK(cuStreamBeginCaptureToGraph(inner, body, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuMemsetD32Async(memory, 21, 1, inner));
	OK(cuStreamEndCapture(inner, &body));
	assert_ptr_equal(body, params.conditional.phGraph_out[0]);
	OK(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL));
	OK(cuStreamEndCapture(stream, &graph));
	assert_int_equal(cuGraphDestroy(body), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuGraphClone(&body, graph), CUDA_ERROR_INVALID_VALUE);
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphLaunch(exec, stream));
	assert_int_equal(first_word(), 21);
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphConditionalHandleCreate(&unused, graph, NULL, 0, 0));
	assert_int_equal(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_ERROR_INVALID_VALUE);
	OK(cuGraphDestroy(graph));
	OK(cuStreamDestroy_v2(inner));
	OK(cuStreamDestroy_v2(stream));
}

static void child_graphs_and_clones(void **state)
{
	CUDA_MEMSET_NODE_PARAMS set = { memory, 0, 31, 4, 1, 1 };
	CUgraph graph, child, inside, clone;
	CUgraphNode node, member, found;
	CUgraphExec exec;

	(void)state;
	OK(cuGraphCreate(&child, 0));
	OK(cuGraphAddMemsetNode(&member, child, NULL, 0, &set, NULL));
	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddChildGraphNode(&node, graph, NULL, 0, child));
	OK(cuGraphChildGraphNodeGetGraph(node, &inside));
	assert_ptr_not_equal(inside, child);
	OK(cuGraphNodeFindInClone(&found, member, inside));
	OK(cuGraphDestroy(child));
	OK(cuGraphClone(&clone, graph));
	OK(cuGraphDestroy(graph));
	OK(cuGraphInstantiateWithFlags(&exec, clone, 0));
	OK(cuGraphLaunch(exec, NULL));
	assert_int_equal(first_word(), 31);
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(clone));
}

/* Moved into a graph of its own it would hold itself; a copy does not. */
static void no_graph_is_moved_into_itself(void **state)
{
	CUgraphNodeParams moved = { .type = CU_GRAPH_NODE_TYPE_GRAPH,
				    .graph.ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE };
	CUgraph outer, middle, inner;
	CUgraphNode node;

	(void)state;
	OK(cuGraphCreate(&outer, 0));
	OK(cuGraphCreate(&middle, 0));
	OK(cuGraphCreate(&inner, 0));
	moved.graph.graph = inner;
	OK(cuGraphAddNode_v2(&node, middle, NULL, NULL, 0, &moved));
	moved.graph.graph = middle;
	OK(cuGraphAddNode_v2(&node, outer, NULL, NULL, 0, &moved));
	moved.graph.graph = outer;
	assert_int_equal(cuGraphAddNode_v2(&node, outer, NULL, NULL, 0, &moved), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuGraphAddNode_v2(&node, middle, NULL, NULL, 0, &moved), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuGraphAddNode_v2(&node, inner, NULL, NULL, 0, &moved), CUDA_ERROR_INVALID_VALUE);
	moved.graph.ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE;
	OK(cuGraphAddNode_v2(&node, inner, NULL, NULL, 0, &moved));
	OK(cuGraphDestroy(outer));
}

static void user_objects_go_with_their_last_holder(void **state)
{
	static int calls;
	CUuserObject object;
	CUgraph graph, clone;
	CUgraphExec exec;

	(void)state;
	assert_int_equal(cuUserObjectCreate(&object, &calls, count, 1, 0), CUDA_ERROR_INVALID_VALUE);
	OK(cuUserObjectCreate(&object, &calls, count, 2, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
	OK(cuUserObjectRelease(object, 1));
	OK(cuGraphClone(&clone, graph));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphDestroy(graph));
	OK(cuGraphReleaseUserObject(clone, object, 1));
	assert_int_equal(cuGraphReleaseUserObject(clone, object, 1), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(calls, 0);
	OK(cuGraphExecDestroy(exec));
	assert_int_equal(calls, 1);
	OK(cuGraphDestroy(clone));
}

static void streams_write_values(void **state)
{
	CUstreamBatchMemOpParams both[2] = { { 0 }, { 0 } };
	CUgraphExec exec;
	CUstream stream;
	CUgraph graph;

	(void)state;
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuStreamWriteValue32_v2(stream, memory, 41, 0));
	assert_int_equal(first_word(), 41);
	OK(cuStreamWaitValue32_v2(stream, memory, 41, CU_STREAM_WAIT_VALUE_EQ));
	assert_int_equal(cuStreamWriteValue32_v2(stream, memory + 2, 1, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuStreamWriteValue32_v2(stream, (CUdeviceptr)both & ~7ull, 1, 0),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuStreamWaitValue32_v2(stream, memory, 1, 8), CUDA_ERROR_INVALID_VALUE);
	both[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
	both[0].writeValue.address = memory;
	both[0].writeValue.value64 = 43;
	both[1].operation = CU_STREAM_MEM_OP_BARRIER;
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuStreamBatchMemOp_v2(stream, 2, both, 0));
	OK(cuStreamEndCapture(stream, &graph));
	both[0].writeValue.value64 = 0;
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	assert_int_equal(first_word(), 41);
	OK(cuGraphLaunch(exec, stream));
	assert_int_equal(first_word(), 43);
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
	OK(cuStreamDestroy_v2(stream));
}

static void many_copies_at_once(void **state)
{
	CUmemcpyAttributes attributes = { .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM };
	CUDA_MEMCPY3D_BATCH_OP op = { .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM,
				      .extent = { 8, 1, 1 } };
	int up[2] = { 51, 52 }, down[2] = { 0 };
	CUdeviceptr to[2] = { memory, memory + 4 }, from[2] = { (CUdeviceptr)&up[0], (CUdeviceptr)&up[1] };
	size_t sizes[2] = { 4, 4 }, first = 0, failed;
	CUstream stream;

	(void)state;
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	assert_int_equal(cuMemcpyBatchAsync_v2(to, from, sizes, 2, &attributes, &first, 1, NULL),
			 CUDA_ERROR_INVALID_VALUE);
	OK(cuMemcpyBatchAsync_v2(to, from, sizes, 2, &attributes, &first, 1, stream));
	op.src.type = op.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
	op.src.op.ptr.ptr = memory;
	op.dst.op.ptr.ptr = (CUdeviceptr)down;
	OK(cuMemcpy3DBatchAsync_v2(1, &op, 0, stream));
	assert_int_equal(down[0], 51);
	assert_int_equal(down[1], 52);
	to[1] = 0;
	assert_int_equal(cuMemcpyBatchAsync(to, from, sizes, 2, &attributes, &first, 1, &failed, stream),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(failed, 1);
	OK(cuStreamDestroy_v2(stream));
}

/* A box inside a box, with the runtime's names; then by an array. */
static void copies_in_three_dimensions(void **state)
{
	struct cudaChannelFormatDesc word = { 32, 0, 0, 0, cudaChannelFormatKindSigned };
	int up[3][4][5], down[2][2][2] = { 0 };
	struct cudaMemcpy3DParms copy = { .srcPtr = { up, sizeof(up[0][0]), 5, 4 },
					  .dstPtr = { (void *)memory, sizeof(up[0][0]), 5, 4 },
					  .extent = { sizeof(up[0][0]), 4, 3 },
					  .kind = cudaMemcpyHostToDevice };
	cudaArray_t array;

	(void)state;
	for (int i = 0; i < 60; i++)
		((int *)up)[i] = i;
	OK(cudaMemcpy3D(&copy));
	OK(cudaMalloc3DArray(&array, &word, (struct cudaExtent){ 5, 4, 3 }, 0));
	copy = (struct cudaMemcpy3DParms){ .srcPtr = { (void *)memory, sizeof(up[0][0]), 5, 4 },
					   .dstArray = array,
					   .extent = { 5, 4, 3 },
					   .kind = cudaMemcpyDeviceToDevice };
	OK(cudaMemcpy3D(&copy));
	copy = (struct cudaMemcpy3DParms){ .srcArray = array,
					   .srcPos = { 1, 1, 1 },
					   .dstPtr = { down, 8, 2, 2 },
					   .extent = { 2, 2, 2 },
					   .kind = cudaMemcpyDeviceToHost };
	OK(cudaMemcpy3DAsync(&copy, NULL));
	assert_int_equal(down[0][0][0], 26);
	assert_int_equal(down[1][1][1], 52);
	copy.dstArray = array;
	assert_int_equal(cudaMemcpy3D(&copy), cudaErrorInvalidValue);
	OK(cudaFreeArray(array));
}

static int set_up(void **state)
{
	CUcontext context;
	CUmodule module;

	(void)state;
	return cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) ||
	       cuModuleLoadData(&module, ".version 8.0\n.target sm_80\n") ||
	       cuModuleGetFunction(&kernel, module, "k") || cuMemAlloc_v2(&memory, 4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kernel_nodes_keep_what_they_were_given),
		cmocka_unit_test(edges_are_kept),
		cmocka_unit_test(a_circle_cannot_be_instantiated),
		cmocka_unit_test(a_launch_does_what_nodes_say),
		cmocka_unit_test(captured_work_is_repeated),
		cmocka_unit_test(an_executable_graph_is_updated),
		cmocka_unit_test(a_condition_has_a_body),
		cmocka_unit_test(child_graphs_and_clones),
		cmocka_unit_test(no_graph_is_moved_into_itself),
		cmocka_unit_test(user_objects_go_with_their_last_holder),
		cmocka_unit_test(streams_write_values),
		cmocka_unit_test(many_copies_at_once),
		cmocka_unit_test(copies_in_three_dimensions),
	};

	return cmocka_run_group_tests(tests, set_up, NULL);
}
