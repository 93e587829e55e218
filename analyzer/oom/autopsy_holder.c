/* SPDX-License-Identifier: MIT */
/* Which variable or container of the program's keeps most of the graphs. */
#include "analyzer/oom/autopsy_holder.h"

#include <string.h>

#include "analyzer/names/groupkeeper.h"
#include "analyzer/oom/autopsy_facts.h"
#include "analyzer/oom/oom_thresholds.h"

#define STATE_PARTS_MOST 2 /* tensors of what goes on from step to step under one name: an LSTM has two */

/* A variable of a module's forward that has not returned: it is being computed, and keeps nothing from call to call. */
static bool is_being_computed(const struct namegroup *g)
{
	struct keeper k, next;
	const char *name;

	if (!groupkeeper_nearest(&k, &next, g) || !keeper_is_variable(&k) || k.name.root != ROOT_LOCAL || !k.name.function)
		return false;
	name = strrchr(k.name.function, '.'); /* its class comes before it from Python 3.11 on */
	return !strcmp(name ? name + 1 : k.name.function, "forward");
}

/* Blocks of graphs that are older than the step. */
static uint64_t nr_of_graphs(const struct autopsy *a)
{
	uint64_t nr = 0;

	for (size_t i = 0; i < a->categories.nr_blocks; i++)
		nr += moment_is_in_graph(&a->moment, i) && (!a->step || a->categories.block[i].life.birth.ordinal < a->step_ordinal);
	return nr;
}

/* All gradients lead to the same graph: what one of them does counts. */
static uint64_t nodes_of(const struct namegroup *g)
{
	return g->named.use == USE_GRADIENT ? g->nodes / g->blocks : g->nodes;
}

/* Gradients with the graph that a single tensor has as well: that is one of them, by another name. */
static bool is_gradient_of(const struct namegroup *most, const struct namegroup *single)
{
	return most->named.use == USE_GRADIENT && 2 * nodes_of(most) > single->nodes;
}

/*
 * What one tensor leads to is counted exactly, but tensors of one graph lead to the same nodes, each of which counts with all of
 * them. So a single one that leads to more than half of their sum is it.
 */
static const struct namegroup *single_holder(const struct autopsy *a, const struct namegroup *most)
{
	const struct namegroup *single = most;

	for (size_t i = 0; most && most->blocks > 1 && i < a->holders.nr_groups; i++) {
		const struct namegroup *g = &a->holders.group[i];

		if (g->is_named && g->blocks == 1 && 2 * g->nodes > most->nodes && (single == most || g->nodes > single->nodes) &&
		    !is_gradient_of(most, g) && !is_being_computed(g))
			single = g;
	}
	return single;
}

/*
 * Is the one number a loss of which what goes on from step to step is a part? A running sum leads to all steps, and whatever else to its own
 * step alone. Where something else leads to more than half of what the number does, that one leads there by it: of those a hidden state comes
 * before what was computed of it; and where passes made graphs, what they gave comes before what it updates.
 */
static const struct namegroup *part_of(const struct autopsy *a, const struct namegroup *number)
{
	bool is_updated = autopsy_have_passes_made_graphs(a);
	const struct namegroup *part = number;

	for (size_t i = 0; i < a->holders.nr_groups; i++) {
		const struct namegroup *g = &a->holders.group[i];
		uint64_t nodes = g->is_named && g->blocks ? g->nodes / g->blocks : 0, of_part = part->nodes / part->blocks;

		if (g->is_named && !g->named.is_number && g->named.use == USE_UNKNOWN && g->blocks <= STATE_PARTS_MOST && 2 * nodes > number->nodes &&
		    (part == number || (is_updated ? nodes > of_part : nodes < of_part)) && !is_being_computed(g))
			part = g;
	}
	return part;
}

const struct namegroup *autopsy_find_graph_holder(const struct autopsy *a)
{
	const struct namegroup *most = NULL;
	struct keeper container;

	for (size_t i = 0; i < a->holders.nr_groups; i++) {
		const struct namegroup *g = &a->holders.group[i];

		/* Of a version of PyTorch whose nodes are laid out in another way no more than the first is found. */
		if (g->is_named && g->nodes > g->blocks && (!most || nodes_of(g) > nodes_of(most)) && !is_being_computed(g))
			most = g;
	}
	for (size_t i = 0; most && i < a->holders.nr_groups; i++)
		if (a->holders.group[i].is_named && most->blocks == 1 && is_gradient_of(&a->holders.group[i], most))
			most = &a->holders.group[i];
	most = single_holder(a, most);
	if (most && most->blocks == 1 && most->named.is_number)
		most = part_of(a, most);
	if (most && NODE_SAVES * nodes_of(most) < nr_of_graphs(a)) /* it leads to a part of them: what holds the others is not known */
		return NULL;
	for (size_t i = 0; i < a->holders.nr_groups && (!most || !most->nodes); i++) {
		const struct namegroup *g = &a->holders.group[i];

		if (g->is_named && groupkeeper_container(&container, g) && (!most || g->blocks > most->blocks))
			most = g;
	}
	return most;
}
