/* SPDX-License-Identifier: MIT */
/* Stacks of one place taken together, and what of it outlives its step. */
#include "analyzer/growth/stepplaces.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/growth/forwardstacks.h"
#include "analyzer/growth/growth_thresholds.h"
#include "analyzer/stacks/stack.h"

/* ---- places ---------------------------------------------------------------------------------- */

static void resolve(struct stepplace *p, const struct stepcauses *c, uint32_t stack_number)
{
	const struct group *g = books_group(c->books, c->first_group[stack_number]);
	struct stack_source source = replay_stack_source(c->replay, c->process);
	struct stack stack = { 0 };
	int site;

	stack_expand(&stack, &source, g->python_stack, g->native_stack);
	site = stack_site(&stack);
	*p = (struct stepplace){ .tensor = g->tensor, .node = "" };
	p->node = stack_node(&stack) ? stack_node(&stack)->function : "";
	p->kind = site < 0 ? FRAME_PLAIN : frame_kind_of(&stack, site);
	p->module = frame_module_of(&stack);
	if (site >= 0 && stack.frame[site].file && stack.frame[site].line)
		p->site = sourceline_of(&stack.frame[site]);
	stack_release(&stack);
}

static bool is_same_place(const struct stepplace *a, const struct stepplace *b)
{
	return a->site.file && a->tensor == b->tensor && !sourceline_compare(&a->site, &b->site) &&
	       !strcmp(a->node, b->node);
}

static void add_stack(struct stepplace *p, const struct stepcauses *c, uint32_t stack)
{
	const double *bytes = &c->bytes[stack * c->nr_readings], *blocks = &c->blocks[stack * c->nr_readings];
	double growth = bytes[c->nr_readings - 1] - bytes[0];

	if (growth >= p->largest) {
		p->largest = growth;
		p->group = c->first_group[stack];
	}
	for (size_t i = 0; i < c->nr_readings; i++) {
		p->bytes[i] += bytes[i];
		p->blocks[i] += blocks[i];
		p->asked[i] += c->asked[stack * c->nr_readings + i];
	}
}

static void find_places(struct stepplaces *f, const struct stepcauses *c)
{
	for (uint32_t i = 0; i < c->nr_growing; i++) {
		struct stepplace *p, *fresh = &f->place[f->nr];
		uint32_t at = 0;

		resolve(fresh, c, c->growing[i]);
		while (at < f->nr && !is_same_place(&f->place[at], fresh))
			at++;
		p = &f->place[at];
		p->module = fresh->module < p->module ? fresh->module : p->module;
		f->nr += at == f->nr;
		f->of_stack[c->growing[i]] = at;
		add_stack(p, c, c->growing[i]);
	}
}

/* Are hooks a sign here? Looked at only where there is one. */
static void find_hooked(struct stepplaces *f, const struct stepcauses *c)
{
	bool are_rare, is_any = false;

	for (uint32_t i = 0; i < f->nr; i++)
		is_any |= f->place[i].module >= FRAME_WITHIN_HOOKED;
	are_rare = is_any && forwardstacks_are_hooks_rare(c->replay, c->of);
	for (uint32_t i = 0; i < f->nr && are_rare; i++) {
		struct stepplace *p = &f->place[i];

		p->is_hooked = p->module == FRAME_HOOKED;
		if (p->module == FRAME_WITHIN_HOOKED)
			p->is_hooked = forwardstacks_is_result(c->replay, c->of,
							       books_group(c->books, p->group)->python_stack);
	}
}

/* ---- the blocks that stay -------------------------------------------------------------------- */

void stepplaces_keep(struct stepplace *p, const struct life *life)
{
	p->kept = heap_grow(p->kept, &p->room, p->nr_kept + 1, sizeof(*p->kept));
	p->kept[p->nr_kept++] = *life;
	p->nr_forward += (life->flags & TFMT_FLAG_FORWARD) != 0;
}

/* Had it so little at the first reading that this is growth already? Else blocks of the first step are others. */
static bool grows_from_first(const struct stepplace *p, size_t nr)
{
	return p->bytes[0] <= FIRST_READING_TIMES * (p->bytes[nr - 1] - p->bytes[0]) / (double)(nr - 1);
}

static void find_kept(struct stepplaces *f, const struct stepcauses *c)
{
	uint64_t first = c->series->sample[0].taken, last = c->series->sample[c->nr_readings - 1].taken;
	struct life *life;
	size_t nr;

	lives_list(c->process->lives, c->device, LIVES_STEP, &life, &nr);
	for (size_t i = 0; i < nr; i++) {
		uint32_t stack = c->of_group[life[i].group];
		uint32_t place = stack == UINT32_MAX ? UINT32_MAX : f->of_stack[stack];

		if (place != UINT32_MAX && life[i].birth.ordinal < last &&
		    (life[i].birth.ordinal >= first || grows_from_first(&f->place[place], c->nr_readings)))
			stepplaces_keep(&f->place[place], &life[i]);
	}
	free(life);
}

/* ---- all of it ------------------------------------------------------------------------------- */

void stepplaces_find(struct stepplaces *f, const struct stepcauses *c)
{
	*f = (struct stepplaces){ 0 };
	f->place = heap_alloc(c->nr_growing, sizeof(*f->place));
	f->of_stack = heap_alloc(c->nr_stacks, sizeof(*f->of_stack));
	memset(f->of_stack, 0xff, c->nr_stacks * sizeof(*f->of_stack));
	find_places(f, c);
	find_hooked(f, c);
	find_kept(f, c);
}

void stepplaces_release(struct stepplaces *f)
{
	for (uint32_t i = 0; f->place && i < f->nr; i++)
		free(f->place[i].kept);
	free(f->place);
	free(f->of_stack);
}
