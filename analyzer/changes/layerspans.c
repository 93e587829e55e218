/* SPDX-License-Identifier: MIT */
/* When layers ran, by the blocks that were made in them. */
#include "analyzer/changes/layerspans.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/changes/changes_thresholds.h"
#include "analyzer/base/heap.h"
#include "analyzer/stacks/element.h"


int32_t layerspans_layer(const struct layerspans *l, size_t block)
{
	uint32_t path = l->j->blocks.block[block].module;

	return path <= l->paths->nr_paths ? l->of[path] : -1;
}

static struct layerspan *span_of(const struct layerspans *l, size_t block)
{
	int32_t index = layerspans_layer(l, block);

	return index < 0 ? NULL : &l->span[index];
}

static bool is_float(const struct tfmt_shape *s)
{
	const char *name = element_name(s->element_type);

	return s->bytes && (strstr(name, "float") || strstr(name, "complex"));
}

/* Is it a result of the layer's forward, there when the next one begins? */
static bool is_result(const struct layerspans *l, size_t i)
{
	const struct layerspan *span = span_of(l, i);

	return span && jobpart_is_born(l->j, i, PHASE_FORWARD) && is_float(&l->j->shape[i]) &&
	       l->j->blocks.block[i].life.death.ordinal > span->end;
}

/*
 * The layer's output is the last that it makes and the next one finds: what a norm keeps of its input, a few values
 * for each sample or channel, is made after its result.
 */
static void find_outputs(struct layerspans *l)
{
	const struct jobpart *j = l->j;

	for (size_t i = 0; i < j->blocks.nr_blocks; i++)
		if (is_result(l, i) && j->blocks.block[i].life.size > span_of(l, i)->largest)
			span_of(l, i)->largest = j->blocks.block[i].life.size;
	for (size_t i = 0; i < j->blocks.nr_blocks; i++)
		if (is_result(l, i) && j->blocks.block[i].life.size >= span_of(l, i)->largest / OUTPUT_LEAST)
			span_of(l, i)->output = i;
}

static void find_forward(struct layerspans *l)
{
	const struct jobpart *j = l->j;
	struct layerspan *before = NULL;

	for (size_t i = 0; i < j->blocks.nr_blocks; i++) {
		const struct life *life = &j->blocks.block[i].life;
		struct layerspan *span = span_of(l, i);

		if (life->birth.ordinal < j->from || life->birth.ordinal > j->to || life->birth.phase == PHASE_BACKWARD)
			continue;
		if (before && before != span)
			before->end = life->birth.ordinal;
		before = NULL;
		if (!span || life->birth.phase != PHASE_FORWARD)
			continue;
		if (span->first == TFMT_NO_ORDINAL)
			span->first = life->birth.ordinal;
		span->last = life->birth.ordinal;
		span->end = life->birth.ordinal + 1;
		span->passed += life->size;
		before = span;
	}
}

static void earlier(uint64_t *time, uint64_t ordinal)
{
	if (ordinal < *time)
		*time = ordinal;
}

/* Its backward begins where a node of it first allocates, or first gives back what it has saved. */
static void find_backward(struct layerspans *l)
{
	const struct jobpart *j = l->j;

	for (size_t i = 0; i < j->blocks.nr_blocks; i++) {
		const struct life *life = &j->blocks.block[i].life;
		struct layerspan *span = span_of(l, i);

		if (!span || i == span->output)
			continue;
		if (jobpart_is_born(j, i, PHASE_BACKWARD))
			earlier(&span->back, life->birth.ordinal);
		if (jobpart_is_kept(j, i) && life->death.phase == PHASE_BACKWARD)
			earlier(&span->back, life->death.ordinal);
	}
}

void layerspans_find(struct layerspans *l, const struct jobpart *j, int32_t *of, uint32_t nr_layers)
{
	*l = (struct layerspans){
		.j = j, .paths = j->device->process->modulepaths, .nr_layers = nr_layers, .of = of
	};
	l->span = heap_alloc(nr_layers, sizeof(*l->span));
	for (uint32_t i = 0; i < nr_layers; i++)
		l->span[i] = (struct layerspan){ .first = TFMT_NO_ORDINAL,
						 .back = TFMT_NO_ORDINAL,
						 .output = SIZE_MAX };
	find_forward(l);
	find_outputs(l);
	find_backward(l);
}

void layerspans_of_list(struct layerspans *l, const struct jobpart *j, const struct layerlist *list)
{
	const struct modulepaths *paths = j->device->process->modulepaths;
	int32_t *of = heap_alloc(paths->nr_paths + 1, sizeof(*of));

	layerlist_members(list, paths, of);
	layerspans_find(l, j, of, list->nr_layers);
	l->list = *list;
}

void layerspans_release(struct layerspans *l)
{
	free(l->span);
	free(l->of);
}

bool layerspans_are_in_order(const struct layerspans *l)
{
	uint64_t last = 0;

	for (uint32_t i = 0; i < l->nr_layers; i++) {
		const struct layerspan *span = &l->span[i];

		if (span->first == TFMT_NO_ORDINAL)
			continue;
		if (span->first < last)
			return false;
		last = span->last;
	}
	return true;
}

uint32_t layerspans_call(const struct layerspans *l)
{
	struct modulepaths *paths = l->j->device->process->modulepaths;
	uint32_t call = 0;

	for (size_t i = 0; i < l->j->blocks.nr_blocks && !call; i++)
		if (layerspans_layer(l, i) >= 0 && jobpart_is_kept(l->j, i))
			call = modulepaths_call(paths, l->j->blocks.block[i].life.birth.stack, l->list.depth);
	return call;
}
