/* SPDX-License-Identifier: MIT */
/* A hash table of groups, and their memory of marks. */
#include "analyzer/ledger/groups.h"

#include <stdlib.h>

#include "analyzer/base/heap.h"

void groups_release(struct groups *t)
{
	free(t->group);
	free(t->slot);
	*t = (struct groups){ 0 };
}

bool group_met(const struct group *g, uint32_t n)
{
	return n < 8 * sizeof(g->met) && (g->met >> n & 1);
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

bool group_is_pooled_tensor(const struct group *g)
{
	return g->tensor && (g->space == TFMT_SPACE_POOL || g->space == TFMT_SPACE_GRAPH);
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

void group_keep_new_marks(struct group *g, const uint32_t mark[static NR_MARKS])
{
	for (int k = 0; k < NR_MARKS; k++) {
		if (g->seen[k] == mark[k])
			continue;
		g->at[k] = g->live;
		g->seen[k] = mark[k];
	}
}

static uint32_t identity_hash(const struct group_identity *id)
{
	uint64_t hash = (id->python_stack | (uint64_t)id->native_stack << 32) * 0x9e3779b97f4a7c15ull;

	hash = (hash ^ hash >> 32 ^ id->shape ^ (uint64_t)id->thread << 32) * 0xff51afd7ed558ccdull;
	hash ^= hash >> 29 ^ id->function ^ (uint64_t)id->device << 16 ^ (uint64_t)id->space << 24 ^
		(uint64_t)id->tensor << 32;
	return (uint32_t)(hash * 0xc4ceb9fe1a85ec53ull >> 32);
}

static void put_slot(struct groups *t, uint32_t hash, uint32_t index)
{
	uint64_t i = hash;

	while (t->slot[i & (t->slots_room - 1)])
		i++;
	t->slot[i & (t->slots_room - 1)] = (uint64_t)hash << 32 | (index + 1);
}

/* Room for another group, in both tables: a slot is free then. */
static void make_room(struct groups *t)
{
	uint32_t room = t->room ? 2 * t->room : 256;

	if (t->nr_groups < t->room)
		return;
	t->group = heap_need(room > 1u << 30 ? NULL : realloc(t->group, room * sizeof(*t->group)));
	free(t->slot);
	t->slot = heap_alloc(2 * (size_t)room, sizeof(*t->slot));
	t->slots_room = 2 * (uint64_t)room;
	t->room = room;
	for (uint32_t i = 0; i < t->nr_groups; i++)
		put_slot(t, identity_hash(&t->group[i].identity), i);
}

/* Field by field, as the one that is looked for was just stored: the processor waits when it loads it in larger parts. */
static bool same_identity(const struct group_identity *a, const struct group_identity *b)
{
	return a->python_stack == b->python_stack && a->native_stack == b->native_stack && a->shape == b->shape &&
	       a->thread == b->thread && a->function == b->function && a->device == b->device &&
	       a->space == b->space && a->tensor == b->tensor && a->modelled == b->modelled &&
	       a->graph_pool == b->graph_pool && a->unrecorded == b->unrecorded && a->before == b->before;
}

static bool is_plain(const struct group_identity *id)
{
	return id->tensor && id->python_stack >= TFMT_STACK_FIRST && !id->thread && !id->space && !id->modelled &&
	       !id->graph_pool && !id->unrecorded && !id->before;
}

uint32_t groups_find(struct groups *t, const struct group_identity *id, bool *is_new)
{
	uint32_t hash = identity_hash(id);

	*is_new = false;
	for (uint64_t i = hash; t->slot && t->slot[i & (t->slots_room - 1)]; i++) {
		uint64_t slot = t->slot[i & (t->slots_room - 1)];
		uint32_t index = (uint32_t)slot - 1;

		if (slot >> 32 == hash && same_identity(&t->group[index].identity, id))
			return index;
	}
	make_room(t);
	*is_new = true;
	t->group[t->nr_groups] = (struct group){ .identity = *id, .is_plain = is_plain(id) };
	put_slot(t, hash, t->nr_groups);
	return t->nr_groups++;
}
