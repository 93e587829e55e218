/* SPDX-License-Identifier: MIT */
/* Collecting lives, and judging them. */
#include "analyzer/picture/liverows_inside.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/names/names.h"
#include "analyzer/training/training_thresholds.h"

#define OTHERS_MAX (4u << 20) /* when so many wait to be summed up, those that no moment sees are dropped */

struct liverows *liverows_open(struct replay_process *process, uint32_t device)
{
	struct liverows *r = heap_alloc(1, sizeof(*r));

	r->process = process;
	r->device = device;
	r->others_max = OTHERS_MAX;
	return r;
}

void liverows_close(struct liverows *r)
{
	if (!r)
		return;
	free(r->open);
	free(r->large);
	free(r->other);
	free(r->sort);
	free(r->slot);
	free(r);
}

/* ---- sorts ------------------------------------------------------------------------------------- */

/* What decides how a life is judged: two that are alike in this are alike in what they are for. */
static struct liverows_key key_of(const struct life *life)
{
	const struct lives_when *b = &life->birth, *d = &life->death;
	bool has_ended = d->ordinal != TFMT_NO_ORDINAL;
	uint32_t cycles = has_ended ? lives_cycles(b, d) : 0;
	struct liverows_key key;

	memset(&key, 0, sizeof(key)); /* its padding is hashed, too */
	key.group = life->group;
	key.module = life->module;
	key.birth_phase = b->phase;
	key.death_phase = has_ended ? d->phase : UINT8_MAX;
	key.fate = has_ended ? (uint8_t)lives_fate(life) : UINT8_MAX;
	key.cycles = (uint8_t)(cycles < LONG_CYCLES ? cycles : LONG_CYCLES);
	key.bits = (uint16_t)((b->nr_begun != 0) | (b->nr_ended != 0) << 1 | (b->nr_forwards != 0) << 2 |
			      (d->stack == b->stack) << 3 | (d->nr_ooms == b->nr_ooms) << 4 |
			      (d->nr_begun == b->nr_begun) << 5 | (d->nr_ended == b->nr_ended) << 6 |
			      (d->nr_runs == b->nr_runs) << 7 | life->after_call << 8 | life->after_forward << 9 |
			      life->in_graph_pass << 10 | !!(life->flags & TFMT_FLAG_FORWARD) << 11 |
			      !!(life->flags & TFMT_FLAG_BACKWARD) << 12);
	return key;
}

static uint32_t hash_of(const struct liverows_key *key)
{
	const unsigned char *byte = (const unsigned char *)key;
	uint64_t hash = 0xcbf29ce484222325u;

	for (size_t i = 0; i < sizeof(*key); i++)
		hash = (hash ^ byte[i]) * 0x100000001b3u;
	return (uint32_t)(hash >> 24);
}

static void grow_slots(struct liverows *r)
{
	r->nr_slots = r->nr_slots ? 2 * r->nr_slots : 256;
	free(r->slot);
	r->slot = heap_alloc(r->nr_slots, sizeof(*r->slot));
	for (uint32_t i = 0; i < r->nr_sorts; i++) {
		uint32_t at = hash_of(&r->sort[i].key) & (r->nr_slots - 1);

		while (r->slot[at])
			at = (at + 1) & (r->nr_slots - 1);
		r->slot[at] = i + 1;
	}
}

/* A life that a census saw says most; of others the first stands for all. */
static uint32_t sort_of(struct liverows *r, const struct life *life, bool is_seen)
{
	struct liverows_key key = key_of(life);
	uint32_t at;

	if (2 * (r->nr_sorts + 1) > r->nr_slots)
		grow_slots(r);
	at = hash_of(&key) & (r->nr_slots - 1);
	while (r->slot[at] && memcmp(&r->sort[r->slot[at] - 1].key, &key, sizeof(key)))
		at = (at + 1) & (r->nr_slots - 1);
	if (!r->slot[at]) {
		r->sort = heap_grow(r->sort, &r->sorts_room, r->nr_sorts + 1, sizeof(*r->sort));
		r->sort[r->nr_sorts] = (struct liverows_sort){ .key = key, .life = *life, .is_seen = is_seen };
		r->slot[at] = ++r->nr_sorts;
	} else if (is_seen && !r->sort[r->slot[at] - 1].is_seen) {
		r->sort[r->slot[at] - 1].life = *life;
		r->sort[r->slot[at] - 1].is_seen = true;
	}
	return r->slot[at] - 1;
}

/* ---- rows -------------------------------------------------------------------------------------- */

/* What no moment sees any more will be seen by none: later there are fewer of them. */
static void drop_unseen(struct liverows *r, const struct moments *m)
{
	size_t left = 0;

	for (size_t i = 0; i < r->nr_others; i++)
		if (moments_see(m, r->other[i].birth, r->other[i].death))
			r->other[left++] = r->other[i];
	r->nr_others = left;
	if (left > r->others_max / 2)
		r->others_max *= 2;
}

void liverows_add_other(struct liverows *r, const struct liverows_other *other)
{
	r->other = heap_grow(r->other, &r->others_room, r->nr_others + 1, sizeof(*r->other));
	r->other[r->nr_others++] = *other;
}

struct liverows_other liverows_other_of(const struct liverows_large *l)
{
	return (struct liverows_other){ l->life.birth.ordinal, l->life.death.ordinal, l->life.size, l->life.address,
					l->sort };
}

/* Largest first; of equal ones the first. */
static int by_weight(const void *va, const void *vb)
{
	const struct liverows_large *a = va, *b = vb;

	if (a->weight != b->weight)
		return a->weight < b->weight ? 1 : -1;
	return (a->life.birth.ordinal > b->life.birth.ordinal) - (a->life.birth.ordinal < b->life.birth.ordinal);
}

/* Only the larger half is large after all. */
static void drop_small(struct liverows *r)
{
	qsort(r->large, r->nr_large, sizeof(*r->large), by_weight);
	while (r->nr_large > LIVEROWS_LARGE) {
		struct liverows_other other = liverows_other_of(&r->large[--r->nr_large]);

		liverows_add_other(r, &other);
	}
	r->least_weight = r->large[r->nr_large - 1].weight;
}

/* Bytes, and how often the number of events that it lived through can be halved. */
static uint64_t weight_of(const struct life *life, uint64_t last_ordinal)
{
	uint64_t death = life->death.ordinal == TFMT_NO_ORDINAL ? last_ordinal + 1 : life->death.ordinal;
	uint64_t events = death > life->birth.ordinal ? death - life->birth.ordinal : 1;

	return life->size / 64 * (8 + (63u - (unsigned)__builtin_clzll(events)));
}

static void add(struct liverows *r, const struct life *life, size_t place, uint64_t death_ns, const struct moments *m)
{
	const struct liverows_open *open = place <= r->nr_open ? &r->open[place - 1] : NULL;
	bool is_seen = r->process->names && open && open->nr_passed != r->process->names->nr_passed;
	struct liverows_large large = { .life = *life, .birth_ns = open ? open->birth_ns : 0, .death_ns = death_ns };
	struct liverows_other other;

	large.sort = sort_of(r, life, is_seen);
	large.weight = weight_of(life, r->process->lives->now.ordinal);
	r->nr_blocks++;
	if (large.weight > r->least_weight) {
		r->large = heap_grow(r->large, &r->large_room, r->nr_large + 1, sizeof(*r->large));
		r->large[r->nr_large++] = large;
		if (r->nr_large == 2 * LIVEROWS_LARGE)
			drop_small(r);
		return;
	}
	other = liverows_other_of(&large);
	if (!moments_see(m, other.birth, other.death))
		return;
	if (r->nr_others >= r->others_max)
		drop_unseen(r, m);
	liverows_add_other(r, &other);
}

void liverows_begin(struct liverows *r, size_t place, uint64_t time_ns)
{
	r->open = heap_grow(r->open, &r->open_room, place, sizeof(*r->open));
	if (place > r->nr_open)
		r->nr_open = place;
	r->open[place - 1] = (struct liverows_open){ replay_time(r->process, time_ns),
						     r->process->names ? r->process->names->nr_passed : 0 };
}

void liverows_end(struct liverows *r, const struct life *life, size_t place, uint64_t time_ns, const struct moments *m)
{
	add(r, life, place, replay_time(r->process, time_ns), m);
}

/* ---- judging ----------------------------------------------------------------------------------- */

static int by_birth(const void *va, const void *vb)
{
	const struct life *const *a = va, *const *b = vb;

	return ((*a)->birth.ordinal > (*b)->birth.ordinal) - ((*a)->birth.ordinal < (*b)->birth.ordinal);
}

/* All that is to be judged, in the order of allocation; *c has them in that order. */
static const struct life **judge(const struct liverows *r, struct categories *c, size_t *nr)
{
	const struct life **at = heap_alloc(r->nr_large + r->nr_sorts, sizeof(const struct life *));
	struct life *life = heap_alloc(r->nr_large + r->nr_sorts, sizeof(*life));

	*nr = 0;
	for (size_t i = 0; i < r->nr_large; i++)
		at[(*nr)++] = &r->large[i].life;
	for (size_t i = 0; i < r->nr_sorts; i++)
		at[(*nr)++] = &r->sort[i].life;
	if (*nr)
		qsort(at, *nr, sizeof(*at), by_birth);
	for (size_t i = 0; i < *nr; i++)
		life[i] = *at[i];
	categories_judge(c, r->process, life, *nr);
	free(life);
	return at;
}

void liverows_settle(struct liverows *r, const struct moments *m)
{
	const struct lives *lives = r->process->lives;
	struct categories c;
	const struct life **at;
	size_t nr;

	for (size_t i = 0; i < lives->nr_lives; i++) {
		struct life life = lives->life[i];

		life.death = (struct lives_when){ .ordinal = TFMT_NO_ORDINAL };
		if (life.is_live && life.device == r->device)
			add(r, &life, i + 1, UINT64_MAX, m);
	}
	if (r->nr_large > LIVEROWS_LARGE)
		drop_small(r);
	else if (r->nr_large)
		qsort(r->large, r->nr_large, sizeof(*r->large), by_weight);
	at = judge(r, &c, &nr);
	for (size_t i = 0; i < nr; i++) {
		const struct life *first = r->nr_large ? &r->large[0].life : NULL;
		bool is_large = first && (const char *)at[i] >= (const char *)first &&
				(const char *)at[i] < (const char *)(r->large + r->nr_large);

		if (is_large)
			((struct liverows_large *)((uintptr_t)at[i] - offsetof(struct liverows_large, life)))->judged =
				(struct liverows_judged){ (uint8_t)c.block[i].category, c.block[i].module, c.block[i].step };
		else
			((struct liverows_sort *)((uintptr_t)at[i] - offsetof(struct liverows_sort, life)))->judged =
				(struct liverows_judged){ (uint8_t)c.block[i].category, c.block[i].module, c.block[i].step };
	}
	free(at);
	categories_release(&c);
}
