/* SPDX-License-Identifier: MIT */
/* Not a cause: which part of the model made most of what a step needs, and what its batch is of. */
#include "analyzer/oom/autopsy_parts.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/modules/modulepaths.h"
#include "analyzer/oom/autopsy_facts.h"
#include "analyzer/oom/oom_thresholds.h"

#define COLOURS 3

/* What this step has made that passes: activations, temporaries, and the like. */
static bool is_of_step(const struct autopsy *a, size_t i)
{
	const struct category_block *b = &a->categories.block[i];

	return moment_is_passing(b->category) && b->category != CATEGORY_WORKSPACE &&
	       b->life.birth.ordinal >= a->step_ordinal && b->life.birth.phase != PHASE_INIT;
}

/* Pictures or films: [n, 3, height, width], or with more in front. */
static bool is_pictures(const struct tfmt_shape *s)
{
	return s->nr_dims >= 4 && s->dims[s->nr_dims - 3] == COLOURS && s->dims[s->nr_dims - 2] >= PICTURE_SIDE_MIN &&
	       s->dims[s->nr_dims - 1] >= PICTURE_SIDE_MIN;
}

static void find_pictures(struct autopsy *a, struct autopsy_parts *p)
{
	uint64_t most = 0;

	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct tfmt_shape *s = &a->block[i].shape;

		if (a->categories.block[i].category != CATEGORY_INPUT || !a->block[i].is_shaped || !is_of_step(a, i) ||
		    !is_pictures(s) || s->bytes <= most)
			continue;
		most = s->bytes;
		p->pictures = moment_elements(s, s->nr_dims - 3);
		p->height = s->dims[s->nr_dims - 2];
		p->width = s->dims[s->nr_dims - 1];
	}
}

static bool has_sibling(const struct modulepaths *paths, uint32_t path, const char *name)
{
	for (uint32_t i = 0; i < paths->nr_paths; i++)
		if (paths->path[i].parent == paths->path[path - 1].parent && !strcmp(paths->path[i].name, name))
			return true;
	return false;
}

/* By their names in transformers, diffusers and PyTorch; some are cross-attention only beside another one. */
static bool is_cross_attention(const struct modulepaths *paths, uint32_t path)
{
	static const struct {
		const char *name, *beside;
	} names[] = {
		{ "encoder_attn", NULL }, { "EncDecAttention", NULL }, { "attn2", "attn1" }, { "multihead_attn", "self_attn" },
	};
	const char *name = paths->path[path - 1].name;

	if ((strstr(name, "cross") || strstr(name, "Cross")) && (strstr(name, "attn") || strstr(name, "ttention")))
		return true;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(name, names[i].name) && (!names[i].beside || has_sibling(paths, path, names[i].beside)))
			return true;
	return false;
}

/* The path, or what it is part of; 0: it is in none. */
static uint32_t cross_attention_of(const struct modulepaths *paths, uint32_t path)
{
	while (path && !is_cross_attention(paths, path))
		path = paths->path[path - 1].parent;
	return path;
}

void autopsy_find_parts(struct autopsy *a)
{
	const struct modulepaths *paths = a->device->process->modulepaths;
	uint64_t *bytes = heap_alloc(paths->nr_paths + 1u, sizeof(*bytes)); /* by path, with all that is in it */
	struct autopsy_parts *p = &a->parts;
	uint32_t known = 0, depth, deepest = a->modules.nr_common;
	bool is_cross = false;

	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct category_block *b = &a->categories.block[i];

		if (!is_of_step(a, i))
			continue;
		p->step_bytes += b->life.size;
		if (b->module && b->module != known) {
			known = b->module;
			is_cross = cross_attention_of(paths, known);
		}
		p->cross_bytes += b->module && is_cross ? b->life.size : 0;
		for (uint32_t path = b->module; path; path = paths->path[path - 1].parent)
			bytes[path] += b->life.size;
	}
	for (uint32_t path = 1; path <= paths->nr_paths; path++) {
		depth = modulepaths_depth(paths, path);
		if (MOST_OF_STEP_PART * bytes[path] <= p->step_bytes || depth <= deepest)
			continue;
		deepest = depth;
		p->most = path;
		p->most_bytes = bytes[path];
	}
	find_pictures(a, p);
	free(bytes);
}
