/* SPDX-License-Identifier: MIT */
/* Reads by stack become reads by site. */
#include "analyzer/holders/readplaces.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/stacks/sourceline.h"

static int compare_numbers(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

static int compare_texts(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) : !!a - !!b;
}

/* 0 when both are the same place. */
static int compare_sites(const struct readplace *a, const struct readplace *b)
{
	struct sourceline x = sourceline_of(&a->site), y = sourceline_of(&b->site);
	int order = compare_numbers(a->known, b->known);

	if (!order)
		order = sourceline_compare(&x, &y);
	if (!order)
		order = compare_texts(a->site.module, b->site.module);
	/* A line is a place; without one, an address is. */
	return order || a->site.line ? order : compare_numbers(a->site.offset, b->site.offset);
}

static int by_site(const void *a, const void *b)
{
	return compare_sites(a, b);
}

static int by_time(const void *va, const void *vb)
{
	const struct readplace *a = va, *b = vb;
	int order = compare_numbers(a->first_ns, b->first_ns);

	return order ? order : compare_sites(a, b);
}

/* One place for each stack of the process, appended. */
static void collect(struct readplaces *p, const struct replay *m, struct replay_process *process)
{
	uint32_t nr_reads;
	const struct value_read *reads = books_value_reads(process->books, &nr_reads);
	struct stack_source source = replay_stack_source(m, process);
	struct stack stack = { 0 };

	p->place = heap_grow(p->place, &p->room, p->nr_places + nr_reads, sizeof(*p->place));
	for (uint32_t i = 0; i < nr_reads; i++) {
		const struct value_read *read = &reads[i];
		struct readplace *place = &p->place[p->nr_places++];
		int site;

		stack_expand(&stack, &source, read->python_stack, read->native_stack);
		site = stack_site(&stack);
		*place = (struct readplace){ .known = site >= 0,
					 .reads = read->reads,
					 .bytes = read->bytes,
					 .first_ns = replay_time(process, read->first_ns) };
		if (site >= 0)
			place->site = stack.frame[site];
		p->reads += read->reads;
	}
	stack_release(&stack);
}

/* Neighbours that are the same place become one. */
static void merge(struct readplaces *p)
{
	size_t nr = 0;

	for (size_t i = 0; i < p->nr_places; i++) {
		struct readplace *place = &p->place[i], *last = nr ? &p->place[nr - 1] : NULL;

		if (!last || compare_sites(last, place)) {
			p->place[nr++] = *place;
			continue;
		}
		last->reads += place->reads;
		last->bytes += place->bytes;
		if (place->first_ns < last->first_ns)
			last->first_ns = place->first_ns;
	}
	p->nr_places = nr;
}

void readplaces_find(struct readplaces *p, const struct replay *m, struct replay_process *process)
{
	*p = (struct readplaces)READPLACES_INIT;
	for (size_t i = 0; i < m->nr_processes; i++)
		if (!process || process == &m->process[i])
			collect(p, m, &m->process[i]);
	if (!p->nr_places)
		return;
	qsort(p->place, p->nr_places, sizeof(*p->place), by_site);
	merge(p);
	qsort(p->place, p->nr_places, sizeof(*p->place), by_time);
}

void readplaces_release(struct readplaces *p)
{
	free(p->place);
	*p = (struct readplaces)READPLACES_INIT;
}
