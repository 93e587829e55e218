/* SPDX-License-Identifier: MIT */
/* Operation graphs as text, and the workspaces that were answered for them. */
#include "simgpu/cudnn_question.h"

#include <stdio.h>
#include <stdlib.h>

#include "simgpu/answers.h"

static void print_descriptor(FILE *out, const struct descriptor *d);

static void print_element(FILE *out, const struct attribute *a, int64_t i)
{
	const void *p = a->elements;

	switch (a->type) {
	case CUDNN_TYPE_BACKEND_DESCRIPTOR:
		print_descriptor(out, ((struct descriptor *const *)p)[i]);
		break;
	case CUDNN_TYPE_INT64:
		fprintf(out, "%lld", (long long)((const int64_t *)p)[i]);
		break;
	case CUDNN_TYPE_FLOAT:
		fprintf(out, "%.9g", (double)((const float *)p)[i]);
		break;
	case CUDNN_TYPE_DOUBLE:
		fprintf(out, "%.17g", ((const double *)p)[i]);
		break;
	case CUDNN_TYPE_BOOLEAN:
	case CUDNN_TYPE_CHAR:
		fprintf(out, "%d", ((const signed char *)p)[i]);
		break;
	case CUDNN_TYPE_FRACTION:
		fprintf(out, "%lld/%lld", (long long)((const cudnnFraction_t *)p)[i].numerator,
			(long long)((const cudnnFraction_t *)p)[i].denominator);
		break;
	default:
		fprintf(out, "%d", ((const int *)p)[i]);
		break;
	}
}

static void print_descriptor(FILE *out, const struct descriptor *d)
{
	const char *separator = "";

	if (!d) {
		fputc('-', out);
		return;
	}
	fprintf(out, "%d(", (int)d->type);
	for (unsigned n = 0; n < d->nr_attributes; n++) {
		const struct attribute *a = &d->attributes[n];

		if (a->type == CUDNN_TYPE_HANDLE || a->type == CUDNN_TYPE_VOID_PTR)
			continue;
		fprintf(out, "%s%d:%d=", separator, (int)a->name, (int)a->type);
		for (int64_t i = 0; i < a->count; i++) {
			if (i)
				fputc(',', out);
			print_element(out, a, i);
		}
		separator = " ";
	}
	fputc(')', out);
}

static const struct descriptor *child(const struct descriptor *d, cudnnBackendAttributeName_t name)
{
	const struct attribute *a = d ? cudnn_attribute(d, name) : NULL;

	return a && a->type == CUDNN_TYPE_BACKEND_DESCRIPTOR && a->count ? *(struct descriptor **)a->elements
									 : NULL;
}

size_t cudnn_workspace_bytes(const struct descriptor *d)
{
	const struct descriptor *config = d, *engine, *graph;
	const struct attribute *mode;
	char *question = NULL;
	size_t length, bytes;
	FILE *out;

	if (!sim_answers_wanted()) {
		sim_answered_zero();
		return 0;
	}
	if (d->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
		config = child(d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
	engine = child(config, CUDNN_ATTR_ENGINECFG_ENGINE);
	graph = child(engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH);
	if (!graph) {
		sim_answered_zero();
		return 0;
	}
	mode = cudnn_attribute(engine, CUDNN_ATTR_ENGINEHEUR_MODE);

	out = open_memstream(&question, &length);
	if (!out)
		sim_host_limit("malloc failed", "free some memory on this machine");
	fprintf(out, "cudnn-plan %d ", mode ? *(int *)mode->elements : CUDNN_HEUR_MODE_A);
	print_descriptor(out, graph);
	if (fclose(out))
		sim_host_limit("malloc failed", "free some memory on this machine");
	bytes = sim_answer(question, 0);
	free(question);
	return bytes;
}
