/* SPDX-License-Identifier: MIT */
/*
 * The table of groups (struct group), and how each of them remembers its figures at the latest of each mark. That costs
 * nothing per mark: the marks of a device are numbered, and a group whose number (group.seen) is lower than the device's
 * still has, at its next change, the figures it had at the mark; they are kept in group.at then.
 */
#ifndef VT_GROUPS_H
#define VT_GROUPS_H

#include <string.h>

#include "analyzer/ledger/books.h"

#define GROUPS_KNOWN 2048 /* a power of two; about what a step of training has, and fits the first cache */

struct groups {
	struct group *group;
	uint32_t nr_groups, room;
	uint64_t *slot; /* hash table: hash << 32 | index + 1; 0 = free */
	uint64_t slots_room;
	uint32_t known[GROUPS_KNOWN]; /* by event: index + 1 of the group that the latest such one was of */
};

void groups_release(struct groups *t);

/*
 * The index of the group with this identity; if there was none (*is_new) one that is otherwise 0 is added.
 * Adding moves groups: pointers into the table do not outlive it.
 */
uint32_t groups_find(struct groups *t, const struct group_identity *id, bool *is_new);

/*
 * Is it the group of a tensor event? For what nearly all events are, and groups that are plain: tensors with a Python
 * stack; of the rest of their identity only the device is not 0. False says nothing.
 */
static inline bool group_is_of(const struct group *g, const struct tfmt_event *ev)
{
	return g->is_plain && g->python_stack == ev->python_stack && g->native_stack == ev->native_stack &&
	       g->shape == ev->shape && g->function == ev->function && g->device == ev->device &&
	       !(ev->flags & (TFMT_SPACE_MASK | TFMT_FLAG_MODELLED));
}

/* Where the group of a tensor event is noted when it has been found: training repeats itself. */
static inline uint32_t *groups_known(struct groups *t, const struct tfmt_event *ev)
{
	uint32_t hash = (ev->python_stack * 31 + ev->native_stack) * 31 + ev->shape;

	return &t->known[hash * 0x9e3779b1u / (UINT32_MAX / GROUPS_KNOWN + 1)];
}

/* What group_keep_marks() does when there is something to keep. */
void group_keep_new_marks(struct group *g, const uint32_t mark[static NR_MARKS]);

/*
 * To be called before every change of a group: keep what it had at its device's marks since its last
 * change.
 */
static inline void group_keep_marks(struct group *g, const uint32_t mark[static NR_MARKS])
{
	if (memcmp(g->seen, mark, sizeof(g->seen)))
		group_keep_new_marks(g, mark);
}

#endif
