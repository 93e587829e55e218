/* SPDX-License-Identifier: MIT */
/* Graphs of the runtime half: their nodes and edges, the user objects that they hold, their memory. */
#include "simgpu/runtime_graph.h"

SAME_LAYOUT(cudaGraphEdgeData, CUgraphEdgeData);

/* CUDA 12's names of what has lost its suffix in CUDA 13. */
SIM_EXPORT cudaError_t cudaGraphGetEdges_v2(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to,
					    cudaGraphEdgeData *data, size_t *nr);
SIM_EXPORT cudaError_t cudaGraphNodeGetDependencies_v2(cudaGraphNode_t handle, cudaGraphNode_t *dependencies,
						       cudaGraphEdgeData *data, size_t *nr);
SIM_EXPORT cudaError_t cudaGraphNodeGetDependentNodes_v2(cudaGraphNode_t handle, cudaGraphNode_t *dependents,
							 cudaGraphEdgeData *data, size_t *nr);
SIM_EXPORT cudaError_t cudaGraphAddDependencies_v2(cudaGraph_t graph, const cudaGraphNode_t *from,
						   const cudaGraphNode_t *to, const cudaGraphEdgeData *data,
						   size_t nr);
SIM_EXPORT cudaError_t cudaGraphRemoveDependencies_v2(cudaGraph_t graph, const cudaGraphNode_t *from,
						      const cudaGraphNode_t *to,
						      const cudaGraphEdgeData *data, size_t nr);

/* ---- graphs, nodes and edges ----------------------------------------------------------------- */

cudaError_t cudaGraphCreate(cudaGraph_t *graph, unsigned int flags)
{
	return RUNTIME(cuGraphCreate(graph, flags));
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
	return RUNTIME(cuGraphDestroy(graph));
}

cudaError_t cudaGraphClone(cudaGraph_t *clone, cudaGraph_t graph)
{
	return RUNTIME(cuGraphClone(clone, graph));
}

cudaError_t cudaGraphNodeFindInClone(cudaGraphNode_t *found, cudaGraphNode_t original, cudaGraph_t clone)
{
	return RUNTIME(cuGraphNodeFindInClone(found, original, clone));
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *nr)
{
	return RUNTIME(cuGraphGetNodes(graph, nodes, nr));
}

cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *nr)
{
	return RUNTIME(cuGraphGetRootNodes(graph, nodes, nr));
}

cudaError_t cudaGraphGetEdges_v2(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to,
				 cudaGraphEdgeData *data, size_t *nr)
{
	return RUNTIME(cuGraphGetEdges_v2(graph, from, to, (CUgraphEdgeData *)data, nr));
}

cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to,
			      cudaGraphEdgeData *data, size_t *nr)
{
	if (sim_runtime_is_twelve())
		return cudaGraphGetEdges_v2(graph, from, to, NULL, (size_t *)data);
	return cudaGraphGetEdges_v2(graph, from, to, data, nr);
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t handle, enum cudaGraphNodeType *type)
{
	return RUNTIME(cuGraphNodeGetType(handle, (CUgraphNodeType *)type));
}

cudaError_t cudaGraphNodeGetDependencies_v2(cudaGraphNode_t handle, cudaGraphNode_t *dependencies,
					    cudaGraphEdgeData *data, size_t *nr)
{
	return RUNTIME(cuGraphNodeGetDependencies_v2(handle, dependencies, (CUgraphEdgeData *)data, nr));
}

cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t handle, cudaGraphNode_t *dependencies,
					 cudaGraphEdgeData *data, size_t *nr)
{
	if (sim_runtime_is_twelve())
		return cudaGraphNodeGetDependencies_v2(handle, dependencies, NULL, (size_t *)data);
	return cudaGraphNodeGetDependencies_v2(handle, dependencies, data, nr);
}

cudaError_t cudaGraphNodeGetDependentNodes_v2(cudaGraphNode_t handle, cudaGraphNode_t *dependents,
					      cudaGraphEdgeData *data, size_t *nr)
{
	return RUNTIME(cuGraphNodeGetDependentNodes_v2(handle, dependents, (CUgraphEdgeData *)data, nr));
}

cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t handle, cudaGraphNode_t *dependents,
					   cudaGraphEdgeData *data, size_t *nr)
{
	if (sim_runtime_is_twelve())
		return cudaGraphNodeGetDependentNodes_v2(handle, dependents, NULL, (size_t *)data);
	return cudaGraphNodeGetDependentNodes_v2(handle, dependents, data, nr);
}

cudaError_t cudaGraphAddDependencies_v2(cudaGraph_t graph, const cudaGraphNode_t *from,
					const cudaGraphNode_t *to, const cudaGraphEdgeData *data, size_t nr)
{
	return RUNTIME(cuGraphAddDependencies_v2(graph, from, to, (const CUgraphEdgeData *)data, nr));
}

cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t *from,
				     const cudaGraphNode_t *to, const cudaGraphEdgeData *data, size_t nr)
{
	if (sim_runtime_is_twelve())
		return cudaGraphAddDependencies_v2(graph, from, to, NULL, (size_t)data);
	return cudaGraphAddDependencies_v2(graph, from, to, data, nr);
}

cudaError_t cudaGraphRemoveDependencies_v2(cudaGraph_t graph, const cudaGraphNode_t *from,
					   const cudaGraphNode_t *to, const cudaGraphEdgeData *data,
					   size_t nr)
{
	return RUNTIME(cuGraphRemoveDependencies_v2(graph, from, to, (const CUgraphEdgeData *)data, nr));
}

cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t *from,
					const cudaGraphNode_t *to, const cudaGraphEdgeData *data, size_t nr)
{
	if (sim_runtime_is_twelve())
		return cudaGraphRemoveDependencies_v2(graph, from, to, NULL, (size_t)data);
	return cudaGraphRemoveDependencies_v2(graph, from, to, data, nr);
}

cudaError_t cudaGraphDestroyNode(cudaGraphNode_t handle)
{
	return RUNTIME(cuGraphDestroyNode(handle));
}

cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph, const char *path, unsigned int flags)
{
	return RUNTIME(cuGraphDebugDotPrint(graph, path, flags));
}

cudaError_t cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle *handle, cudaGraph_t graph,
					     unsigned int value, unsigned int flags)
{
	return RUNTIME(cuGraphConditionalHandleCreate((CUgraphConditionalHandle *)handle, graph, NULL, value,
						      flags));
}

/* ---- user objects ---------------------------------------------------------------------------- */

cudaError_t cudaUserObjectCreate(cudaUserObject_t *object, void *data, cudaHostFn_t destroy,
				 unsigned int refs, unsigned int flags)
{
	return RUNTIME(cuUserObjectCreate(object, data, destroy, refs, flags));
}

cudaError_t cudaUserObjectRetain(cudaUserObject_t object, unsigned int count)
{
	return RUNTIME(cuUserObjectRetain(object, count));
}

cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned int count)
{
	return RUNTIME(cuUserObjectRelease(object, count));
}

cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned int count,
				      unsigned int flags)
{
	return RUNTIME(cuGraphRetainUserObject(graph, object, count, flags));
}

cudaError_t cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned int count)
{
	return RUNTIME(cuGraphReleaseUserObject(graph, object, count));
}

/* ---- memory of allocation nodes -------------------------------------------------------------- */

cudaError_t cudaDeviceGetGraphMemAttribute(int device, enum cudaGraphMemAttributeType attribute, void *value)
{
	return RUNTIME(cuDeviceGetGraphMemAttribute(device, (CUgraphMem_attribute)attribute, value));
}

cudaError_t cudaDeviceSetGraphMemAttribute(int device, enum cudaGraphMemAttributeType attribute, void *value)
{
	return RUNTIME(cuDeviceSetGraphMemAttribute(device, (CUgraphMem_attribute)attribute, value));
}

cudaError_t cudaDeviceGraphMemTrim(int device)
{
	return RUNTIME(cuDeviceGraphMemTrim(device));
}
