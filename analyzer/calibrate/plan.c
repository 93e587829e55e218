/* SPDX-License-Identifier: MIT */
/* cuDNN operation graphs from text, and the workspace of the first plan for them. */
#include "analyzer/calibrate/plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"

/*
 * A tensor that several operations share stands in the text once for each of them, and must be one
 * descriptor: what reads the same is the same.
 */
struct made {
	const char *text;
	size_t length;
	cudnnBackendDescriptor_t descriptor;
};

struct plan {
	const struct libraries *l;
	cudnnHandle_t handle;
	struct made *made;
	size_t nr_made;
	unsigned depth; /* of the descriptor that is built now */
	const char *reason; /* of the first trouble */
	char *what;
	size_t what_length;
};

static bool trouble(struct plan *p, const char *reason)
{
	if (!p->reason)
		p->reason = reason;
	return false;
}

/* Descriptors live until the plan is done; on failure the caller's *d is NULL. */
static bool new_descriptor(struct plan *p, cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *d)
{
	*d = NULL;
	p->made = heap_need(realloc(p->made, (p->nr_made + 1) * sizeof(*p->made)));
	if (p->l->cudnnBackendCreateDescriptor(type, d) != CUDNN_STATUS_SUCCESS)
		return trouble(p, "this cuDNN does not know a descriptor of the graph");
	p->made[p->nr_made++] = (struct made){ .descriptor = *d };
	return true;
}

static void release(struct plan *p)
{
	while (p->nr_made)
		p->l->cudnnBackendDestroyDescriptor(p->made[--p->nr_made].descriptor);
	free(p->made);
}

/* ---- for people ------------------------------------------------------------------------------ */

static const char *operation_name(int type)
{
	switch (type) {
	case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
		return "convolution_forward";
	case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
		return "convolution_backward_filter";
	case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
		return "convolution_backward_data";
	case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
		return "matmul";
	case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
		return "pointwise";
	case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
		return "reduction";
	case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
		return "reshape";
	case CUDNN_BACKEND_OPERATION_RNG_DESCRIPTOR:
		return "rng";
	case CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR:
		return "attention_forward";
	case CUDNN_BACKEND_OPERATION_SDPA_BWD_DESCRIPTOR:
		return "attention_backward";
	default:
		return NULL;
	}
}

/* What does not fit any more is left out as a whole. */
static void say(struct plan *p, const char *text)
{
	size_t n = strlen(text);

	if (p->what_length + n + 2 > PLAN_WHAT_BYTES)
		return;
	if (p->what_length)
		p->what[p->what_length++] = ' ';
	memcpy(p->what + p->what_length, text, n + 1);
	p->what_length += n;
}

/* ---- the text -------------------------------------------------------------------------------- */

/* Descriptors in descriptors; cuDNN's have three: graph, operation, tensor. */
enum { MAX_DEPTH = 16 };

static const char *build(struct plan *p, const char *text, cudnnBackendDescriptor_t *d);

static bool take_number(const char **text, long *number)
{
	char *end;

	*number = strtol(*text, &end, 10);
	if (end == *text)
		return false;
	*text = end;
	return true;
}

static bool take(const char **text, char c)
{
	if (**text != c)
		return false;
	++*text;
	return true;
}

/* One element of TYPE to OUT, which has room for the largest. Returns what follows it, or NULL. */
static const char *take_element(struct plan *p, const char *text, cudnnBackendAttributeType_t type, void *out,
				size_t *size)
{
	cudnnFraction_t fraction;
	char *end = NULL;

	*size = 8;
	switch (type) {
	case CUDNN_TYPE_BACKEND_DESCRIPTOR:
		return build(p, text, out);
	case CUDNN_TYPE_HANDLE:
	case CUDNN_TYPE_VOID_PTR: /* an address of the process that asked */
		return NULL;
	case CUDNN_TYPE_INT64:
		*(int64_t *)out = strtoll(text, &end, 10);
		break;
	case CUDNN_TYPE_DOUBLE:
		*(double *)out = strtod(text, &end);
		break;
	case CUDNN_TYPE_FLOAT:
		*size = 4;
		*(float *)out = strtof(text, &end);
		break;
	case CUDNN_TYPE_BOOLEAN:
	case CUDNN_TYPE_CHAR:
		*size = 1;
		*(signed char *)out = (signed char)strtol(text, &end, 10);
		break;
	case CUDNN_TYPE_FRACTION:
		*size = sizeof(fraction);
		fraction.numerator = strtoll(text, &end, 10);
		if (*end != '/')
			return NULL;
		fraction.denominator = strtoll(end + 1, &end, 10);
		memcpy(out, &fraction, sizeof(fraction));
		break;
	default:
		*size = 4;
		*(int *)out = (int)strtol(text, &end, 10);
		break;
	}
	return end == text ? NULL : end;
}

enum { MAX_ELEMENTS = 64, ELEMENT_BYTES = 16 };

/* "NAME:TYPE=ELEMENT,..." becomes an attribute of D. Returns what follows it, or NULL. */
static const char *take_attribute(struct plan *p, const char *text, cudnnBackendDescriptor_t d)
{
	_Alignas(16) char elements[MAX_ELEMENTS * ELEMENT_BYTES];
	size_t bytes = 0, size = 0;
	int64_t count = 0;
	long name, type;

	if (!take_number(&text, &name) || !take(&text, ':') || !take_number(&text, &type) ||
	    !take(&text, '='))
		return NULL;
	if (*text != ' ' && *text != ')') {
		do {
			if (count == MAX_ELEMENTS)
				return NULL;
			text = take_element(p, text, (cudnnBackendAttributeType_t)type, elements + bytes,
					    &size);
			bytes += size;
			count++;
		} while (text && take(&text, ','));
	}
	if (!text)
		return NULL;
	if (p->l->cudnnBackendSetAttribute(d, (cudnnBackendAttributeName_t)name,
					   (cudnnBackendAttributeType_t)type, count,
					   elements) != CUDNN_STATUS_SUCCESS) {
		trouble(p, "this cuDNN refuses an attribute of the graph");
		return NULL;
	}
	return text;
}

/* The end of the descriptor that starts at TEXT, or NULL. */
static const char *descriptor_end(const char *text)
{
	int depth = 0;

	for (; *text; text++) {
		depth += (*text == '(') - (*text == ')');
		if (*text == ')' && !depth)
			return text + 1;
	}
	return NULL;
}

static cudnnBackendDescriptor_t find_made(const struct plan *p, const char *text, size_t length)
{
	for (size_t i = 0; i < p->nr_made; i++) {
		if (p->made[i].length == length && !memcmp(p->made[i].text, text, length))
			return p->made[i].descriptor;
	}
	return NULL;
}

/* The dimensions of a tensor that lies in memory: " 902:3=8,64,56,56" in its text, without "907:2=1". */
static void say_tensor(struct plan *p, const char *text, const char *end)
{
	char dimensions[64], attribute[16], is_virtual[16];
	const char *at;

	snprintf(attribute, sizeof(attribute), "%d:%d=", CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64);
	snprintf(is_virtual, sizeof(is_virtual), "%d:%d=1", CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN);
	at = memmem(text, (size_t)(end - text), attribute, strlen(attribute));
	if (!at || memmem(text, (size_t)(end - text), is_virtual, strlen(is_virtual)))
		return;
	at += strlen(attribute);
	snprintf(dimensions, sizeof(dimensions), "[%.*s]", (int)strcspn(at, " )"), at);
	say(p, dimensions);
}

static bool set_handle(struct plan *p, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name)
{
	return p->l->cudnnBackendSetAttribute(d, name, CUDNN_TYPE_HANDLE, 1, &p->handle) ==
		       CUDNN_STATUS_SUCCESS ||
	       trouble(p, "cuDNN does not take its handle");
}

/* The descriptor at TEXT, whole and finalized, to *d. Returns what follows it, or NULL. */
static const char *build(struct plan *p, const char *text, cudnnBackendDescriptor_t *d)
{
	const char *start = text, *end;
	size_t own;
	long type;

	*d = NULL;
	if (take(&text, '-'))
		return text;
	end = p->depth < MAX_DEPTH ? descriptor_end(text) : NULL;
	if (!end || !take_number(&text, &type) || !take(&text, '('))
		return NULL;
	*d = find_made(p, start, (size_t)(end - start));
	if (*d)
		return end;
	if (!new_descriptor(p, (cudnnBackendDescriptorType_t)type, d))
		return NULL;
	own = p->nr_made - 1;
	if (operation_name((int)type))
		say(p, operation_name((int)type));
	if (type == CUDNN_BACKEND_TENSOR_DESCRIPTOR)
		say_tensor(p, start, end);
	if (type == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR &&
	    !set_handle(p, *d, CUDNN_ATTR_OPERATIONGRAPH_HANDLE))
		return NULL;
	p->depth++;
	while (text && *text != ')') {
		text = take_attribute(p, text, *d);
		if (text)
			take(&text, ' ');
	}
	p->depth--;
	if (!text)
		return NULL;
	if (p->l->cudnnBackendFinalize(*d) != CUDNN_STATUS_SUCCESS) {
		trouble(p, "this cuDNN does not accept the graph");
		return NULL;
	}
	p->made[own].text = start;
	p->made[own].length = (size_t)(end - start);
	return end;
}

/* ---- plans ----------------------------------------------------------------------------------- */

/* The workspace of a plan with the engine configuration CONFIG; false when there can be none. */
static bool try_config(struct plan *p, cudnnBackendDescriptor_t config, uint64_t *bytes)
{
	cudnnBackendDescriptor_t plan;
	int64_t count = 0, size = 0;

	if (!new_descriptor(p, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan) ||
	    !set_handle(p, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE) ||
	    p->l->cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
					   CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &config) ||
	    p->l->cudnnBackendFinalize(plan) ||
	    p->l->cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
					   1, &count, &size))
		return false;
	*bytes = (uint64_t)size;
	return true;
}

static bool try_heuristics(struct plan *p, cudnnBackendDescriptor_t graph, cudnnBackendHeurMode_t mode,
			   uint64_t *bytes)
{
	cudnnBackendDescriptor_t heuristics, configs[32];
	int64_t count = 0;
	int nr = 0;

	if (!new_descriptor(p, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, &heuristics) ||
	    p->l->cudnnBackendSetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
					   CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph) ||
	    p->l->cudnnBackendSetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1,
					   &mode) ||
	    p->l->cudnnBackendFinalize(heuristics))
		return trouble(p, "cuDNN's heuristics do not know the graph");
	while (nr < 32 && new_descriptor(p, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &configs[nr]))
		nr++;
	if (p->l->cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
					   CUDNN_TYPE_BACKEND_DESCRIPTOR, nr, &count, configs))
		return trouble(p, "cuDNN's heuristics have no engine for the graph");
	for (int i = 0; i < nr && i < count; i++) {
		if (try_config(p, configs[i], bytes))
			return true;
	}
	return trouble(p, "cuDNN has no plan for the graph on this GPU");
}

bool plan_workspace(const struct libraries *l, cudnnHandle_t handle, cudnnBackendHeurMode_t mode,
		    const char *text, uint64_t *bytes, char what[static PLAN_WHAT_BYTES], const char **reason)
{
	struct plan p = { .l = l, .handle = handle, .what = what };
	cudnnBackendDescriptor_t graph;
	const char *end;
	bool done;

	what[0] = 0;
	end = build(&p, text, &graph);
	done = end && !*end && graph ? try_heuristics(&p, graph, mode, bytes)
				     : trouble(&p, "the graph is not understood");
	*reason = p.reason;
	release(&p);
	return done;
}
