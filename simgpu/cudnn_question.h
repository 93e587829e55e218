/* SPDX-License-Identifier: MIT */
/*
 * cuDNN's backend descriptors, and an operation graph written down so that the real cuDNN can be asked for
 * the same plan (answers.h).
 *
 * The notation. A descriptor is its type, and in parentheses its attributes in the order in which they were
 * set, each as NAME:TYPE=ELEMENT,ELEMENT..., all by the values that cudnn_graph.h gives them:
 *
 *	17(900:1=0 901:3=8,64,56,56 903:3=200704,3136,56,1)
 *
 * An element is a decimal number, for CUDNN_TYPE_FRACTION two (7/2), for CUDNN_TYPE_BACKEND_DESCRIPTOR a
 * descriptor or, where it is NULL, "-". Handles and pointers are left out: they say where, not what.
 */
#ifndef SIMGPU_CUDNN_QUESTION_H
#define SIMGPU_CUDNN_QUESTION_H

#include "simgpu/cudnn_state.h"

struct attribute {
	cudnnBackendAttributeName_t name;
	cudnnBackendAttributeType_t type;
	int64_t count;
	void *elements;
};

struct descriptor {
	int refs;
	cudnnBackendDescriptorType_t type;
	struct attribute *attributes;
	unsigned nr_attributes;
};

/* The attribute NAME of D, or NULL when it was never set. */
struct attribute *cudnn_attribute(const struct descriptor *d, cudnnBackendAttributeName_t name);

/* The workspace that D, an execution plan or an engine configuration, asks the program for. */
size_t cudnn_workspace_bytes(const struct descriptor *d);

#endif
