/* SPDX-License-Identifier: MIT */
/*
 * Who held memory at a moment: the live blocks of one device (or of one process's host memory), grouped by
 * the stack or by the place in the source that allocated them, largest first; tensors without either (run
 * --stacks none) by their shape.
 */
#ifndef VT_HOLDERS_H
#define VT_HOLDERS_H

#include "analyzer/names/namegroups.h"
#include "analyzer/replay/replay.h"

enum holders_by { HOLDERS_BY_STACK, HOLDERS_BY_SITE };
enum holders_of {
	HOLDERS_TENSORS, /* blocks of the framework's allocator */
	HOLDERS_DRIVER,  /* device memory taken from the driver */
	HOLDERS_HOST,    /* pinned and managed memory; not of one device */
};

/* Blocks of one holder that are alike. */
struct holder_shape {
	uint32_t shape; /* TFMT_DEF_SHAPE id, 0 = unknown */
	struct group_figures figures;
};

struct holder {
	struct group_figures figures;
	const struct group *largest; /* the group with most bytes: its stack stands for the holder */
	enum owner owner;            /* who called the driver, or is modelled; of tensors: OWNER_TORCH */
	struct holder_shape *shape;  /* largest first */
	uint32_t nr_shapes;
	uint32_t nr_stacks; /* different stacks; 1 when grouped by stack */
	const struct namegroup *named; /* what all of its blocks are called alike; NULL: nothing is known, or not alike */
};

struct holders {
	struct holder *holder; /* largest first; ties by order of first allocation */
	uint32_t nr_holders;
	struct group_figures total;
	struct holder_shape *shapes; /* what holder[].shape point into */
	struct namegroups *names;    /* what holder[].named point into; NULL: there is no census */
};
#define HOLDERS_INIT { 0 }

struct holders_query {
	struct replay_process *process;
	uint32_t device; /* ordinal; ignored for HOLDERS_HOST */
	enum holders_of of;
	enum holders_by by;
	enum group_mark mark;
};

/* Resolves stacks when grouped by site. *h is to be released. */
void holders_find(struct holders *h, const struct replay *m, const struct holders_query *q);
void holders_release(struct holders *h);

/* A tensor of which no stack was captured at all: its shape is what there is to tell. */
bool holder_has_no_stack(const struct group *g);

#endif
