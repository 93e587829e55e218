/* SPDX-License-Identifier: MIT */
/* Causes: memory that nobody needs any more, by what a census says holds it. */
#include "analyzer/names/groupkeeper.h"
#include "analyzer/oom/autopsy_causes.h"

#define NAMES_TOLD 2

/* The blocks that hang on one kind of root, by name, and the largest of them. */
struct held {
	struct namegroups names;
	uint64_t bytes, largest_bytes;
	size_t largest; /* index of the block */
};

static void find_held(struct held *h, const struct autopsy *a, enum objectname_root root)
{
	struct named named;

	*h = (struct held){ 0 };
	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct life *life = &a->categories.block[i].life;

		if (!namedblocks_name(&named, a->device->process, life, LIVES_OOM) || named.name.root != root)
			continue;
		namegroups_add(&h->names, &named, a->categories.block[i].category, life->size, 1);
		h->bytes += life->size;
		if (life->size <= h->largest_bytes)
			continue;
		h->largest_bytes = life->size;
		h->largest = i;
	}
	namegroups_sort(&h->names);
}

/* Would the request have fitted without it? */
static bool explains(const struct autopsy *a, const struct held *h)
{
	return h->bytes && autopsy_matters(a, h->bytes) && (a->lacking || h->bytes >= a->failure->asked);
}

static void say_names(const struct held *h, struct autopsy_finding *f)
{
	for (size_t i = 0; i < h->names.nr_groups && i < NAMES_TOLD; i++) {
		const struct namegroup *g = &h->names.group[i];

		autopsy_evidence(f, SAID(bytes_named, fact_bytes("bytes", g->bytes), fact_name("name", namegroup_text(g))));
	}
}

bool autopsy_is_cycle(const struct autopsy *a, struct autopsy_finding *f)
{
	struct held h;
	bool is;

	find_held(&h, a, ROOT_CYCLE);
	is = explains(a, &h);
	if (is) {
		f->bytes = h.bytes;
		autopsy_at_place(a, f, a->block[h.largest].place);
		autopsy_say(f, SAID(cycle_waits, fact_bytes("bytes", h.bytes)));
		say_names(&h, f);
		autopsy_advise(f, SAID(cycle_advice, NO_FACTS));
	}
	namegroups_release(&h.names);
	return is;
}

/*
 * What steps before have left in graphs, if tensors on this kind of root lead to more nodes of autograd's than all others do: it is
 * their graphs' then.
 */
static uint64_t bytes_in_graphs(const struct autopsy *a, enum objectname_root root)
{
	uint64_t nodes = 0, others = 0, bytes = 0;

	for (size_t i = 0; i < a->holders.nr_groups; i++) {
		const struct namegroup *g = &a->holders.group[i];

		if (g->is_named && g->named.name.root == root)
			nodes += g->nodes;
		else if (g->is_named)
			others += g->nodes;
	}
	for (size_t i = 0; nodes > others && i < a->categories.nr_blocks; i++)
		if (kepttensors_is_of_step(&a->moment, i) && autopsy_is_held_by_graph(a, i))
			bytes += a->categories.block[i].life.size;
	return bytes;
}

/* The largest block that steps before have left in graphs. */
static size_t largest_in_graphs(const struct autopsy *a)
{
	size_t largest = 0;
	bool has_any = false;

	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		if (!kepttensors_is_of_step(&a->moment, i) || !autopsy_is_held_by_graph(a, i))
			continue;
		if (!has_any || a->categories.block[i].life.size > a->categories.block[largest].life.size)
			largest = i;
		has_any = true;
	}
	return largest;
}

/* The frame whose variables the traceback holds. */
static void say_frame(struct autopsy_finding *f, const struct objectname *n)
{
	if (n->file && n->function)
		autopsy_evidence(f, SAID(exception_frame, fact_line("site", n->file, n->line, n->function)));
}

/* Of an attempt that failed, a list may have more than its traceback. */
static bool is_more_of_attempt(const struct autopsy *a, uint64_t bytes)
{
	struct autopsy_finding other = { .bytes = 0 };

	return autopsy_is_held_attempt(a, &other) && other.bytes > bytes;
}

/* Of errors that a container has, the except block has been left long ago. */
static struct said exception_advice(const struct namegroup *g)
{
	struct keeper container;

	if (groupkeeper_around(&container, g, TFMT_KIND_EXCEPTION))
		return SAID(exception_entries_advice, fact_name("holder", groupkeeper_name(g, &container.name)));
	return SAID(exception_advice, NO_FACTS);
}

bool autopsy_is_exception(const struct autopsy *a, struct autopsy_finding *f)
{
	struct held h;
	uint64_t graphs;
	bool is;

	find_held(&h, a, ROOT_EXCEPTION);
	graphs = h.bytes ? bytes_in_graphs(a, ROOT_EXCEPTION) : 0;
	h.bytes += graphs;
	is = explains(a, &h) && !is_more_of_attempt(a, h.bytes);
	if (is) {
		f->bytes = h.bytes;
		if (2 * graphs > h.bytes)
			autopsy_at_call(a, f, largest_in_graphs(a));
		else
			autopsy_at_place(a, f, a->block[h.largest].place);
		autopsy_say(f, SAID(exception_holds, fact_bytes("bytes", h.bytes)));
		if (graphs)
			autopsy_evidence(f, SAID(exception_graphs, fact_bytes("bytes", graphs)));
		say_names(&h, f);
		say_frame(f, &h.names.group[0].named.name);
		autopsy_advise(f, exception_advice(&h.names.group[0]));
	}
	namegroups_release(&h.names);
	return is;
}
