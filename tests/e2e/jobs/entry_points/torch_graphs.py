# SPDX-License-Identifier: MIT
"""Graphs that PyTorch captured, read and updated through CUDA's own bindings; a condition around captured work."""

import torch
from cuda.bindings import driver as cu


def ok(answer):
    assert answer[0] == cu.CUresult.CUDA_SUCCESS, answer[0]
    return answer[1] if len(answer) == 2 else answer[1:]


x = torch.ones(1024, device="cuda")
y = torch.zeros(1024, device="cuda")


def capture(times):
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(graph):
        for _ in range(times):
            y.add_(x)
    return graph


captured = [capture(times) for times in (3, 3, 4)]
first, second, third = (cu.CUgraph(graph.raw_cuda_graph()) for graph in captured)

nodes, count = ok(cu.cuGraphGetNodes(first, 16))
assert count == 3
assert {ok(cu.cuGraphNodeGetType(node)) for node in nodes[:count]} == {cu.CUgraphNodeType.CU_GRAPH_NODE_TYPE_KERNEL}
assert ok(cu.cuGraphGetEdges(first))[-1] == 2
params = ok(cu.cuGraphKernelNodeGetParams(nodes[0]))
assert params.gridDimX * params.blockDimX >= 1024 // 8
assert b"elementwise" in ok(cu.cuFuncGetName(params.func))

executable = ok(cu.cuGraphInstantiate(first, 0))
ok(cu.cuGraphExecUpdate(executable, second))
assert cu.cuGraphExecUpdate(executable, third)[0] == cu.CUresult.CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE
ok(cu.cuGraphExecKernelNodeSetParams(executable, nodes[0], params))
ok(cu.cuGraphLaunch(executable, torch.cuda.current_stream().cuda_stream))

# The body of a condition is captured by PyTorch's stream into the graph that the condition brings.
whole = ok(cu.cuGraphCreate(0))
condition = cu.CUgraphNodeParams()
condition.type = cu.CUgraphNodeType.CU_GRAPH_NODE_TYPE_CONDITIONAL
context = ok(cu.cuCtxGetCurrent())
condition.conditional.handle = ok(cu.cuGraphConditionalHandleCreate(whole, context, 1, 1))
condition.conditional.type = cu.CUgraphConditionalNodeType.CU_GRAPH_COND_TYPE_IF
condition.conditional.size = 1
condition.conditional.ctx = context
node = ok(cu.cuGraphAddNode(whole, None, None, 0, condition))
assert ok(cu.cuGraphNodeGetType(node)) == cu.CUgraphNodeType.CU_GRAPH_NODE_TYPE_CONDITIONAL
body = condition.conditional.phGraph_out[0]
stream = torch.cuda.Stream()
relaxed = cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
ok(cu.cuStreamBeginCaptureToGraph(stream.cuda_stream, body, None, None, 0, relaxed))
with torch.cuda.stream(stream):
    y.add_(x)
ok(cu.cuStreamEndCapture(stream.cuda_stream))
assert ok(cu.cuGraphGetNodes(body, 0))[-1] == 1
conditional = ok(cu.cuGraphInstantiate(whole, 0))
ok(cu.cuGraphLaunch(conditional, stream.cuda_stream))

captured[0].instantiate()
captured[0].replay()
torch.cuda.synchronize()
for handle in (executable, conditional):
    ok(cu.cuGraphExecDestroy(handle))
ok(cu.cuGraphDestroy(whole))
