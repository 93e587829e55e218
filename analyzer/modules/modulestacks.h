/* SPDX-License-Identifier: MIT */
/*
 * Which modules' forward (or, while the model is made, __init__) a Python stack runs in: one level for each,
 * by the frame that calls it and, where the source can be read, by the name that the line there gives it
 * (callsite.h). In backward they are those of the call in forward that made the node that runs. Which of
 * several layers it is, a stack alone does not tell: modulepaths.h does.
 */
#ifndef VT_MODULESTACKS_H
#define VT_MODULESTACKS_H

#include "analyzer/pysource/callsite.h"
#include "analyzer/pysource/sequence.h"
#include "analyzer/pysource/sourceloops.h"

#define MODULELEVELS_MAX 48 /* modules within modules; deeper ones count to the last */

/* One call of a module on a stack. */
struct modulelevel {
	uint32_t caller, callee; /* frame ids: of the call, and of forward or __init__ itself */
	uint32_t place, branch;  /* calls of which the next are of the next member: the caller; or its parent,
				    and callsite.h's branch */
	uint32_t code;           /* of the callee */
	int32_t position;        /* in the callee, of what it calls */
	const char *name, *behind;
	const char *within;      /* the member of the module around it whose method makes the call; "" = none */
	const struct callsite *site; /* that gives the name; NULL = its class does */
	const char *forward;             /* "Conv2d.forward" */
	const struct sequence *sequence; /* of an nn.Sequential: its members; NULL = not known */
	const struct sequence *list;     /* that a loop of the source takes it from; NULL = not known */
	bool indexed, by_class, is_variable;
	bool is_leaf;   /* of torch.nn: others in the same list may allocate nothing */
	bool is_single; /* one operation, that makes one tensor of a shape: torch.nn's Linear, convolutions */
};

struct modulestack {
	bool known;
	uint8_t nr_levels;
	bool makes;          /* __init__ instead of forward */
	bool by_itself;      /* ... and it is not torch.nn that makes something there */
	struct modulelevel *level; /* outermost first */
};

struct modulestack_site;

/* Of one process. Zero it. */
struct modulestacks {
	struct sourcetext sources;
	struct modulestack *of_stack; /* by stack id */
	uint32_t nr_stacks;
	struct modulestack_site *site; /* by frame id */
	uint32_t nr_sites;
};

static inline bool modulestacks_is_python(const struct tfmt_frame *f)
{
	return f->kind == TFMT_FRAME_PYTHON || f->kind == TFMT_FRAME_PYTHON_ENTRY;
}

/* What a stack of this reader's calls; good until the next call. NULL: no such stack. */
const struct modulestack *modulestacks_get(struct modulestacks *m, const struct tfmt_reader *reader, uint32_t stack);

/* The loops around the place where this frame stands; good until the next call. NULL: none are known. */
const struct sourceloops *modulestacks_loops(struct modulestacks *m, const struct tfmt_reader *reader, uint32_t frame);

/* A generator expression's frame, that is on no stack while what it has made is used. */
bool modulestacks_is_generator(const struct tfmt_reader *reader, uint32_t frame);

/*
 * The frame of this stack that runs in the same call of the same function as the frame `of`, somewhere in it; 0: none
 * does.
 */
uint32_t modulestacks_frame_beside(const struct tfmt_reader *reader, uint32_t stack, uint32_t of);

void modulestacks_release(struct modulestacks *m);

/* The first frame of the call in forward that made the node that runs; the stack itself if none does. */
uint32_t modulestacks_forward_part(const struct tfmt_reader *reader, uint32_t stack);

#endif
