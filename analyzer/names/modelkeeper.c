/* SPDX-License-Identifier: MIT */
#include "analyzer/names/modelkeeper.h"

#include "analyzer/names/objectway.h"

/* The step that holds the model: a method's own object is held by the method, parameters without a module by their optimizer. */
static uint32_t holding_step(const struct objectway *w)
{
	uint32_t i = w->top < w->nr ? w->top : w->nr - 1;

	if (w->top == w->nr && i > w->start)
		i--;
	for (uint32_t k = w->start; k < i && w->top == w->nr; k++)
		if (w->step[k]->kind == TFMT_KIND_OPTIMIZER)
			i = k;
	while (i > w->start && (w->step[i]->edge == TFMT_EDGE_SELF || objectway_is_transparent(w, i)))
		i--;
	return i;
}

/* Of a closure's variable, and of a default argument, the function. */
static uint32_t function_of(const struct objectway *w, uint32_t i)
{
	bool is_of_function = w->step[w->start]->edge == TFMT_EDGE_CELL || w->step[w->start]->edge == TFMT_EDGE_DEFAULT;

	return w->start && is_of_function ? w->start - 1 : i;
}

bool modelkeeper_find(struct modelkeeper *k, const struct tfmt_census *c, uint32_t object)
{
	struct objectway w;
	uint32_t holder, function, state;

	objectway_find(&w, c, object);
	*k = (struct modelkeeper){ .name.root = ROOT_NATIVE, .class_name = "" };
	if (!w.nr || w.is_cut)
		return false;
	for (uint32_t i = w.top; i < w.nr; i++)
		if (w.step[i]->kind == TFMT_KIND_MODULE)
			k->innermost = w.step[i]->address;
	for (uint32_t i = w.nr; i-- > w.start;)
		if (w.step[i]->kind == TFMT_KIND_OPTIMIZER)
			k->optimizer = w.id[i];
	if (w.top < w.nr) {
		k->outermost = w.step[w.top]->address;
		k->class_name = w.step[w.top]->class_name;
	}
	state = objectway_state(&w, c);
	k->parameter = state ? (uint32_t)w.step[state]->number : 0;
	holder = holding_step(&w);
	function = function_of(&w, holder);
	objectname_find(&k->name, c, w.id[function]);
	if (k->name.root == ROOT_NATIVE || k->name.root == ROOT_CYCLE)
		return false;
	if (function != holder)
		return true;
	*k->name.text = *k->name.pattern = 0;
	for (uint32_t i = objectname_begin(&k->name, &w, w.start); i <= holder; i++)
		objectname_add_step(&k->name, c, &w, i);
	return true;
}

/* The way to it; of an optimizer's state to its parameter. */
static void find_parameter(struct objectway *w, const struct tfmt_census *c, uint32_t object)
{
	uint32_t state;

	objectway_find(w, c, object);
	state = objectway_state(w, c);
	if (state)
		objectway_find(w, c, (uint32_t)w->step[state]->number);
}

const char *modelkeeper_class(const struct tfmt_census *c, uint32_t object)
{
	struct objectway w;

	find_parameter(&w, c, object);
	for (uint32_t i = w.nr; i-- > w.start;)
		if (w.step[i]->kind == TFMT_KIND_MODULE)
			return w.step[i]->class_name;
	return NULL;
}

uint32_t modelkeeper_not_frozen(const struct tfmt_census *c, uint32_t object)
{
	struct objectway w;

	find_parameter(&w, c, object);
	for (uint32_t i = w.start; i < w.nr; i++)
		if (w.step[i]->flags & TFMT_OBJECT_FREEZES_NOTHING)
			return w.id[i];
	return 0;
}

uint64_t modelkeeper_evaluated(const struct tfmt_census *c, uint32_t object)
{
	uint64_t evaluated = 0;
	bool trains = false;
	struct objectway w;

	find_parameter(&w, c, object);
	for (uint32_t i = w.top; i < w.nr; i++) {
		const struct tfmt_object_facts *o = w.step[i];

		if (o->kind != TFMT_KIND_MODULE)
			continue;
		if (evaluated)
			return evaluated;
		trains |= o->flags & TFMT_OBJECT_TRAINS;
		evaluated = trains && (o->flags & TFMT_OBJECT_EVALUATES) ? o->address : 0;
	}
	return 0;
}
