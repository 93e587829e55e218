/* SPDX-License-Identifier: MIT */
/* Not causes: which part of the model made most of what a step needs, what its batch is of; which is trained by mistake. */
#include "analyzer/oom/autopsy_parts.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/modules/modulepaths.h"
#include "analyzer/names/modelkeeper.h"
#include "analyzer/names/modulename.h"
#include "analyzer/names/objectway.h"
#include "analyzer/oom/autopsy_causes.h"
#include "analyzer/oom/autopsy_facts.h"
#include "analyzer/oom/oom_thresholds.h"
#include "analyzer/purpose/namedblocks.h"
#include "analyzer/recording/sorted.h"

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

/* ---- modules whose parameters an optimizer has ------------------------------------------------- */

struct update {
	uint64_t module;  /* address */
	bool is_updated;  /* an optimizer has parameters of it, or of modules in it */
	bool is_in_graph; /* a graph begins with one of those: they need a gradient */
};

struct updates {
	struct update *update; /* by module, ascending */
	size_t nr, room;
	bool has_updated;
};

static void add_update(struct updates *o, const struct objectway *w, bool is_in_graph)
{
	bool is_updated = w->step[w->nr - 1]->flags & TFMT_OBJECT_UPDATED;

	for (uint32_t i = w->top; i < w->nr; i++) {
		if (w->step[i]->kind != TFMT_KIND_MODULE)
			continue;
		o->update = heap_grow(o->update, &o->room, o->nr + 1, sizeof(*o->update));
		o->update[o->nr++] = (struct update){ w->step[i]->address, is_updated, is_in_graph };
		o->has_updated |= is_updated;
	}
}

static int by_module(const void *va, const void *vb)
{
	const struct update *a = va, *b = vb;

	return (a->module > b->module) - (a->module < b->module);
}

/* What all parameters of a module tell is one. */
static void join_updates(struct updates *o)
{
	size_t nr = 0;

	if (o->nr)
		qsort(o->update, o->nr, sizeof(*o->update), by_module);
	for (size_t i = 0; i < o->nr; i++) {
		struct update *last = nr ? &o->update[nr - 1] : NULL;

		if (!last || last->module != o->update[i].module) {
			o->update[nr++] = o->update[i];
			continue;
		}
		last->is_updated |= o->update[i].is_updated;
		last->is_in_graph |= o->update[i].is_in_graph;
	}
	o->nr = nr;
}

static void find_updates(struct updates *o, const struct autopsy *a)
{
	struct objectway w;
	struct named named;

	*o = (struct updates){ 0 };
	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		if (a->categories.block[i].category != CATEGORY_PARAMETER ||
		    !namedblocks_name(&named, a->device->process, &a->categories.block[i].life, LIVES_OOM))
			continue;
		objectway_find(&w, named.census->census, named.object);
		if (w.nr && w.step[w.nr - 1]->kind == TFMT_KIND_PARAMETER)
			add_update(o, &w, named.is_in_graph);
	}
	join_updates(o);
}

/* NULL: nothing is known of its parameters. */
static const struct update *update_of(const struct updates *o, uint64_t module)
{
	size_t i = sorted_below(o->update, o->nr, sizeof(*o->update), offsetof(struct update, module), module);

	return i < o->nr && o->update[i].module == module ? &o->update[i] : NULL;
}

/* Has an optimizer parameters, but none of this module's? Where none has any of a module's they are copies, as of sharded ones. */
static bool is_left_out(const struct updates *o, uint64_t module)
{
	const struct update *u = o->has_updated ? update_of(o, module) : NULL;

	return u && !u->is_updated;
}

static bool needs_gradient(const struct updates *o, uint64_t module)
{
	const struct update *u = update_of(o, module);

	return u && u->is_in_graph;
}

bool autopsy_is_updated(const struct autopsy *a, uint64_t module)
{
	struct updates o;
	const struct update *u;
	bool is;

	find_updates(&o, a);
	u = update_of(&o, module);
	is = u && u->is_updated;
	free(o.update);
	return is;
}

/* ---- a part of the model that evaluates or that no optimizer has, and is trained ----------------- */

/* By what it is told that a part is not to be trained. */
enum told_by { BY_MODE, BY_OPTIMIZERS };

struct trained {
	uint64_t module; /* address */
	uint64_t graphs, gradients, state;
	bool calls_others; /* a layer that evaluates by itself, as normalisation does that is to stay as it is, is no part */
};

struct trained_parts {
	struct trained *part;
	size_t nr, room;
};

/* Of a stack's modules. */
struct calls {
	uint64_t innermost, outermost;
	uint64_t part[2]; /* by enum told_by: the outermost that evaluates within one that trains, or is left out; 0: none */
};

static struct calls calls_of(const struct autopsy *a, const struct updates *o, uint32_t python_stack)
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
			of.part[BY_MODE] = evaluates;
		if (is_left_out(o, on.address))
			of.part[BY_OPTIMIZERS] = on.address;
	}
	return of;
}

/* Was it the first that its outermost module has called? Stacks are numbered as they came. */
static bool is_called_first(const struct autopsy *a, const struct updates *o, const struct calls *calls)
{
	const struct books *books = a->device->process->books;
	uint32_t first = UINT32_MAX;

	for (uint32_t i = 0; i < books_nr_groups(books); i++) {
		const struct group *g = books_group(books, i);

		if (g->tensor && g->device == a->device->ordinal && g->phase == PHASE_FORWARD && g->python_stack < first &&
		    calls_of(a, o, g->python_stack).outermost == calls->outermost)
			first = g->python_stack;
	}
	return first < UINT32_MAX && calls_of(a, o, first).part[BY_MODE] == calls->part[BY_MODE];
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

/* Of a gradient or an optimizer's state, the part by the name of its parameter. */
static uint64_t part_by_name(const struct autopsy *a, const struct updates *o, size_t i, enum told_by by)
{
	struct modelkeeper k;
	struct objectway w;
	struct named named;

	if (!namedblocks_name(&named, a->device->process, &a->categories.block[i].life, LIVES_OOM))
		return 0;
	if (by == BY_MODE)
		return modelkeeper_evaluated(named.census->census, named.object);
	modelkeeper_find(&k, named.census->census, named.object);
	objectway_find(&w, named.census->census, k.parameter ? k.parameter : named.object);
	for (uint32_t n = w.top; n < w.nr; n++)
		if (w.step[n]->kind == TFMT_KIND_MODULE && is_left_out(o, w.step[n]->address))
			return w.step[n]->address;
	return 0;
}

static void add_part(struct trained_parts *parts, const struct autopsy *a, size_t i, uint64_t module, bool is_of_another)
{
	struct trained *t = module ? part_of(parts, module) : NULL;
	enum category category = a->categories.block[i].category;
	uint64_t size = a->categories.block[i].life.size;

	if (t)
		t->calls_others |= is_of_another;
	if (t && category == CATEGORY_GRADIENT)
		t->gradients += size;
	else if (t && category == CATEGORY_OPTIMIZER_STATE)
		t->state += size;
	else if (t)
		t->graphs += size;
}

/*
 * Parts that have gradients or state are trained. So are those with parameters that a graph begins with; where optimizers tell nothing,
 * the one in which graphs begin: what is called first, and makes nodes, has parameters that need a gradient, for what it is given
 * needs none.
 */
static bool find_trained(struct trained *most, const struct autopsy *a, const struct updates *o, enum told_by by)
{
	struct trained_parts parts = { 0 };
	struct calls first = { 0 }, calls;
	bool has_first = false;

	*most = (struct trained){ 0 };
	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		enum category category = a->categories.block[i].category;

		if (category == CATEGORY_GRADIENT || category == CATEGORY_OPTIMIZER_STATE) {
			add_part(&parts, a, i, part_by_name(a, o, i, by), true);
		} else if (a->block[i].has_graph && a->categories.block[i].life.birth.ordinal >= a->step_ordinal) {
			calls = calls_of(a, o, autopsy_group(a, i)->python_stack);
			first = has_first ? first : calls;
			has_first = true;
			add_part(&parts, a, i, calls.part[by], calls.part[by] != calls.innermost);
		}
	}
	if (by == BY_MODE && first.part[by] && !is_called_first(a, o, &first))
		first.part[by] = 0;
	for (size_t i = 0; i < parts.nr; i++) {
		const struct trained *t = &parts.part[i];

		bool is_begun = by == BY_MODE ? t->module == first.part[by] : needs_gradient(o, t->module);

		if (t->calls_others && (is_begun || t->gradients || t->state) &&
		    t->graphs + t->gradients + t->state > most->graphs + most->gradients + most->state)
			*most = *t;
	}
	free(parts.part);
	return most->module;
}

/* ---- what was to be frozen, and is trained ------------------------------------------------------ */

struct unfrozen {
	struct trained has;
	uint64_t parameters, bytes; /* how many parameters say so themselves, or modules around them, and what they take */
	const struct tfmt_census *census;
	uint32_t object; /* of the largest of them, what says so */
	uint64_t largest;
};

static void add_unfrozen(struct unfrozen *u, const struct autopsy *a, size_t i)
{
	const struct category_block *b = &a->categories.block[i];
	struct named named;
	uint32_t object = namedblocks_name(&named, a->device->process, &b->life, LIVES_OOM) ?
				  modelkeeper_not_frozen(named.census->census, named.object) : 0;

	if (!object)
		return;
	u->has.gradients += b->category == CATEGORY_GRADIENT ? b->life.size : 0;
	u->has.state += b->category == CATEGORY_OPTIMIZER_STATE ? b->life.size : 0;
	if (b->category != CATEGORY_PARAMETER)
		return;
	u->parameters++;
	u->bytes += b->life.size;
	if (b->life.size <= u->largest)
		return;
	u->largest = b->life.size;
	u->census = named.census->census;
	u->object = object;
}

/* What forward has saved for most of the parameters it has is saved for them. */
static void find_unfrozen(struct unfrozen *u, const struct autopsy *a)
{
	uint64_t parameters = 0, graphs = 0;

	*u = (struct unfrozen){ 0 };
	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct category_block *b = &a->categories.block[i];

		parameters += b->category == CATEGORY_PARAMETER ? b->life.size : 0;
		if (b->category == CATEGORY_PARAMETER || b->category == CATEGORY_GRADIENT || b->category == CATEGORY_OPTIMIZER_STATE)
			add_unfrozen(u, a, i);
		else if (a->block[i].has_graph && b->life.birth.ordinal >= a->step_ordinal)
			graphs += b->life.size;
	}
	u->has.graphs = 2 * u->bytes > parameters ? graphs : 0;
}

/* Does what they take come first? The rest is told as its parts are. */
static bool is_most(const struct autopsy *a, const struct trained *t)
{
	uint64_t bytes = t->graphs + t->gradients + t->state;

	return 2 * bytes > a->failure->allocated && bytes >= a->lacking;
}

/* Where most is saved for backward, at the place that has made most of that: the request may be for little beside it. */
static void at_saved(const struct autopsy *a, struct autopsy_finding *f, const struct trained *t)
{
	uint64_t *bytes = heap_alloc(a->nr_places + 1, sizeof(*bytes));
	size_t most = 0;

	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		size_t place = a->block[i].place;

		if (!a->block[i].has_graph || a->categories.block[i].life.birth.ordinal < a->step_ordinal)
			continue;
		bytes[place] += a->categories.block[i].life.size;
		if (bytes[place] > bytes[most])
			most = place;
	}
	if (t->graphs > t->gradients + t->state)
		autopsy_at_place(a, f, most);
	free(bytes);
}

static void say_has(struct autopsy_finding *f, const struct trained *t)
{
	autopsy_evidence_first(f, SAID(trained_part_has, fact_bytes("graphs", t->graphs), fact_bytes("gradients", t->gradients),
				       fact_bytes("state", t->state)));
}

static bool say_unfrozen(const struct autopsy *a, struct autopsy_finding *f)
{
	struct fact asked = fact_bytes("asked", a->failure->asked), bytes;
	struct objectname name;
	struct unfrozen u;

	find_unfrozen(&u, a);
	if (!u.object || !is_most(a, &u.has))
		return false;
	bytes = fact_bytes("bytes", u.has.graphs + u.has.gradients + u.has.state);
	at_saved(a, f, &u.has);
	say_has(f, &u.has);
	objectname_find(&name, u.census, u.object);
	if (tfmt_census_object(u.census, u.object)->kind == TFMT_KIND_MODULE) {
		autopsy_say(f, SAID(module_not_frozen, bytes, fact_name("part", name.text), asked));
		autopsy_advise_first(f, SAID(freeze_module_advice, fact_name("part", name.text), bytes));
	} else {
		autopsy_say(f, SAID(parameters_not_frozen, bytes, fact_count("parameters", u.parameters), asked));
		autopsy_advise_first(f, SAID(freeze_parameters_advice, bytes));
	}
	return true;
}

static bool say_part(const struct autopsy *a, struct autopsy_finding *f, const struct updates *o, enum told_by by)
{
	struct fact asked = fact_bytes("asked", a->failure->asked), bytes, part;
	struct objectname name;
	struct trained t;

	if (!find_trained(&t, a, o, by) || !is_most(a, &t) || !modulename_at(&name, a->device->process->names, t.module))
		return false;
	bytes = fact_bytes("bytes", t.graphs + t.gradients + t.state);
	part = fact_name("part", name.text);
	at_saved(a, f, &t);
	say_has(f, &t);
	if (by == BY_OPTIMIZERS) {
		autopsy_say(f, SAID(left_out_part, bytes, part, asked));
		autopsy_advise_first(f, SAID(left_out_advice, part, bytes));
	} else {
		autopsy_say(f, SAID(trained_part, bytes, part, asked));
		autopsy_advise_first(f, SAID(trained_part_advice, part, bytes));
	}
	return true;
}

void autopsy_say_trained(const struct autopsy *a, struct autopsy_finding *f)
{
	struct updates o;

	if (!a->device->process->names || say_unfrozen(a, f))
		return;
	find_updates(&o, a);
	if (!say_part(a, f, &o, BY_OPTIMIZERS))
		say_part(a, f, &o, BY_MODE);
	free(o.update);
}
