/* SPDX-License-Identifier: MIT */
/* Numbers of calls, by what the loops around them have shown. */
#include "analyzer/modulecalls.h"

#include <stdlib.h>

static struct modulecalls *slot_of(const struct modulecalls_table *t, uint32_t owner, uint32_t caller)
{
	uint64_t hash = (owner * 0x9e3779b97f4a7c15ull ^ caller) * 0xff51afd7ed558ccdull;
	uint32_t i = (uint32_t)((hash * 0xc4ceb9fe1a85ec53ull) >> 32) & (t->room - 1);

	while (t->place[i].caller && (t->place[i].owner_path != owner || t->place[i].caller != caller))
		i = (i + 1) & (t->room - 1);
	return &t->place[i];
}

static bool grow(struct modulecalls_table *t)
{
	struct modulecalls_table grown = { .nr = t->nr, .room = t->room ? 2 * t->room : 256 };

	grown.place = calloc(grown.room, sizeof(*grown.place));
	if (!grown.place)
		return false;
	for (uint32_t i = 0; i < t->room; i++)
		if (t->place[i].caller)
			*slot_of(&grown, t->place[i].owner_path, t->place[i].caller) = t->place[i];
	free(t->place);
	*t = grown;
	return true;
}

struct modulecalls *modulecalls_at(struct modulecalls_table *t, uint32_t owner_path, uint32_t caller)
{
	struct modulecalls *c;

	if (2 * t->nr >= t->room && !grow(t))
		return NULL;
	c = slot_of(t, owner_path, caller);
	if (!c->caller) {
		*c = (struct modulecalls){ .owner_path = owner_path, .caller = caller };
		t->nr++;
	}
	return c;
}

struct modulecalls *modulecalls_find(const struct modulecalls_table *t, uint32_t owner_path, uint32_t caller)
{
	struct modulecalls *c = t->room ? slot_of(t, owner_path, caller) : NULL;

	return c && c->caller ? c : NULL;
}

/* Of which member of a sequence the call is: some of them may not have been seen. */
static uint32_t member_of_sequence(const struct modulecalls *c, const struct sequence *sequence, const char *forward)
{
	int32_t next = c->nr < SEQUENCE_MAX ? sequence_next(sequence, c->nr ? (int32_t)c->member[c->nr - 1] : -1, forward) : -1;

	return next < 0 ? c->nr : (uint32_t)next;
}

uint32_t modulecalls_list_loop(const struct modulecalls *c, const struct sourceloops *loops)
{
	for (uint32_t i = 0; i < loops->nr && c->loop_line; i++)
		if (loops->loop[i].first == c->loop_line)
			return i;
	return 0;
}

static uint32_t member_of_list(struct modulecalls *c, const struct sourceloops *loops, uint32_t first)
{
	uint32_t list_loop = loops ? modulecalls_list_loop(c, loops) : 0;

	if (!c->nr)
		return first;
	if (c->left) {
		c->shows_outer = true;
		return first;
	}
	if (loops && list_loop && !c->left_inner) {
		c->went_inner = true;
		return c->member[c->nr - 1];
	}
	c->shows_inner |= c->left_inner;
	c->went_outer |= loops && list_loop + 1 < loops->nr;
	return c->member[c->nr - 1] + 1;
}

uint32_t modulecalls_number(struct modulecalls *c, uint32_t instance, const struct sequence *sequence,
			    const struct modulelevel *l, const struct sourceloops *loops)
{
	uint32_t number;

	if (l->site) {
		c->loop_line = l->site->loop_line;
		c->is_unbound = l->site->is_unbound;
	}
	if (c->instance != instance)
		c->nr = 0;
	c->instance = instance;
	if (c->nr == c->members_room) {
		uint32_t room = c->members_room ? 2 * c->members_room : 8, *grown = realloc(c->member, room * sizeof(*grown));

		if (!grown)
			return 0;
		c->member = grown;
		c->members_room = room;
	}
	number = sequence ? member_of_sequence(c, sequence, l->forward) : member_of_list(c, loops, l->site ? l->site->first : 0);
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
	const struct modulecalls *outer = c->outer_caller ? modulecalls_find(t, c->outer_path, c->outer_caller) : NULL;

	if (c->is_unbound && c->most == 1)
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
