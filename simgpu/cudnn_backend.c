/* SPDX-License-Identifier: MIT */
/*
 * cuDNN's backend (graph) API: descriptors that keep their attributes.
 *
 * A descriptor is a bag of attributes. Those that hold other descriptors own a reference to each, so a
 * program may destroy a child before its parent. Every operation graph has one engine. Its workspace is what
 * a calibration says (cudnn_question.h), else none: the real figure is the library's own and unknown
 * (docs/simulated-libraries.md), so peaks are a lower bound there.
 */
#include "simgpu/cudnn_question.h"

#include <stdlib.h>
#include <string.h>

static size_t element_bytes(cudnnBackendAttributeType_t type)
{
	switch (type) {
	case CUDNN_TYPE_BOOLEAN:
	case CUDNN_TYPE_CHAR:
		return 1;
	case CUDNN_TYPE_HANDLE:
	case CUDNN_TYPE_VOID_PTR:
	case CUDNN_TYPE_BACKEND_DESCRIPTOR:
	case CUDNN_TYPE_INT64:
	case CUDNN_TYPE_DOUBLE:
		return 8;
	case CUDNN_TYPE_FRACTION:
		return sizeof(cudnnFraction_t);
	default:
		return 4;
	}
}

static void descriptor_put(struct descriptor *d);

static void attribute_release(struct attribute *a)
{
	if (a->type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
		for (int64_t i = 0; i < a->count; i++)
			descriptor_put(((struct descriptor **)a->elements)[i]);
	free(a->elements);
	a->elements = NULL;
}

static void attributes_release(struct descriptor *d)
{
	for (unsigned i = 0; i < d->nr_attributes; i++)
		attribute_release(&d->attributes[i]);
	free(d->attributes);
	d->attributes = NULL;
	d->nr_attributes = 0;
}

static void descriptor_get(struct descriptor *d)
{
	if (d)
		__atomic_fetch_add(&d->refs, 1, __ATOMIC_RELAXED);
}

static void descriptor_put(struct descriptor *d)
{
	if (!d || __atomic_sub_fetch(&d->refs, 1, __ATOMIC_ACQ_REL))
		return;
	attributes_release(d);
	free(d);
}

static struct descriptor *descriptor_new(cudnnBackendDescriptorType_t type)
{
	struct descriptor *d = sim_zalloc(sizeof(*d));

	d->refs = 1;
	d->type = type;
	return d;
}

struct attribute *cudnn_attribute(const struct descriptor *d, cudnnBackendAttributeName_t name)
{
	for (unsigned i = 0; i < d->nr_attributes; i++)
		if (d->attributes[i].name == name)
			return &d->attributes[i];
	return NULL;
}

static void attribute_store(struct descriptor *d, cudnnBackendAttributeName_t name,
			    cudnnBackendAttributeType_t type, int64_t count, const void *elements)
{
	struct attribute *a = cudnn_attribute(d, name), old = { .elements = NULL };
	size_t bytes = (size_t)count * element_bytes(type);

	if (a) {
		old = *a;
	} else {
		d->attributes = sim_realloc(d->attributes, (d->nr_attributes + 1) * sizeof(*a));
		a = &d->attributes[d->nr_attributes++];
	}
	*a = (struct attribute){ name, type, count, bytes ? sim_alloc(bytes) : NULL };
	if (bytes)
		memcpy(a->elements, elements, bytes);
	if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
		for (int64_t i = 0; i < count; i++)
			descriptor_get(((struct descriptor **)a->elements)[i]);
	/* Last: the new elements may be children that only the old ones kept alive. */
	if (old.elements)
		attribute_release(&old);
}

/* DST, which the program created for an answer, becomes a copy of SRC. */
static void descriptor_copy(struct descriptor *dst, const struct descriptor *src)
{
	if (dst == src)
		return;
	attributes_release(dst);
	for (unsigned i = 0; i < src->nr_attributes; i++) {
		const struct attribute *a = &src->attributes[i];

		attribute_store(dst, a->name, a->type, a->count, a->elements);
	}
}

/* The one engine configuration that the heuristics of HEUR offer. The engine keeps their mode. */
static void heuristic_answer(const struct descriptor *heur, struct descriptor *config)
{
	const struct attribute *graph = cudnn_attribute(heur, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
	const struct attribute *mode = cudnn_attribute(heur, CUDNN_ATTR_ENGINEHEUR_MODE);
	struct descriptor *engine = descriptor_new(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
	int64_t index = 0;

	if (graph)
		attribute_store(engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph->type, graph->count,
				graph->elements);
	if (mode)
		attribute_store(engine, mode->name, mode->type, mode->count, mode->elements);
	attribute_store(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &index);
	attribute_store(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &engine);
	descriptor_put(engine);
}

/* Answers that no program set: VALUE for attributes of one number. */
static const struct {
	cudnnBackendAttributeName_t name;
	int64_t value;
} computed[] = {
	{ CUDNN_ATTR_ENGINECFG_SHARED_MEMORY_USED, 0 },
	{ CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT, 1 },
	{ CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 0 },
};

/* The number of elements of an attribute that was never set, written to ELEMENTS as far as REQUESTED. */
static int64_t computed_answer(const struct descriptor *d, cudnnBackendAttributeName_t name,
			       cudnnBackendAttributeType_t type, int64_t requested, void *elements)
{
	if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS) {
		struct descriptor **configs = elements;

		if (requested > 0 && configs && configs[0])
			heuristic_answer(d, configs[0]);
		return 1;
	}
	if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE || name == CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE) {
		int64_t bytes = (int64_t)cudnn_workspace_bytes(d);

		if (requested > 0 && elements)
			memcpy(elements, &bytes, element_bytes(type));
		return 1;
	}
	for (size_t i = 0; i < sizeof(computed) / sizeof(computed[0]); i++) {
		if (computed[i].name != name)
			continue;
		if (requested > 0 && elements)
			memcpy(elements, &computed[i].value, element_bytes(type));
		return 1;
	}
	return 0;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t descriptorType,
					   cudnnBackendDescriptor_t *descriptor)
{
	*descriptor = descriptor_new(descriptorType);
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor)
{
	descriptor_put(descriptor);
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendInitialize(cudnnBackendDescriptor_t descriptor)
{
	if (!descriptor)
		return CUDNN_STATUS_BAD_PARAM;
	attributes_release(descriptor);
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor)
{
	return descriptor ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
				       cudnnBackendAttributeName_t attributeName,
				       cudnnBackendAttributeType_t attributeType, int64_t elementCount,
				       const void *arrayOfElements)
{
	if (!descriptor || elementCount < 0 || (elementCount && !arrayOfElements))
		return CUDNN_STATUS_BAD_PARAM;
	attribute_store(descriptor, attributeName, attributeType, elementCount, arrayOfElements);
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const descriptor,
				       cudnnBackendAttributeName_t attributeName,
				       cudnnBackendAttributeType_t attributeType,
				       int64_t requestedElementCount, int64_t *elementCount,
				       void *arrayOfElements)
{
	const struct attribute *a;
	int64_t count;

	if (!descriptor)
		return CUDNN_STATUS_BAD_PARAM;
	a = cudnn_attribute(descriptor, attributeName);
	if (!a) {
		count = computed_answer(descriptor, attributeName, attributeType, requestedElementCount,
					arrayOfElements);
		if (elementCount)
			*elementCount = count;
		return CUDNN_STATUS_SUCCESS;
	}
	if (a->type != attributeType)
		return CUDNN_STATUS_BAD_PARAM;
	if (elementCount)
		*elementCount = a->count;
	count = a->count < requestedElementCount ? a->count : requestedElementCount;
	if (!arrayOfElements || count <= 0)
		return CUDNN_STATUS_SUCCESS;
	if (a->type != CUDNN_TYPE_BACKEND_DESCRIPTOR) {
		memcpy(arrayOfElements, a->elements, (size_t)count * element_bytes(a->type));
		return CUDNN_STATUS_SUCCESS;
	}
	for (int64_t i = 0; i < count; i++) {
		struct descriptor *src = ((struct descriptor **)a->elements)[i];
		struct descriptor *dst = ((struct descriptor **)arrayOfElements)[i];

		if (!src || !dst)
			return CUDNN_STATUS_BAD_PARAM;
		descriptor_copy(dst, src);
	}
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t executionPlan,
				  cudnnBackendDescriptor_t variantPack)
{
	if (!handle)
		return CUDNN_STATUS_NOT_INITIALIZED;
	if (!executionPlan || !variantPack)
		return CUDNN_STATUS_BAD_PARAM;
	sim_library_launch(handle);
	return CUDNN_STATUS_SUCCESS;
}

/* A plan as a graph: one kernel, for how many a plan has nobody but the library knows. */
static cudnnStatus_t plan_graph(cudnnHandle_t handle, const void *plan, const void *pack, cudaGraph_t graph, bool add)
{
	if (!handle)
		return CUDNN_STATUS_NOT_INITIALIZED;
	if (!plan || !pack || !sim_graph_library_kernel(graph, add))
		return CUDNN_STATUS_BAD_PARAM;
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendPopulateCudaGraph(cudnnHandle_t handle, cudnnBackendDescriptor_t executionPlan,
					    cudnnBackendDescriptor_t variantPack, cudaGraph_t graph)
{
	return plan_graph(handle, executionPlan, variantPack, graph, true);
}

/* Other addresses for a graph that was populated: kernels do nothing with them. */
cudnnStatus_t cudnnBackendUpdateCudaGraph(cudnnHandle_t handle, cudnnBackendDescriptor_t executionPlan,
					  cudnnBackendDescriptor_t variantPack, cudaGraph_t graph)
{
	return plan_graph(handle, executionPlan, variantPack, graph, false);
}
