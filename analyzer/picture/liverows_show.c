/* SPDX-License-Identifier: MIT */
/* Choosing rows, and summing up the rest. */
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/picture/liverows_inside.h"
#include "analyzer/purpose/category_facts.h"
#include "analyzer/recording/sorted.h"

/* ---- kinds ------------------------------------------------------------------------------------- */

/* 1 + its place among the names. */
static uint32_t name_number(struct liverows_shown *s, const char *text)
{
	return textset_add(&s->names, 0, text, strlen(text))->number;
}

/* What a census calls a block, in full and with '*' for numbers; 0 where none does. */
static void find_names(struct liverows_shown *s, const struct liverows *r, const struct life *life, uint32_t *name,
		       uint32_t *pattern)
{
	struct names_block block = category_facts_block(life);
	struct named named;

	*name = *pattern = 0;
	if (!r->process->names || !names_find(&named, r->process->names, &block, TFMT_NO_ORDINAL))
		return;
	*name = name_number(s, named.name.text);
	*pattern = name_number(s, named.name.pattern);
}

static bool is_same_kind(const struct liverow_kind *a, const struct liverow_kind *b)
{
	return a->group == b->group && a->module == b->module && a->name == b->name && a->category == b->category &&
	       a->phase == b->phase;
}

/* A table of kinds by hash while rows are made. */
struct kinds {
	uint32_t *slot;
	size_t nr_slots;
};

static size_t kind_hash(const struct liverow_kind *k)
{
	uint64_t hash = k->group * 0x9e3779b97f4a7c15u;

	hash = (hash ^ k->module) * 0x9e3779b97f4a7c15u;
	hash = (hash ^ k->name) * 0x9e3779b97f4a7c15u;
	hash = (hash ^ (uint64_t)(k->category << 8 | k->phase)) * 0x9e3779b97f4a7c15u;
	return (size_t)(hash >> 20);
}

static void kinds_grow(struct kinds *t, const struct liverows_shown *s)
{
	t->nr_slots = t->nr_slots ? 2 * t->nr_slots : 256;
	free(t->slot);
	t->slot = heap_alloc(t->nr_slots, sizeof(*t->slot));
	for (size_t i = 0; i < s->nr_kinds; i++) {
		size_t at = kind_hash(&s->kind[i]) & (t->nr_slots - 1);

		while (t->slot[at])
			at = (at + 1) & (t->nr_slots - 1);
		t->slot[at] = (uint32_t)i + 1;
	}
}

static uint32_t kind_number(struct kinds *t, struct liverows_shown *s, const struct liverow_kind *kind)
{
	size_t at;

	if (2 * (s->nr_kinds + 1) > t->nr_slots)
		kinds_grow(t, s);
	at = kind_hash(kind) & (t->nr_slots - 1);
	while (t->slot[at] && !is_same_kind(&s->kind[t->slot[at] - 1], kind))
		at = (at + 1) & (t->nr_slots - 1);
	if (!t->slot[at]) {
		s->kind = heap_grow(s->kind, &s->kinds_room, s->nr_kinds + 1, sizeof(*s->kind));
		s->kind[s->nr_kinds++] = *kind;
		t->slot[at] = (uint32_t)s->nr_kinds;
	}
	return t->slot[at] - 1;
}

static struct liverow_kind kind_of(const struct life *life, const struct liverows_judged *judged, uint32_t pattern)
{
	return (struct liverow_kind){ life->group, judged->module, pattern, judged->category, life->birth.phase };
}

/* ---- large blocks ------------------------------------------------------------------------------ */

static int by_birth(const void *va, const void *vb)
{
	const struct liverow *a = va, *b = vb;

	return (a->birth_ns > b->birth_ns) - (a->birth_ns < b->birth_ns);
}

static void show_large(struct liverows_shown *s, struct kinds *t, const struct liverows *r, size_t max_large)
{
	s->nr_large = r->nr_large < max_large ? r->nr_large : max_large;
	s->large = heap_alloc(s->nr_large, sizeof(*s->large));
	for (size_t i = 0; i < s->nr_large; i++) {
		const struct liverows_large *l = &r->large[i];
		struct liverow *row = &s->large[i];
		struct liverow_kind kind;
		uint32_t pattern;

		*row = (struct liverow){ .birth_ns = l->birth_ns, .death_ns = l->death_ns, .address = l->life.address,
					 .bytes = l->life.size, .step = l->judged.step, .count = 1 };
		find_names(s, r, &l->life, &row->name, &pattern);
		kind = kind_of(&l->life, &l->judged, pattern);
		row->kind = kind_number(t, s, &kind);
	}
	if (s->nr_large)
		qsort(s->large, s->nr_large, sizeof(*s->large), by_birth);
}

/* ---- the rest ---------------------------------------------------------------------------------- */

/* The points that see a block; false: none does. */
static bool points_of(const struct moments_point *point, size_t nr, uint64_t birth, uint64_t death, uint32_t *first,
		      uint32_t *last)
{
	const size_t at = offsetof(struct moments_point, moment.ordinal);

	*first = (uint32_t)sorted_below(point, nr, sizeof(*point), at, birth);
	*last = (uint32_t)sorted_below(point, nr, sizeof(*point), at, death);
	return *first < *last;
}

static int by_place(const void *va, const void *vb)
{
	const struct liverow *a = va, *b = vb;

	if (a->first != b->first)
		return a->first < b->first ? -1 : 1;
	if (a->kind != b->kind)
		return a->kind < b->kind ? -1 : 1;
	if (a->piece != b->piece)
		return a->piece < b->piece ? -1 : 1;
	return (a->last > b->last) - (a->last < b->last);
}

static bool is_same_place(const struct liverow *a, const struct liverow *b)
{
	return a->first == b->first && a->last == b->last && a->kind == b->kind && a->piece == b->piece;
}

static void sum_up(struct liverows_shown *s)
{
	size_t left = 0;

	if (s->nr_summed)
		qsort(s->summed, s->nr_summed, sizeof(*s->summed), by_place);
	for (size_t i = 0; i < s->nr_summed; i++) {
		if (left && is_same_place(&s->summed[left - 1], &s->summed[i])) {
			s->summed[left - 1].bytes += s->summed[i].bytes;
			s->summed[left - 1].count += s->summed[i].count;
			continue;
		}
		s->summed[left++] = s->summed[i];
	}
	s->nr_summed = left;
}

static void show_other(struct liverows_shown *s, const uint32_t *kind, const struct liverows_other *o,
		       const struct pieces *pieces)
{
	uint32_t first, last;

	if (!points_of(s->point, s->nr_points, o->birth, o->death, &first, &last))
		return;
	s->summed = heap_grow(s->summed, &s->summed_room, s->nr_summed + 1, sizeof(*s->summed));
	s->summed[s->nr_summed++] = (struct liverow){
		.birth_ns = s->point[first].moment.time_ns,
		.death_ns = last < s->nr_points ? s->point[last].moment.time_ns : UINT64_MAX,
		.bytes = o->bytes,
		.kind = kind[o->sort],
		.first = first,
		.last = last,
		.count = 1,
		.piece = pieces_find(pieces, o->address, o->birth),
	};
}

void liverows_show(struct liverows_shown *s, const struct liverows *r, const struct moments *m,
		   const struct liverows_limits *limits)
{
	uint32_t *kind = heap_alloc(r->nr_sorts, sizeof(*kind)), name, pattern;
	struct kinds t = { 0 };

	*s = (struct liverows_shown){ .nr_blocks = r->nr_blocks };
	s->point = moments_points(m, limits->max_parts, &s->nr_points);
	show_large(s, &t, r, limits->max_large);
	for (uint32_t i = 0; i < r->nr_sorts; i++) {
		struct liverow_kind k;

		find_names(s, r, &r->sort[i].life, &name, &pattern);
		k = kind_of(&r->sort[i].life, &r->sort[i].judged, pattern);
		kind[i] = kind_number(&t, s, &k);
	}
	for (size_t i = 0; i < r->nr_others; i++)
		show_other(s, kind, &r->other[i], limits->pieces);
	for (size_t i = s->nr_large; i < r->nr_large; i++) {
		struct liverows_other other = liverows_other_of(&r->large[i]);

		show_other(s, kind, &other, limits->pieces);
	}
	sum_up(s);
	free(kind);
	free(t.slot);
}

void liverows_shown_release(struct liverows_shown *s)
{
	free(s->kind);
	free(s->large);
	free(s->summed);
	free(s->point);
	textset_release(&s->names);
	*s = (struct liverows_shown){ 0 };
}

/* ---- by category ------------------------------------------------------------------------------- */

static void count(int64_t *change, const struct moments_point *point, size_t nr, const struct liverows_other *o,
		  unsigned category)
{
	uint32_t first, last;

	if (!points_of(point, nr, o->birth, o->death, &first, &last))
		return;
	change[first * NR_CATEGORIES + category] += (int64_t)o->bytes;
	change[last * NR_CATEGORIES + category] -= (int64_t)o->bytes;
}

uint64_t *liverows_categories(const struct liverows *r, const struct moments_point *point, size_t nr)
{
	int64_t *change = heap_alloc((nr + 1) * NR_CATEGORIES, sizeof(*change));

	for (size_t i = 0; i < r->nr_others; i++)
		count(change, point, nr, &r->other[i], r->sort[r->other[i].sort].judged.category);
	for (size_t i = 0; i < r->nr_large; i++) {
		struct liverows_other other = liverows_other_of(&r->large[i]);

		count(change, point, nr, &other, r->large[i].judged.category);
	}
	for (size_t i = NR_CATEGORIES; i < nr * NR_CATEGORIES; i++)
		change[i] += change[i - NR_CATEGORIES];
	return (uint64_t *)change;
}
