/* SPDX-License-Identifier: MIT */
/*
 * The places in the source whose memory grows from step to step: stacks with one site, what they held at each reading,
 * and those of their blocks that stay. A part of stepcauses.h.
 */
#ifndef VT_STEPPLACES_H
#define VT_STEPPLACES_H

#include "analyzer/growth/stepcauses.h"
#include "analyzer/stacks/framekind.h"
#include "analyzer/stacks/sourceline.h"

/* Stacks with the same site. */
struct stepplace {
	struct sourceline site; /* file NULL: the stack is all there is */
	const char *node;       /* of autograd, in which the site runs; "" if it runs in none */
	bool tensor;
	enum frame_kind kind;
	enum frame_module module; /* of the stack with the least */
	bool is_hooked;           /* all are results of modules with hooks, as most modules have not */
	uint32_t group;
	double bytes[STEPSAMPLES_MAX], blocks[STEPSAMPLES_MAX], asked[STEPSAMPLES_MAX];
	double largest; /* growth of the stack that `group` is of */
	struct life *kept; /* blocks that were born while it grew and outlived the last boundary, by birth */
	size_t nr_kept, room, nr_forward; /* forward: autograd made nodes for them */
	bool in_graph;
};

struct stepplaces {
	struct stepplace *place;
	uint32_t nr;
	uint32_t *of_stack; /* UINT32_MAX: it does not grow */
};

/* Of the stacks that grow, with their blocks. stepplaces_release() is needed. */
void stepplaces_find(struct stepplaces *f, const struct stepcauses *c);
void stepplaces_release(struct stepplaces *f);

/* Append a block to those that stay. */
void stepplaces_keep(struct stepplace *p, const struct life *life);

#endif
