/* SPDX-License-Identifier: MIT */
/* What a Python stack tells of the blocks that were allocated or freed there, found once for each stack. */
#ifndef VT_CATEGORY_STACK_H
#define VT_CATEGORY_STACK_H

#include "analyzer/purpose/category_rules.h"
#include "tracefmt/tracefmt.h"

struct category_stack {
	bool known;
	bool recomputes;    /* activation checkpointing runs a part of forward again */
	bool moves_module;  /* Module._apply gives parameters other data: to(), cuda(), half(), ... */
	bool makes_module;  /* in the __init__ of a class that also has a forward */
	bool copies_state;  /* copy.deepcopy() of a dictionary within two others, as optimizers give their state away */
	bool in_hook;       /* Python that autograd's engine calls beside a node, which is none of Python's own */
	bool is_optimizer;  /* in the __init__ or step of a class whose step runs no model */
	uint32_t nr_copies;  /* the caller's: blocks from here that may be copies of parameters */
	uint32_t nr_shapes;  /* the caller's: of how many shapes such blocks ever were */
	uint8_t kept, freed; /* enum category as the rules have it for blocks with such a life */
};

/* What the rules say of a code object's frames. */
struct category_code {
	bool known;
	uint8_t kept, freed; /* enum category, of blocks with such a life */
};

struct textset;

/* Of one trace. Zero it but for the reader. */
struct category_stacks {
	const struct tfmt_reader *reader;
	struct category_stack *of; /* by stack id */
	uint32_t nr_stacks;
	struct category_code *of_code; /* by code id */
	uint32_t nr_codes;
	struct textset *modules, *steppers, *trainers; /* names of classes: with a forward, a step, a step that runs a model */
	uint8_t *seen; /* by stack id: it has been looked through for these, 2 for all of them */
	uint32_t nr_seen;
};

/*
 * Take in the classes whose forward or step runs in this stack, which is (`runs_model`) of forward or backward. To be
 * called for all stacks before the first look-up.
 */
void category_stacks_add(struct category_stacks *c, uint32_t stack, bool runs_model);

/* What a stack tells; nothing of reserved ids, and without memory. */
struct category_stack category_stack_of(struct category_stacks *c, uint32_t stack);

/* One more that may be a copy of a parameter; one more shape of them. */
void category_stack_count(struct category_stacks *c, uint32_t stack);
void category_stack_count_shape(struct category_stacks *c, uint32_t stack);
void category_stacks_release(struct category_stacks *c);

#endif
