/* SPDX-License-Identifier: MIT */
/* Not causes: which part of the model made most of what a step needs, what its batch is of; which is trained by mistake. */
#include "analyzer/oom/autopsy_parts.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/modules/modulepaths.h"
#include "analyzer/names/modelkeeper.h"
#include "analyzer/names/modulename.h"
#include "analyzer/oom/autopsy_causes.h"
#include "analyzer/oom/autopsy_facts.h"
#include "analyzer/oom/oom_thresholds.h"
#include "analyzer/purpose/namedblocks.h"

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

/* ---- a part of the model that evaluates, and is trained ---------------------------------------- */

struct trained {
	uint64_t module; /* address */
	uint64_t graphs, gradients, state;
};

struct trained_parts {
	struct trained *part;
	size_t nr, room;
};

/* Of a stack's modules. */
struct calls {
	uint64_t innermost, outermost;
	uint64_t evaluated; /* the outermost that evaluates within one that trains, and calls others; 0: none */
};

static struct calls calls_of(const struct autopsy *a, uint32_t python_stack)
{
	const struct tfmt_reader *reader = a->device->process->reader;
	struct calls of = { 0 };
	struct tfmt_instance on;
	struct tfmt_call call;
	uint64_t evaluates = 0; /* the outermost so far */
	uint32_t mode;

	for (uint32_t id = python_stack; tfmt_reader_call(reader, id, &call); id = call.parent) {
		if (!call.instance || !tfmt_reader_instance(reader, call.instance, &on))
			continue;
		of.outermost = on.address;
		of.innermost = of.innermost ? of.innermost : on.address;
		mode = modulename_mode(a->device->process->names, &on);
		if (mode & TFMT_OBJECT_EVALUATES)
			evaluates = on.address;
		if (mode & TFMT_OBJECT_TRAINS && evaluates)
			of.evaluated = evaluates;
	}
	if (of.evaluated == of.innermost)
		of.evaluated = 0;
	return of;
}

/* Was it the first that its outermost module has called? Stacks are numbered as they came. */
static bool is_called_first(const struct autopsy *a, const struct calls *calls)
{
	const struct books *books = a->device->process->books;
	uint32_t first = UINT32_MAX;

	for (uint32_t i = 0; i < books_nr_groups(books); i++) {
		const struct group *g = books_group(books, i);

		if (g->tensor && g->device == a->device->ordinal && g->phase == PHASE_FORWARD && g->python_stack < first &&
		    calls_of(a, g->python_stack).outermost == calls->outermost)
			first = g->python_stack;
	}
	return first < UINT32_MAX && calls_of(a, first).evaluated == calls->evaluated;
}

static struct trained *part_of(struct trained_parts *parts, uint64_t module)
{
	for (size_t i = 0; i < parts->nr; i++)
		if (parts->part[i].module == module)
			return &parts->part[i];
	parts->part = heap_grow(parts->part, &parts->room, parts->nr + 1, sizeof(*parts->part));
	parts->part[parts->nr] = (struct trained){ .module = module };
	return &parts->part[parts->nr++];
}

static uint64_t evaluated_by_name(const struct autopsy *a, size_t i)
{
	struct named named;

	return namedblocks_name(&named, a->device->process, &a->categories.block[i].life, LIVES_OOM) ?
		       modelkeeper_evaluated(named.census->census, named.object) :
		       0;
}

static void add_part(struct trained_parts *parts, const struct autopsy *a, size_t i, uint64_t module)
{
	struct trained *t = module ? part_of(parts, module) : NULL;
	enum category category = a->categories.block[i].category;
	uint64_t size = a->categories.block[i].life.size;

	if (t && category == CATEGORY_GRADIENT)
		t->gradients += size;
	else if (t && category == CATEGORY_OPTIMIZER_STATE)
		t->state += size;
	else if (t)
		t->graphs += size;
}

/*
 * Parts that have gradients or state are trained. So is the one in which graphs begin: what is called first, and makes nodes,
 * has parameters that need a gradient, for what it is given needs none.
 */
static bool find_trained(struct trained *most, const struct autopsy *a)
{
	struct trained_parts parts = { 0 };
	struct calls first = { 0 }, calls;
	bool has_first = false;

	*most = (struct trained){ 0 };
	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		enum category category = a->categories.block[i].category;

		if (category == CATEGORY_GRADIENT || category == CATEGORY_OPTIMIZER_STATE) {
			add_part(&parts, a, i, evaluated_by_name(a, i));
		} else if (a->block[i].has_graph && a->categories.block[i].life.birth.ordinal >= a->step_ordinal) {
			calls = calls_of(a, autopsy_group(a, i)->python_stack);
			first = has_first ? first : calls;
			has_first = true;
			add_part(&parts, a, i, calls.evaluated);
		}
	}
	if (first.evaluated && !is_called_first(a, &first))
		first.evaluated = 0;
	for (size_t i = 0; i < parts.nr; i++) {
		const struct trained *t = &parts.part[i];

		if ((t->module == first.evaluated || t->gradients || t->state) &&
		    t->graphs + t->gradients + t->state > most->graphs + most->gradients + most->state)
			*most = *t;
	}
	free(parts.part);
	return most->module;
}

void autopsy_say_trained(const struct autopsy *a, struct autopsy_finding *f)
{
	struct objectname name;
	struct trained t;
	uint64_t bytes;

	if (!a->device->process->names || !find_trained(&t, a) || !modulename_at(&name, a->device->process->names, t.module))
		return;
	bytes = t.graphs + t.gradients + t.state;
	if (2 * bytes <= a->failure->allocated || bytes < a->lacking)
		return;
	autopsy_evidence_first(f, SAID(trained_part, fact_name("part", name.text),
				       fact_if(t.graphs, fact_bytes("graphs", t.graphs)),
				       fact_if(t.gradients, fact_bytes("gradients", t.gradients)),
				       fact_if(t.state, fact_bytes("state", t.state))));
	autopsy_advise_first(f, SAID(trained_part_advice, fact_name("part", name.text), fact_bytes("bytes", bytes)));
}
