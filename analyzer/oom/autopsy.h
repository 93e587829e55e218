/* SPDX-License-Identifier: MIT */
/*
 * The autopsy of an allocation that failed: what filled the device then, and which of the known causes that
 * shows.
 *
 * A *place* is a line of the program with all blocks it held. A *cause* is a row of the table in
 * autopsy_causes.c: a verdict, and a function that looks at the autopsy and either says nothing or makes a
 * finding of it, with the bytes that it explains and how certain it is. All causes are asked; autopsy_rank.h says which one
 * is the verdict, what is said beside it, and what is set aside.
 */
#ifndef VT_AUTOPSY_H
#define VT_AUTOPSY_H

#include "analyzer/findings/certainty.h"
#include "analyzer/findings/said.h"
#include "analyzer/modules/modulesums.h"
#include "analyzer/failures/failures.h"
#include "analyzer/findings/verdict.h"
#include "analyzer/patterns/attention.h"
#include "analyzer/patterns/growingtensor.h"
#include "analyzer/patterns/kepttensors.h"
#include "analyzer/patterns/opengraphs.h"
#include "analyzer/purpose/namedblocks.h"
#include "analyzer/training/shapefit.h"

#define AUTOPSY_FINDINGS_MAX 4 /* the verdict, and what is said beside it */
#define AUTOPSY_LINES_MAX 4 /* of evidence, of advice */

struct autopsy_place {
	struct stack_frame frame; /* its strings belong to the model; file NULL: no frame is known */
	uint64_t bytes, blocks;
	uint64_t category[NR_CATEGORIES];
	uint64_t kept_bytes; /* of blocks from before the step */
	uint32_t largest;    /* index of its largest block */
	uint32_t module;     /* that its largest block was made in; 0 = in none */
	const struct namegroup *named; /* what all of its blocks are called alike; NULL: nothing is known, or not alike */
};

/*
 * Why a cause comes before others whatever they explain: the first kind fills any GPU in time, so that a larger limit, or a
 * smaller tensor, only puts the failure off.
 */
enum autopsy_kind {
	AUTOPSY_HELD,  /* grows with each step or call, or nobody needs it any more */
	AUTOPSY_LIMIT, /* the driver was not asked for it */
	AUTOPSY_WASTE, /* could be had back without less being computed: other processes, pieces, copies, padding */
	AUTOPSY_NEED,  /* what the program computes */
	AUTOPSY_SUM,   /* no more than that the sum is too large */
};

struct autopsy_finding {
	enum verdict verdict;
	const char *cause; /* finer than the verdict: "growing_tensor"; static */
	uint64_t bytes;    /* what it explains, of the state at the failure and of the request */
	uint64_t per_step; /* what of it each step has added; 0: not known, or it does not grow */
	enum certainty certainty;
	struct said certain_with; /* what would make it certain; nothing: it is, or nothing is known to */
	enum autopsy_kind kind; /* its cause's */
	bool is_beside, of_batch; /* its cause's */
	bool is_out_of_line; /* it is about a batch that is larger than all of many before */
	bool comes_first;  /* before what is about size alone */
	bool has_holder;   /* its evidence says who holds it: what the blocks of its site are called is of others as well */
	bool has_some_in_use; /* what holds them is not to let go of all: it has others as well, which the program uses */
	bool may_be_meant; /* nothing tells whether the program needs what it keeps */
	bool is_awaited;   /* a backward pass is still to come for it: nothing is to be let go of before */
	bool is_of_hooked; /* results of a module with a hook, which goes on to collect what is let go of */
	bool has_site;
	struct stack_frame site;
	bool has_caller; /* the site is in an installed package, or in a model whose calls are the matter */
	struct stack_frame caller; /* the program's own line that led to the site */
	struct said sentence;
	struct said evidence[AUTOPSY_LINES_MAX];
	struct said advice[AUTOPSY_LINES_MAX];
	struct said aside;   /* where its cause does not apply: the figure that decided, if it is worth a word */
	struct said smaller; /* input with which it would have fitted: the last of its advice, or nothing */
	const struct namegroup *named; /* what the blocks of its site are called, as a place has it, or the largest of many names */
	uint64_t named_bytes; /* its, or those of all that the same container keeps */
	uint64_t named_unseen; /* what of those no view looks at */
	unsigned nr_evidence, nr_advice;
};

/* What the step of the failure has made until then that passes, by who made it. */
struct autopsy_parts {
	uint64_t step_bytes;               /* all of it; 0 = nothing, no steps, or no modules are known */
	uint32_t most;                     /* path of the innermost module that made over half of it, 0 = none */
	uint64_t most_bytes;               /* of that module, with what is in it */
	uint64_t cross_bytes;              /* made in modules that have the names of cross-attention */
	uint64_t pictures, height, width;  /* the largest batch of them, 0 = none */
};

/* What attempts that failed, and were caught, have left. */
struct autopsy_attempts {
	uint64_t bytes, graph_bytes;
	size_t largest;                   /* block */
	const struct failure *of_largest; /* that ended its attempt; NULL: nothing is left */
};

/* The patterns that the blocks show, each looked for once. */
struct autopsy_patterns {
	struct growingtensors growing;
	struct attention attention;
	struct opengraphs open;
	struct kepttensors *kept; /* by place */
};

struct autopsy {
	const struct replay *replay;
	const struct replay_device *device;
	const struct failures *failures;
	const struct failure *failure;
	struct categories categories; /* the blocks live at the failure, by order of allocation */
	struct moment_block *block;   /* as categories.block */
	struct moment moment;	      /* the same, as patterns look at it */
	struct autopsy_patterns patterns;
	struct autopsy_attempts attempts;
	struct autopsy_place *place;  /* largest first */
	size_t nr_places;
	struct namegroups *names; /* of each place; NULL: there is no census */
	struct namegroups *names_kept; /* the same of those blocks that steps before have left */
	bool is_exception_seen; /* a census has seen one that leads to a block */
	bool is_seen_now; /* a census has seen what the step at hand has made */
	struct namegroups holders; /* tensors with a graph, by what variables and containers call them: they keep it */
	const struct namegroup *graph_holder; /* of those, the one that leads to most of the graphs; NULL: none is known to */
	struct modules modules;  /* two modules deep; empty if the replay was loaded without */
	struct autopsy_parts parts; /* empty likewise */
	struct stack_frame site; /* of the request */
	bool has_site;
	char operation[64]; /* that asked, as ATen names it: "bmm"; "" = not known */

	uint64_t capacity;        /* 0 = not known */
	uint64_t cached;          /* reserved and not allocated */
	uint64_t lacking;         /* by how much the driver had too little; 0 = not known, or enough */
	uint64_t outside;         /* of the device, beyond what is reserved and free; with outside_known */
	uint64_t libraries;       /* of that, taken by calls of others than PyTorch */
	enum owner largest_owner; /* of these libraries, who took most */
	bool outside_known;
	uint32_t step;         /* of the failure, 1 the first; 0 = there are none */
	uint64_t step_ordinal; /* where that step begins */
	uint32_t calls;        /* without steps: stretches of forward, the last one in which it failed; 0: it did in none */
	uint64_t call_ordinal; /* where that last one begins */
	struct shapefit shape; /* how steps before followed their batches' shapes, with has_shape */
	bool has_shape;
	uint64_t usable;       /* what tensors could have held in all; 0 = not known */
	uint64_t fitting;      /* what they surely could have held: a twentieth less, as segments leave some unused */
	uint64_t largest_fit;  /* request that a new segment, or a cached block, would have served; with failure->free_known */
	struct autopsy_finding *finding; /* the verdict first */
	unsigned nr_findings;
	struct said *aside; /* of causes that were weighed and set aside: the figure that decided, with the cause's name */
	unsigned nr_aside;
};
#define AUTOPSY_INIT                                                                                         \
	{                                                                                                    \
		0                                                                                            \
	}

/*
 * Examine the latest failure of a device; the replay must have been loaded with lives, modules, and
 * failures_observe(). To be released with autopsy_release().
 */
void autopsy_make(struct autopsy *a, const struct replay *m, const struct replay_device *d,
		 const struct failures *f);
void autopsy_release(struct autopsy *a);

#endif
