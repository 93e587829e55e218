/* SPDX-License-Identifier: MIT */
/* Blocks of two moments by event, and by stack and shape. */
#include "analyzer/export/blockfacts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/purpose/namedblocks.h"

/* The fact of a triple, zero if it is new. */
static struct blockfact *fact_of(struct keyset *s, struct blockfact **fact, size_t *room, uint32_t a,
				 uint32_t b, uint32_t c)
{
	bool is_new;
	uint32_t number = keyset_add(s, (struct keyset_key){ { a, b, c } }, &is_new);

	*fact = heap_grow(*fact, room, number + 1, sizeof(**fact));
	if (is_new)
		(*fact)[number] = (struct blockfact){ .category = CATEGORY_UNKNOWN };
	return &(*fact)[number];
}

/* "module=model.h.0.mlp name=h"; "" where neither is known. */
static void describe(char *buf, size_t size, const struct replay_process *p, const struct category_block *b,
		     enum lives_moment moment)
{
	char module[1024];
	struct named named;
	int nr = 0;

	*buf = '\0';
	if (b->module)
		nr = snprintf(buf, size, "module=%s",
			      modulepaths_text(p->modulepaths, b->module, 0, module, sizeof(module)));
	if (namedblocks_name(&named, p, &b->life, moment))
		snprintf(buf + nr, size - (size_t)nr, "%sname=%s", nr ? " " : "", named.name.text);
}

static uint32_t text_number(struct blockfacts *f, const char *text)
{
	return *text ? textset_add(&f->texts, 0, text, strlen(text))->number : 0;
}

/* Of blocks that one stack made of one shape is said what is the same of all. */
static void join(struct blockfact *group, const struct blockfact *block)
{
	if (!group->is_any) {
		*group = *block;
		return;
	}
	if (group->category != block->category)
		group->category = CATEGORY_UNKNOWN;
	if (group->module != block->module)
		group->module = 0;
}

static void add_block(struct blockfacts *f, const struct replay_process *p, const struct category_block *b,
		      enum lives_moment moment)
{
	const struct group *g = books_group(p->books, b->life.group);
	uint64_t ordinal = b->life.birth.ordinal;
	char text[2048];
	struct blockfact *fact = fact_of(&f->events, &f->of_event, &f->events_room, (uint32_t)(ordinal >> 32),
					 (uint32_t)ordinal, 0);

	if (fact->is_any) /* at the peak and at the end */
		return;
	describe(text, sizeof(text), p, b, moment);
	*fact = (struct blockfact){
		.category = b->category, .text = text_number(f, text), .module = b->module, .is_any = true
	};
	join(fact_of(&f->groups, &f->of_group, &f->groups_room, g->python_stack, g->native_stack, g->shape),
	     fact);
}

static void add_moment(struct blockfacts *f, const struct replay_device *d, enum group_mark mark)
{
	enum lives_moment moment = categories_moment(d->process, d->ordinal, mark);
	struct categories c;

	if (moment == LIVES_NONE)
		return;
	categories_find(&c, d->process, d->ordinal, moment, 0);
	for (size_t i = 0; i < c.nr_blocks; i++)
		add_block(f, d->process, &c.block[i], moment);
	categories_release(&c);
}

/* What is said of groups is their module alone. */
static void describe_groups(struct blockfacts *f, const struct replay_process *p)
{
	char module[1024], text[1100];

	for (size_t i = 0; i < f->groups.nr; i++) {
		struct blockfact *g = &f->of_group[i];

		g->text = 0;
		if (!g->module)
			continue;
		snprintf(text, sizeof(text), "module=%s",
			 modulepaths_text(p->modulepaths, g->module, 0, module, sizeof(module)));
		g->text = text_number(f, text);
	}
}

void blockfacts_add(struct blockfacts *f, const struct replay_device *d)
{
	add_moment(f, d, MARK_TENSOR_PEAK);
	add_moment(f, d, MARK_END);
	describe_groups(f, d->process);
}

struct blockfact blockfacts_find(struct blockfacts *f, const struct tfmt_event *ev)
{
	uint32_t number;

	if (keyset_find(&number, &f->events, (struct keyset_key){ { (uint32_t)(ev->ordinal >> 32), (uint32_t)ev->ordinal } }))
		return f->of_event[number];
	if (keyset_find(&number, &f->groups, (struct keyset_key){ { ev->python_stack, ev->native_stack, ev->shape } }))
		return f->of_group[number];
	return (struct blockfact){ .category = CATEGORY_UNKNOWN };
}

void blockfacts_release(struct blockfacts *f)
{
	textset_release(&f->texts);
	keyset_release(&f->events);
	keyset_release(&f->groups);
	free(f->of_event);
	free(f->of_group);
	*f = (struct blockfacts){ 0 };
}
