/* SPDX-License-Identifier: MIT */
/* Grouping live blocks: sort by what makes them one holder, merge neighbours, sort by size. */
#include "analyzer/holders/holders.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/purpose/namedblocks.h"
#include "analyzer/stacks/sourceline.h"

/* A group with bytes at the moment, and what it is grouped by. */
struct entry {
	const struct group *group;
	uint32_t index; /* of the group */
	struct group_figures figures;
	struct sourceline site; /* file NULL: group by stack */
	const char *node;       /* class of the autograd node that ran there; "" = none */
};

static bool is_wanted(const struct group *g, const struct holders_query *q)
{
	switch (q->of) {
	case HOLDERS_TENSORS:
		return g->tensor && g->device == q->device;
	case HOLDERS_DRIVER:
		return !g->tensor && g->device == q->device && group_is_device_memory(g);
	default:
		return group_is_page_locked(g) || (!g->tensor && g->space == TFMT_SPACE_MANAGED);
	}
}

static void resolve_site(struct entry *e, struct stack *stack, const struct stack_source *source)
{
	int site;

	stack_expand(stack, source, e->group->python_stack, e->group->native_stack);
	site = stack_site(stack);
	e->node = stack_node(stack) ? stack_node(stack)->function : "";
	if (site >= 0 && stack->frame[site].file && stack->frame[site].line)
		e->site = sourceline_of(&stack->frame[site]);
}

static int compare_numbers(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

bool holder_has_no_stack(const struct group *g)
{
	return g->tensor && g->python_stack == TFMT_STACK_NOT_CAPTURED && g->native_stack == TFMT_STACK_NOT_CAPTURED;
}

/* 0 when both belong to one holder. */
static int compare_places(const struct entry *a, const struct entry *b)
{
	const struct group *g = a->group, *h = b->group;
	int order = compare_numbers(g->space, h->space);

	if (!order)
		order = compare_numbers(g->unrecorded, h->unrecorded);
	if (!order)
		order = compare_numbers(g->before, h->before);
	if (!order)
		order = compare_numbers(g->function, h->function);
	if (!order)
		order = compare_numbers(!!a->site.file, !!b->site.file);
	if (order)
		return order;
	if (a->site.file) {
		order = sourceline_compare(&a->site, &b->site);
		/* What a line's forward call allocated is one holder, what its gradient does another. */
		return order ? order : strcmp(a->node, b->node);
	}
	order = compare_numbers(g->python_stack, h->python_stack);
	if (!order)
		order = compare_numbers(g->native_stack, h->native_stack);
	if (order)
		return order;
	return holder_has_no_stack(g) ? compare_numbers(g->shape, h->shape) : compare_numbers(g->thread, h->thread);
}

static int compare_entries(const void *va, const void *vb)
{
	const struct entry *a = va, *b = vb;
	int order = compare_places(a, b);

	if (!order)
		order = compare_numbers(a->group->shape, b->group->shape);
	return order ? order : compare_numbers((uintptr_t)a->group, (uintptr_t)b->group);
}

static int compare_shapes(const void *va, const void *vb)
{
	const struct holder_shape *a = va, *b = vb;
	int order = compare_numbers(b->figures.bytes, a->figures.bytes);

	return order ? order : compare_numbers(a->shape, b->shape);
}

static int compare_holders(const void *va, const void *vb)
{
	const struct holder *a = va, *b = vb;
	int64_t x = (int64_t)a->figures.bytes, y = (int64_t)b->figures.bytes; /* below 0: struct group.unrecorded */
	int order = (x < y) - (x > y);

	return order ? order : compare_numbers((uintptr_t)a->largest, (uintptr_t)b->largest);
}

static void add(struct group_figures *to, struct group_figures figures)
{
	to->bytes += figures.bytes;
	to->blocks += figures.blocks;
}

/* Take neighbours [from, to) as one holder; its shapes go to *shape. Returns the number of shapes. */
static uint32_t merge(struct holder *out, const struct entry *from, const struct entry *to,
		      struct holder_shape *shape)
{
	const struct entry *largest = from;

	*out = (struct holder){ .shape = shape };
	for (const struct entry *e = from; e < to; e++) {
		bool first = e == from;

		add(&out->figures, e->figures);
		if (e->figures.bytes > largest->figures.bytes)
			largest = e;
		if (first || e->group->shape != shape[out->nr_shapes - 1].shape)
			shape[out->nr_shapes++] = (struct holder_shape){ .shape = e->group->shape };
		add(&shape[out->nr_shapes - 1].figures, e->figures);
		if (first || e->group->python_stack != e[-1].group->python_stack ||
		    e->group->native_stack != e[-1].group->native_stack)
			out->nr_stacks++;
	}
	out->largest = largest->group;
	qsort(shape, out->nr_shapes, sizeof(*shape), compare_shapes);
	return out->nr_shapes;
}

/* The groups that had bytes at the moment, in a new array. */
static void collect(struct entry **out, uint32_t *nr, const struct replay *m, const struct holders_query *q)
{
	const struct books *books = q->process->books;
	struct stack_source source = replay_stack_source(m, q->process);
	struct entry *entry = heap_alloc(books_nr_groups(books), sizeof(*entry));
	struct stack stack = { 0 };

	*nr = 0;
	for (uint32_t i = 0; i < books_nr_groups(books); i++) {
		const struct group *g = books_group(books, i);
		struct group_figures figures = group_figures_at(g, q->mark);

		if ((!figures.blocks && !((g->unrecorded || g->before) && figures.bytes)) || !is_wanted(g, q))
			continue;
		entry[*nr] = (struct entry){ .group = g, .index = i, .figures = figures };
		if (q->by == HOLDERS_BY_SITE)
			resolve_site(&entry[*nr], &stack, &source);
		++*nr;
	}
	stack_release(&stack);
	*out = entry;
}

/* ---- names -------------------------------------------------------------------------------------- */

/* Of each group of the ledger, the number of its holder + 1. */
static uint32_t *numbers_of(const struct holders *h, const struct entry *entry, uint32_t nr, uint32_t nr_groups)
{
	uint32_t *number = heap_alloc(nr_groups, sizeof(*number));

	for (uint32_t i = 0, holder = 0; i < nr; i++) {
		if (i && compare_places(&entry[i - 1], &entry[i]))
			holder++;
		number[entry[i].index] = holder < h->nr_holders ? holder + 1 : 0;
	}
	return number;
}

/* What the blocks of each holder are called, where a census tells; before holders are sorted. */
static void find_names(struct holders *h, const struct holders_query *q, const struct entry *entry, uint32_t nr)
{
	const struct replay_process *p = q->process;
	enum lives_moment moment = p->names ? categories_moment(p, q->device, q->mark) : LIVES_NONE;
	uint32_t *number, nr_groups = books_nr_groups(p->books);
	struct life *life;
	struct named named;
	size_t nr_lives;

	if (moment == LIVES_NONE || q->of != HOLDERS_TENSORS)
		return;
	number = numbers_of(h, entry, nr, nr_groups);
	h->names = heap_alloc(h->nr_holders, sizeof(*h->names));
	lives_list(p->lives, q->device, moment, &life, &nr_lives);
	for (size_t i = 0; i < nr_lives; i++) {
		uint32_t holder = life[i].group < nr_groups ? number[life[i].group] : 0;
		bool has_name = holder && namedblocks_name(&named, p, &life[i], moment);

		if (holder)
			namegroups_add(&h->names[holder - 1], has_name ? &named : NULL, 0, life[i].size, 1);
	}
	for (uint32_t i = 0; i < h->nr_holders; i++)
		h->holder[i].named = namegroups_most(&h->names[i]);
	free(life);
	free(number);
}

/* ---- all ---------------------------------------------------------------------------------------- */

void holders_find(struct holders *h, const struct replay *m, const struct holders_query *q)
{
	struct entry *entry;
	uint32_t nr, from, to, nr_shapes = 0;

	collect(&entry, &nr, m, q);
	*h = (struct holders)HOLDERS_INIT;
	h->holder = heap_alloc(nr, sizeof(*h->holder));
	h->shapes = heap_alloc(nr, sizeof(*h->shapes));
	if (nr)
		qsort(entry, nr, sizeof(*entry), compare_entries);
	for (from = 0; from < nr; from = to) {
		struct holder *holder = &h->holder[h->nr_holders++];

		for (to = from + 1; to < nr && !compare_places(&entry[from], &entry[to]); to++)
			;
		nr_shapes += merge(holder, entry + from, entry + to, h->shapes + nr_shapes);
		holder->owner = q->of == HOLDERS_TENSORS
				    ? OWNER_TORCH
				    : books_group_owner(q->process->books, holder->largest);
		add(&h->total, holder->figures);
	}
	find_names(h, q, entry, nr);
	if (h->nr_holders)
		qsort(h->holder, h->nr_holders, sizeof(*h->holder), compare_holders);
	free(entry);
}

void holders_release(struct holders *h)
{
	for (uint32_t i = 0; h->names && i < h->nr_holders; i++)
		namegroups_release(&h->names[i]);
	free(h->names);
	free(h->holder);
	free(h->shapes);
	*h = (struct holders)HOLDERS_INIT;
}
