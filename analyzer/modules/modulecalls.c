/* SPDX-License-Identifier: MIT */
/* Numbers of calls, by what the loops around them have shown. */
#include "analyzer/modules/modulecalls.h"
#include "analyzer/ui/heap.h"

#include <stdlib.h>
#include <string.h>

static struct modulecalls *slot_of(const struct modulecalls_table *t, const struct modulecalls_key *key)
{
	uint64_t hash = (key->owner_path * 0x9e3779b97f4a7c15ull ^ key->place) * 0xff51afd7ed558ccdull ^ key->branch;
	uint32_t i = (uint32_t)((hash * 0xc4ceb9fe1a85ec53ull) >> 32) & (t->room - 1);

	while (t->place[i].key.place && memcmp(&t->place[i].key, key, sizeof(*key)) != 0)
		i = (i + 1) & (t->room - 1);
	return &t->place[i];
}

static void grow(struct modulecalls_table *t)
{
	struct modulecalls_table grown = { .nr = t->nr, .room = t->room ? 2 * t->room : 256 };

	grown.place = heap_alloc(grown.room, sizeof(*grown.place));
	for (uint32_t i = 0; i < t->room; i++)
		if (t->place[i].key.place)
			*slot_of(&grown, &t->place[i].key) = t->place[i];
	free(t->place);
	*t = grown;
}

struct modulecalls *modulecalls_at(struct modulecalls_table *t, struct modulecalls_key key)
{
	struct modulecalls *c;

	if (2 * t->nr >= t->room)
		grow(t);
	c = slot_of(t, &key);
	if (!c->key.place) {
		*c = (struct modulecalls){ .key = key };
		t->nr++;
	}
	return c;
}

struct modulecalls *modulecalls_find(const struct modulecalls_table *t, struct modulecalls_key key)
{
	struct modulecalls *c = t->room ? slot_of(t, &key) : NULL;

	return c && c->key.place ? c : NULL;
}

/* The member behind number `before`, -1 the first: of those between, nothing may have been seen. */
static uint32_t next_member(struct modulecalls *c, const struct sequence *sequence, int32_t before,
			    const struct modulelevel *l)
{
	int32_t next = sequence ? sequence_next(sequence, before, l->forward) : before + 1;

	if (sequence ? next < 0 && (l->is_leaf || !sequence->is_alike) : l->is_leaf && l->site)
		c->is_untold = true;
	return (uint32_t)(next < 0 ? before + 1 : next);
}

uint32_t modulecalls_list_loop(const struct modulecalls *c, const struct sourceloops *loops)
{
	for (uint32_t i = 0; i < loops->nr && c->loop_line; i++)
		if (loops->loop[i].first == c->loop_line)
			return i;
	return 0;
}

static uint32_t member_of_list(struct modulecalls *c, const struct sequence *sequence, const struct modulelevel *l,
			       const struct sourceloops *loops)
{
	int32_t before_first = (l->site ? (int32_t)l->site->first : 0) - 1;
	uint32_t list_loop = loops ? modulecalls_list_loop(c, loops) : 0;

	if (!c->nr)
		return next_member(c, sequence, before_first, l);
	if (c->left && loops) {
		c->shows_outer = true;
		return next_member(c, sequence, before_first, l);
	}
	if (loops && list_loop && !c->left_inner) {
		c->went_inner = true;
		return c->member[c->nr - 1];
	}
	c->shows_inner |= c->left_inner;
	c->went_outer |= loops && list_loop + 1 < loops->nr;
	return next_member(c, sequence, (int32_t)c->member[c->nr - 1], l);
}

uint32_t modulecalls_number(struct modulecalls *c, uint32_t instance, const struct sequence *sequence,
			    const struct modulelevel *l, const struct sourceloops *loops)
{
	uint32_t number;

	if (l->site) {
		c->loop_line = l->site->loop_line;
		c->is_unbound = l->site->is_unbound;
		c->may_skip |= l->site->may_skip;
		c->skips |= l->site->skips;
	}
	if (c->instance != instance) {
		c->varies |= c->nr_before && c->nr != c->nr_before;
		c->nr_before = c->nr;
		c->nr = 0;
	}
	c->instance = instance;
	c->member = heap_grow(c->member, &c->members_room, c->nr + 1u, sizeof(*c->member));
	number = l->indexed ? member_of_list(c, sequence, l, loops) : c->nr;
	c->member[c->nr++] = number;
	c->most = c->nr > c->most ? c->nr : c->most;
	c->left = c->left_inner = false;
	return number;
}

uint32_t modulecalls_number_back(struct modulecalls *c, uint32_t instance)
{
	c->nr_back = c->back_instance == instance ? c->nr_back + 1 : 1;
	c->back_instance = instance;
	return c->nr ? c->member[c->nr > c->nr_back ? c->nr - c->nr_back : 0] : 0;
}

bool modulecalls_are_numbered(const struct modulecalls_table *t, const struct modulecalls *c)
{
	const struct modulecalls *outer = c->outer.place ? modulecalls_find(t, c->outer) : NULL;

	/* The latest call of the owner may have been cut short. */
	if (c->skips || (c->may_skip && (c->varies || c->nr > c->nr_before)))
		return false;
	if (c->is_untold || (c->is_unbound && c->most == 1))
		return false;
	if ((c->went_outer && !c->shows_outer) || (c->went_inner && !c->shows_inner))
		return false;
	return (!c->looks_alike || c->apart) && (!outer || outer->apart);
}

void modulecalls_release(struct modulecalls_table *t)
{
	for (uint32_t i = 0; i < t->room; i++)
		free(t->place[i].member);
	free(t->place);
	*t = (struct modulecalls_table){ 0 };
}
