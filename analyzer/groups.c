/* SPDX-License-Identifier: MIT */
/* A hash table of groups, and their memory of marks. */
#include "analyzer/groups.h"

#include <stdlib.h>

void groups_release(struct groups *t)
{
	free(t->group);
	free(t->slot);
	*t = (struct groups){ 0 };
}

bool group_is_device_memory(const struct group *g)
{
	if (g->tensor)
		return true;
	if (g->modelled && owner_is_driver(g->owner))
		return false;
	if (g->graph_pool)
		return true;
	switch (g->space) {
	case TFMT_SPACE_DEVICE:
	case TFMT_SPACE_HANDLE:
	case TFMT_SPACE_POOL:
	case TFMT_SPACE_ARRAY:
		return true;
	default:
		return false;
	}
}

bool group_is_page_locked(const struct group *g)
{
	return !g->tensor && (g->space == TFMT_SPACE_PINNED || g->space == TFMT_SPACE_REGISTERED ||
			      g->space == TFMT_SPACE_POOL_HOST || g->space == TFMT_SPACE_HANDLE_HOST);
}

struct group_figures group_figures_at(const struct group *g, enum group_mark mark)
{
	return mark == MARK_END ? g->live : g->at[mark];
}

void group_keep_marks(struct group *g, const uint32_t mark[static NR_MARKS])
{
	for (int k = 0; k < NR_MARKS; k++) {
		if (g->seen[k] == mark[k])
			continue;
		g->at[k] = g->live;
		g->seen[k] = mark[k];
	}
}

static bool same_group(const struct group *a, const struct group *b)
{
	return a->python_stack == b->python_stack && a->native_stack == b->native_stack &&
	       a->shape == b->shape && a->thread == b->thread && a->function == b->function &&
	       a->device == b->device && a->space == b->space && a->tensor == b->tensor &&
	       a->modelled == b->modelled && a->graph_pool == b->graph_pool &&
	       a->unrecorded == b->unrecorded;
}

static uint32_t *group_slot(const struct groups *t, const struct group *g)
{
	uint64_t hash = g->python_stack * 0x9e3779b97f4a7c15ull;
	uint32_t i;

	hash = (hash ^ g->native_stack) * 0xff51afd7ed558ccdull;
	hash = (hash ^ hash >> 29 ^ g->shape) * 0xc4ceb9fe1a85ec53ull;
	hash ^=
	    (uint64_t)g->thread << 20 ^ g->function ^ (uint64_t)g->device << 16 ^ (uint64_t)g->space << 24;
	hash *= 0x9e3779b97f4a7c15ull;
	i = (uint32_t)(hash >> 32) & (t->slots_room - 1);
	while (t->slot[i] && !same_group(&t->group[t->slot[i] - 1], g))
		i = (i + 1) & (t->slots_room - 1);
	return &t->slot[i];
}

static bool slots_grow(struct groups *t)
{
	uint32_t room = t->slots_room ? 2 * t->slots_room : 256;
	uint32_t *slot = calloc(room, sizeof(*slot));

	if (!slot)
		return false;
	free(t->slot);
	t->slot = slot;
	t->slots_room = room;
	for (uint32_t i = 0; i < t->nr_groups; i++)
		*group_slot(t, &t->group[i]) = i + 1;
	return true;
}

int64_t groups_find(struct groups *t, const struct group *like)
{
	uint32_t *slot;

	if (3 * ((uint64_t)t->nr_groups + 1) > 2 * (uint64_t)t->slots_room && !slots_grow(t))
		return -1;
	slot = group_slot(t, like);
	if (*slot)
		return *slot - 1;
	if (t->nr_groups == t->room) {
		uint32_t room = t->room ? 2 * t->room : 256;
		struct group *grown = realloc(t->group, room * sizeof(*grown));

		if (!grown)
			return -1;
		t->group = grown;
		t->room = room;
	}
	t->group[t->nr_groups++] = *like;
	*slot = t->nr_groups;
	return t->nr_groups - 1;
}
