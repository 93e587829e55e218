/* SPDX-License-Identifier: MIT */
/*
 * Blocks alike: same ledger, device, stacks, shape and entry point, counted together.
 *
 * A *mark* is a moment of a device that analyses ask about afterwards: who was live when the peak was
 * reached? Each group remembers its figures at the latest of each mark. That costs nothing per mark: the
 * marks of a device are numbered, and a group whose number is lower still has, at its next change, the
 * figures it had at the mark.
 */
#ifndef VT_GROUPS_H
#define VT_GROUPS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "analyzer/stacks/owner.h"
#include "tracefmt/tracefmt.h"

#define GROUP_HOST TFMT_NR_DEVICES /* pseudo device of host memory that names no device */

enum group_mark {
	MARK_TENSOR_PEAK, /* the first event that reached the most allocated by tensors */
	MARK_DRIVER_PEAK, /* the first event that reached the most device memory taken from the driver */
	MARK_OOM,         /* the latest failure of the framework's allocator */
	MARK_TIME,        /* a time the user asked for */
	NR_MARKS,
	MARK_END = NR_MARKS, /* the end of accounting: not marked, the books as they stand at last */
};

struct group_figures {
	uint64_t bytes, blocks;
	uint32_t range; /* range group (books_range.h) of the newest block; 0 = none */
};

/* What makes blocks alike. */
#define GROUP_IDENTITY                                                                                         \
	uint32_t python_stack, native_stack;                                                                   \
	uint32_t shape;                                                                                        \
	uint32_t thread;   /* TFMT_DEF_THREAD id, only where no Python frame tells the place; else 0 */        \
	uint16_t function; /* TFMT_DEF_FUNCTION id */                                                          \
	uint8_t device;    /* ordinal, or GROUP_HOST */                                                        \
	uint8_t space;     /* enum tfmt_space; meaningless for tensors */                                      \
	bool tensor;       /* of the tensor ledger */                                                          \
	bool modelled;     /* not a call: a simulated library's figure; function names the owner */            \
	bool graph_pool;   /* not a call: what the driver says it has reserved for graphs */                   \
	bool unrecorded;   /* no blocks: by how much lost events have changed a total; bytes are signed */         \
	uint8_t before;    /* no blocks: 1 + enum owner of what was held at marks before the recording's kept part */

struct group_identity {
	GROUP_IDENTITY
};

/* Blocks alike. */
struct group {
	union {
		struct group_identity identity;
		struct {
			GROUP_IDENTITY
		};
	};
	uint8_t owner;        /* enum owner, of modelled memory and of `before` only */
	uint8_t phase;        /* enum phase of the first block's allocation */
	bool is_plain;        /* tensors with a Python stack; of the rest of the identity only the device is not 0 */
	uint64_t shape_bytes; /* per block, before the allocator's rounding; 0 if unknown */
	struct group_figures live;
	uint32_t seen[NR_MARKS]; /* number of the mark that at[] holds */
	struct group_figures at[NR_MARKS]; /* last: what is above is needed with each event */
};

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

/* Is it the group of a tensor event? For what nearly all events are; false says nothing. */
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

/*
 * Figures at a mark, or at the end of accounting (MARK_END). Needs group_keep_marks() after the last
 * change.
 */
struct group_figures group_figures_at(const struct group *g, enum group_mark mark);

/*
 * Does this group count as memory of a device that was taken from its driver (not of the host, not another
 * process's, not what the driver took for itself)?
 */
bool group_is_device_memory(const struct group *g);

/* Is each block a tensor that a pool of the driver's serves? Then nothing tells its shape. */
bool group_is_pooled_tensor(const struct group *g);

/* Is it host memory that the driver keeps in place, its own or the program's? */
bool group_is_page_locked(const struct group *g);

#endif
