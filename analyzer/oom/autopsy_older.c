/* SPDX-License-Identifier: MIT */
/*
 * Cause: an older model is still there beside the one that was made after it.
 *
 * A *making* is what parameters were made without a call of a model between them. Where the latest of them makes again what an
 * earlier one made, shape by shape, and nothing has called that since, the program has gone on to the new one: what holds the
 * old one is a fact of a census, without which nothing is said.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/names/groupkeeper.h"
#include "analyzer/names/letgo.h"
#include "analyzer/oom/autopsy_causes.h"
#include "analyzer/stacks/sourceline.h"

struct parameter {
	size_t block;
	uint32_t shape; /* TFMT_DEF_SHAPE */
	uint32_t making;
	uint64_t model, module; /* the outermost, and the one that has it, by address; 0: held by none */
	const char *class_name; /* of the outermost */
	bool is_left;	/* an optimizer has it in a group, and no module any more */
};

struct shapes {
	uint32_t *id; /* ascending */
	size_t nr;
};

struct older {
	struct parameter *parameter; /* by order of allocation */
	size_t nr;
	uint32_t latest;      /* making */
	uint64_t began;	      /* its first event */
	bool is_being_made;   /* the request was for a parameter of it */
	struct shapes newest; /* its, with the request's */
	struct parameter *old; /* of older models */
	size_t nr_old;
	uint64_t bytes, newest_bytes;
	uint32_t nr_models;
	size_t state; /* a block that an optimizer keeps for one of their parameters, if has_state */
	bool has_state;
	bool by_calls; /* that it is of one kind with the newest, the calls that made both tell alone */
};

/* Those that a census has seen: what else is a parameter by its life alone is left out. */
static void find_parameters(struct older *o, const struct autopsy *a)
{
	const struct category_block *before = NULL;
	uint32_t making = 0;

	o->parameter = heap_alloc(a->categories.nr_blocks + 1, sizeof(*o->parameter));
	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct category_block *b = &a->categories.block[i];
		struct objectname optimizer;
		struct modelkeeper k;
		struct named named;

		if (b->category != CATEGORY_PARAMETER || !a->block[i].is_shaped ||
		    !namedblocks_name(&named, a->device->process, &b->life, LIVES_OOM))
			continue;
		modelkeeper_find(&k, named.census->census, named.object);
		making += before && before->life.birth.nr_forwards != b->life.birth.nr_forwards;
		before = b;
		o->parameter[o->nr++] = (struct parameter){ i, autopsy_group(a, i)->shape, making, k.outermost, k.innermost,
							     k.class_name, !k.outermost && letgo_group_owner(&optimizer, &named) };
	}
	o->latest = making;
}

static uint64_t birth_of(const struct autopsy *a, const struct parameter *p)
{
	return a->categories.block[p->block].life.birth.ordinal;
}

static uint64_t latest_call(const struct autopsy *a, const struct parameter *p)
{
	return p->module ? modulepaths_latest_call(a->device->process->modulepaths, p->module) : 0;
}

/* Was memory asked for where models are made, and for a parameter as there has been one before? */
static bool is_made_now(const struct older *o, const struct autopsy *a)
{
	if (a->failure->phase != PHASE_INIT && a->failure->phase != PHASE_OTHER)
		return false;
	for (size_t i = 0; i < o->nr; i++)
		if (o->parameter[i].shape == a->failure->shape)
			return true;
	return false;
}

/* The request may be for the first parameter of a new one: the model before was called since its last one was made. */
static void find_latest(struct older *o, const struct autopsy *a)
{
	const struct parameter *last = &o->parameter[o->nr - 1];

	o->is_being_made = is_made_now(o, a);
	if (o->is_being_made && latest_call(a, last) > birth_of(a, last)) {
		o->latest++;
		o->began = a->failure->ordinal;
		return;
	}
	for (size_t i = o->nr; i-- > 0 && o->parameter[i].making == o->latest;) {
		o->began = birth_of(a, &o->parameter[i]);
		o->newest_bytes += a->categories.block[o->parameter[i].block].life.size;
	}
}

/* ---- is it made again? ------------------------------------------------------------------------- */

static int by_id(const void *va, const void *vb)
{
	uint32_t a = *(const uint32_t *)va, b = *(const uint32_t *)vb;

	return (a > b) - (a < b);
}

/* Of one making; of one model of it, unless `model` is NULL. */
static struct shapes shapes_of(const struct older *o, uint32_t making, const uint64_t *model, uint32_t more)
{
	struct shapes s = { heap_alloc(o->nr + 1, sizeof(*s.id)), 0 };

	for (size_t i = 0; i < o->nr; i++)
		if (o->parameter[i].making == making && (!model || o->parameter[i].model == *model))
			s.id[s.nr++] = o->parameter[i].shape;
	if (more)
		s.id[s.nr++] = more;
	qsort(s.id, s.nr, sizeof(*s.id), by_id);
	return s;
}

/* Has it all of them, each as often; and if nothing is to come, no others? */
static bool has_all(const struct shapes *s, const struct shapes *of, bool is_begun)
{
	size_t k = 0;

	for (size_t i = 0; i < s->nr && k < of->nr; i++)
		k += s->id[i] == of->id[k];
	return of->nr && k == of->nr && (is_begun || s->nr == of->nr);
}

/* Is the innermost function of a stack of PyTorch's own? */
static bool is_of_framework(const struct autopsy *a, uint32_t python_stack)
{
	struct stack_source source = replay_stack_source(a->replay, a->device->process);
	struct stack stack = { 0 };
	bool is;

	stack_expand(&stack, &source, python_stack, 0);
	is = !stack.nr_frames || stack.frame[0].framework;
	stack_release(&stack);
	return is;
}

/* Before Python 3.11 the name of a function is without its class, and nothing tells. */
bool autopsy_has_own_forward(const struct autopsy *a, const char *class_name)
{
	const struct tfmt_reader *reader = a->device->process->reader;
	uint32_t end = TFMT_STACK_FIRST + tfmt_reader_nr_definitions(reader);
	size_t len = strlen(class_name);
	struct tfmt_frame frame;
	struct tfmt_code code;

	for (uint32_t id = TFMT_STACK_FIRST; id < end; id++)
		if (tfmt_reader_frame(reader, id, &frame) &&
		    (frame.kind == TFMT_FRAME_PYTHON || frame.kind == TFMT_FRAME_PYTHON_ENTRY) &&
		    tfmt_reader_code(reader, (uint32_t)frame.a, &code) && !strncmp(code.name, class_name, len) &&
		    !strcmp(code.name + len, ".forward") && !is_of_framework(a, id))
			return true;
	return false;
}

/* Where a parameter was made, whatever instances its calls were of. */
static uint32_t calls_of(const struct autopsy *a, const struct parameter *p)
{
	return tfmt_reader_plain_stack(a->device->process->reader, autopsy_group(a, p->block)->python_stack);
}

/*
 * Has the newest a model of the same class, of the program's own, or of PyTorch's and made by the same calls? Its shapes may be
 * others, as where sizes are tried.
 */
static bool is_of_newest_class(struct older *o, const struct autopsy *a, const struct parameter *of)
{
	bool is_own = autopsy_has_own_forward(a, of->class_name), is = false;

	for (size_t i = o->nr; *of->class_name && !is && i-- > 0 && o->parameter[i].making == o->latest;)
		is = !strcmp(o->parameter[i].class_name, of->class_name) &&
		     (is_own || calls_of(a, &o->parameter[i]) == calls_of(a, of));
	o->by_calls |= is && !is_own;
	return is;
}

/* ---- is it done with? -------------------------------------------------------------------------- */

/* What no module has any more, an optimizer's parameters say, cannot be called. */
static bool is_done_with(const struct autopsy *a, const struct parameter *largest, uint64_t since)
{
	uint64_t call = latest_call(a, largest);

	return !largest->module || (call > birth_of(a, largest) && call < since);
}

static bool has_function(const struct autopsy *a, uint32_t python_stack, const char *name)
{
	struct stack_source source = replay_stack_source(a->replay, a->device->process);
	struct stack stack = { 0 };
	bool found = false;

	stack_expand(&stack, &source, python_stack, 0);
	for (uint32_t i = 0; i < stack.nr_frames && !found; i++)
		found = stack.frame[i].python && stack.frame[i].function && !strcmp(stack.frame[i].function, name);
	stack_release(&stack);
	return found;
}

/* Where the newest was made last: of its first parameter, that was asked for in vain, where it was to be. */
static const struct stack_frame *latest_line(const struct older *o, const struct autopsy *a, uint32_t *python_stack)
{
	const struct parameter *newest = &o->parameter[o->nr - 1];
	bool has_any = newest->making == o->latest;

	*python_stack = has_any ? autopsy_group(a, newest->block)->python_stack : a->failure->python_stack;
	return has_any ? &a->place[a->block[newest->block].place].frame : &a->site;
}

/* What another line has made, or deepcopy() of a model that it did not make, is meant to be there beside it. */
static bool is_another(const struct older *o, const struct autopsy *a, const struct parameter *largest, const uint64_t *model)
{
	uint32_t stack;
	const struct stack_frame *line = latest_line(o, a, &stack);
	bool is_same = false;

	for (size_t i = 0; i < o->nr && !is_same; i++)
		is_same = o->parameter[i].making == largest->making && (!model || o->parameter[i].model == *model) &&
			  sourceline_is_same_call(&a->place[a->block[o->parameter[i].block].place].frame, line);
	return !is_same || (has_function(a, stack, "deepcopy") &&
			    !has_function(a, autopsy_group(a, largest->block)->python_stack, "deepcopy"));
}

static bool is_made_again(struct older *o, const struct autopsy *a, uint32_t making, const struct parameter *of)
{
	struct shapes old = shapes_of(o, making, of ? &of->model : NULL, 0);
	bool is = has_all(&old, &o->newest, o->is_being_made);

	free(old.id);
	/* What is left of one has other shapes where sizes differ; the same line makes it. */
	return is || (of && of->model && is_of_newest_class(o, a, of)) || (of && of->is_left && !is_another(o, a, of, &of->model));
}

/* ---- all older ones ---------------------------------------------------------------------------- */

static void add_model(struct older *o, const struct autopsy *a, uint32_t making, const uint64_t *model)
{
	for (size_t i = 0; i < o->nr; i++) {
		const struct parameter *p = &o->parameter[i];

		if (p->making != making || (model && p->model != *model))
			continue;
		o->old[o->nr_old++] = *p;
		o->bytes += a->categories.block[p->block].life.size;
	}
	o->nr_models++;
}

static const struct parameter *largest_of(const struct older *o, const struct autopsy *a, uint32_t making,
					  const uint64_t *model)
{
	const struct parameter *largest = NULL;

	for (size_t i = 0; i < o->nr; i++) {
		const struct parameter *p = &o->parameter[i];

		if (p->making == making && (!model || p->model == *model) &&
		    (!largest || a->categories.block[p->block].life.size > a->categories.block[largest->block].life.size))
			largest = p;
	}
	return largest;
}

/* Is it of the model that the newest parameters are of? Then those are a part that was given to it. */
static bool is_of_newest(const struct older *o, const struct parameter *of)
{
	for (size_t i = o->nr; of->model && i-- > 0 && o->parameter[i].making == o->latest;)
		if (o->parameter[i].model == of->model)
			return true;
	return false;
}

/* The model of a making that is made again, or all of what it made. false: it is something else, or still in use. */
static bool take_making(struct older *o, const struct autopsy *a, uint32_t making, uint64_t *since, bool *is_in_use)
{
	for (size_t i = 0; i <= o->nr; i++) {
		const struct parameter *p = i < o->nr ? &o->parameter[i] : NULL;
		const uint64_t *model = p ? &p->model : NULL;
		const struct parameter *largest;

		if (p && (p->making != making || (i && o->parameter[i - 1].making == making && o->parameter[i - 1].model == p->model)))
			continue;
		if ((p && is_of_newest(o, p)) || !is_made_again(o, a, making, p))
			continue;
		largest = largest_of(o, a, making, model);
		*is_in_use |= !is_done_with(a, largest, *since) || is_another(o, a, largest, model);
		*since = birth_of(a, largest);
		add_model(o, a, making, model);
		return true;
	}
	return false;
}

/* What backward and the optimizer have made for parameters of these shapes before the newest was. */
static void add_rest(struct older *o, const struct autopsy *a)
{
	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct category_block *b = &a->categories.block[i];
		bool found = false;

		if ((b->category != CATEGORY_GRADIENT && b->category != CATEGORY_OPTIMIZER_STATE) ||
		    b->life.birth.ordinal >= o->began)
			continue;
		for (size_t k = 0; k < o->nr_old && !found; k++)
			found = o->old[k].shape == autopsy_group(a, i)->shape;
		o->bytes += found ? b->life.size : 0;
		if (found && b->category == CATEGORY_OPTIMIZER_STATE) {
			o->has_state = true;
			o->state = i;
		}
	}
}

static bool find_older(struct older *o, const struct autopsy *a)
{
	struct autopsy_finding attempt = { .bytes = 0 };
	bool is_in_use = false;
	uint64_t since;

	find_parameters(o, a);
	if (!o->nr)
		return false;
	find_latest(o, a);
	o->newest = shapes_of(o, o->latest, NULL, o->is_being_made ? a->failure->shape : 0);
	o->old = heap_alloc(o->nr, sizeof(*o->old));
	since = o->began;
	for (uint32_t making = o->latest; making-- > 0 && !is_in_use;)
		take_making(o, a, making, &since, &is_in_use);
	add_rest(o, a);
	/* Layers that are loaded one by one are made by the same calls, too. And of an attempt that failed more is known. */
	if (o->by_calls && (!o->has_state || autopsy_is_held_attempt(a, &attempt)))
		return false;
	return o->nr_models && !is_in_use;
}

static size_t largest_old(const struct older *o, const struct autopsy *a)
{
	size_t largest = 0;

	for (size_t i = 1; i < o->nr_old; i++)
		if (a->categories.block[o->old[i].block].life.size > a->categories.block[o->old[largest].block].life.size)
			largest = i;
	return o->old[largest].block;
}

/* A parameter of another of the older models; the same block if there is none. */
static size_t of_another(const struct older *o, size_t block)
{
	const struct parameter *of = NULL;

	for (size_t i = 0; i < o->nr_old; i++)
		of = o->old[i].block == block ? &o->old[i] : of;
	for (size_t i = 0; i < o->nr_old; i++)
		if (of && (o->old[i].making != of->making || o->old[i].model != of->model))
			return o->old[i].block;
	return block;
}

/* Who is to let go: the optimizers, too, where others hold those. They keep parameters and state. */
static const char *all_holders(char *buf, size_t size, const struct older *o, const struct autopsy *a, const char *holder)
{
	struct modelkeeper k;
	const char *name;

	if (!o->has_state || !autopsy_find_holder(&k, a, o->state))
		return holder;
	name = o->nr_models > 1 ? k.name.pattern : k.name.text;
	if (!strcmp(name, holder))
		return holder;
	snprintf(buf, size, "%s and %s", holder, name);
	return buf;
}

/* The optimizer that alone has a block's parameter, in a group. false: there is none. */
static bool find_group_owner(struct objectname *optimizer, const struct autopsy *a, size_t block)
{
	struct named named;

	return namedblocks_name(&named, a->device->process, &a->categories.block[block].life, LIVES_OOM) &&
	       letgo_group_owner(optimizer, &named);
}

/* The cache of functools.lru_cache() that keeps a block: of a method, it has each object that this was called of. false: none does. */
static bool find_lru_cache(struct objectname *cache, const struct autopsy *a, size_t block)
{
	struct keeper k[GROUPKEEPER_MOST];
	struct named named;
	uint32_t nr;

	if (!namedblocks_name(&named, a->device->process, &a->categories.block[block].life, LIVES_OOM))
		return false;
	nr = objectname_keepers(k, GROUPKEEPER_MOST, named.census->census, named.object);
	for (uint32_t i = 0; i < nr; i++) {
		if (!keeper_is_lru_cache(&k[i]))
			continue;
		*cache = k[i].name;
		return true;
	}
	return false;
}

/* What is to be done by who holds them: one optimizer of several models is to have the groups of the older ones no more. */
static struct said holder_advice(const struct older *o, const struct autopsy *a, size_t block, size_t other, const char *holder)
{
	char all[2 * OBJECTNAME_MAX + 8];
	struct objectname optimizer, of_other, cache;
	struct modelkeeper k;

	if (find_lru_cache(&cache, a, block))
		return SAID(older_cache_advice, fact_name("cache", cache.text), fact_bytes("bytes", o->bytes));
	if (other != block && find_group_owner(&optimizer, a, block) && find_group_owner(&of_other, a, other) &&
	    !strcmp(optimizer.text, of_other.text))
		return SAID(older_groups_advice, fact_name("optimizer", optimizer.text), fact_bytes("bytes", o->bytes));
	if (autopsy_find_holder(&k, a, block) && k.name.of_method) /* not a list that a comprehension makes */
		return SAID(older_method_advice, fact_bytes("bytes", o->bytes));
	return SAID(older_holder_advice, fact_name("holder", all_holders(all, sizeof(all), o, a, holder)), fact_bytes("bytes", o->bytes));
}

bool autopsy_is_older_model(const struct autopsy *a, struct autopsy_finding *f)
{
	struct older o = { 0 };
	char holder[OBJECTNAME_MAX];
	bool applies = a->device->process->names && a->device->process->modulepaths && find_older(&o, a) &&
		       autopsy_matters(a, o.bytes);

	if (applies) {
		size_t largest = largest_old(&o, a), other = of_another(&o, largest);

		f->bytes = o.bytes;
		f->has_holder = true;
		autopsy_at_making(a, f, largest);
		autopsy_say(f, SAID(older_models, fact_bytes("bytes", o.bytes), fact_count("models", o.nr_models)));
		if (autopsy_say_holder(holder, a, f, largest, other))
			autopsy_advise(f, holder_advice(&o, a, largest, other, holder));
		else
			autopsy_advise(f, SAID(older_advice, fact_bytes("bytes", o.bytes)));
		if (o.is_being_made)
			autopsy_evidence(f, SAID(older_being_made, fact_bytes("newest", o.newest_bytes)));
	}
	free(o.parameter);
	free(o.newest.id);
	free(o.old);
	return applies;
}
