/* SPDX-License-Identifier: MIT */
/*
 * steps: where one step of training ends and the next begins.
 *
 * A *cycle* is a forward with the backward that follows it: it ends before the first forward after a backward, at the
 * first allocation after backward and the optimizer's work if that is earlier (the next batch). A *step* is one or
 * more cycles, up to the one in which parameters are updated: an optimizer at work, or gradients freed by zero_grad,
 * wherever in the loop that is called. So gradient accumulation has several cycles to a step. Where no optimizer is
 * ever seen at work (it allocates nothing and gradients are kept), each cycle counts as a step. Where updates of several
 * lines take turns, as those of two networks that learn against each other, a step is a round of them, from the first
 * line's turn to its next; lines that are called twice in a row do not take turns, unless they stand in a loop within the
 * round (several updates of a critic for one of its generator): one that another line, never called twice in a row, stands
 * outside of. Where optimizers allocate nothing once they have begun, as SGD's, that is told by lines that drop the
 * gradients of different objects. A line that is called in some rounds of a loop only (`if i % 5 == 0: update_generator()`) belongs to the
 * step of the one that is called in each. Clipping of gradients is a sign of an update where there are no better ones.
 *
 * A replayed CUDA graph allocates nothing: a backward pass after an update, with nothing left that a forward of its cycle
 * has made, follows a forward that was not seen, and begins a cycle of its own.
 *
 * A backward pass that makes a graph itself, as for a gradient penalty, is part of the forward whose loss it goes into;
 * where no other passes are ever seen it is what ends a cycle. Of the evaluations of a closure that an optimizer calls at
 * several lines of its own (L-BFGS), those at another line than the first one's do not begin a step.
 *
 * NVTX ranges that the program names "step 17", "iteration", "train_step", ... are its steps instead.
 */
#ifndef VT_STEPS_H
#define VT_STEPS_H

#include "analyzer/training/phases.h"
#include "analyzer/training/updatesites.h"

/* One list of boundaries: each where a cycle or step begins after another. */
struct steps_bounds {
	uint64_t *ordinal; /* of the first event after it; ascending */
	uint32_t nr_bounds;
	size_t room;
};

/* What an event has meant for the boundaries; an event may be several. */
enum steps_sign {
	STEPS_MAYBE = 1, /* if the next cycle begins, it begins here */
	STEPS_CYCLE = 2, /* it did: at the latest MAYBE */
	STEPS_NAMED = 4, /* a range that is a step begins */
	STEPS_PASSED = 8, /* a backward pass begins or ends: nr_backwards or nr_ended has changed */
	STEPS_UPDATED = 16, /* another cycle is known to begin a step, maybe one that has long begun */
};

/* Of one process. Zero it but for the reader. */
struct steps {
	const struct tfmt_reader *reader;
	struct steps_bounds cycles, updated, named; /* updated: those cycles that begin after an update */
	uint32_t nr_backwards; /* begun; of passes within others the outermost */
	uint32_t nr_ended;
	uint32_t nr_evaluations; /* of cycles: those that an optimizer began by evaluating its closure once more */
	bool in_backward;
	bool makes_graph; /* the latest pass does, to be differentiated itself */
	uint64_t nr_forward_blocks; /* the caller's: live ones that forward has made in this cycle */

	/* private */
	struct updatesites sites;
	uint32_t updating; /* sites where an optimizer was at work, not zero_grad alone */
	struct steps_runs {    /* of these sites */
		uint32_t nr_turns; /* of turn[], looked at */
		uint32_t seen, again; /* in any turn, in a later one */
		uint32_t twice, often; /* in two in a row, in more than a round may have */
		uint32_t gathers; /* after several cycles each: in a loop over batches, whose gradients add up */
		uint32_t gather_again; /* gathers: more than once */
		uint32_t length[UPDATESITES_MAX + 1]; /* of the run that a site is in */
	} runs;
	uint32_t *turn;     /* by updated: sites of the updates between that bound and the one before; after the last */
	size_t turns_room;
	struct steps_bounds rounds; /* of updated: those that begin a round */
	bool has_rounds;            /* steps_finish() has found them */
	uint32_t nr_sure;           /* of turns: those with more than clipping */
	uint32_t nr_working;        /* of turns: those with an optimizer at work */
	uint32_t working;           /* the last of those */
	struct updatesites_call closure; /* within which the step's first forward ran */
	bool closure_known;
	bool has_backward;  /* since the cycle began */
	bool has_plain;     /* there was a pass that made no graph */
	bool has_update;    /* since the cycle's backward */
	bool begin_known;   /* the cycle's own beginning is in updated */
	bool pending;       /* the next cycle may have begun */
	uint64_t pending_ordinal;
	char name[32];      /* of the ranges that are steps, without number; "" = none seen */
};

/*
 * Follow one event, before it is entered anywhere, with its phase as phases_next() has told it; `is_pooled`: it is a call
 * of the driver that stands for a tensor. Returns enum steps_sign.
 */
int steps_change(struct steps *s, const struct tfmt_event *ev, enum phase phase, bool is_update,
		 bool is_pooled);
static inline int steps_next(struct steps *s, const struct tfmt_event *ev, enum phase phase, bool is_update,
			     bool is_pooled)
{
	bool is_tensor = ev->kind == TFMT_TENSOR_ALLOC || ev->kind == TFMT_TENSOR_FREE;
	bool makes_nodes = ev->flags & TFMT_FLAG_FORWARD;

	/* Nearly all events: of a tensor, in a phase that ends nothing. */
	if (is_tensor && (phase == PHASE_BACKWARD || phase == PHASE_INIT ||
			  (phase == PHASE_FORWARD && !s->has_backward && (!makes_nodes || s->closure_known))))
		return 0;
	return steps_change(s, ev, phase, is_update, is_pooled);
}

/* After the last event: find the rounds. */
void steps_finish(struct steps *s);

/*
 * What steps_finish() would make of *s if nothing further came. *now is for reading and for steps_now_release(); it
 * borrows from *s, which does not change, and is good until the next event.
 */
void steps_now(struct steps *now, const struct steps *s);
void steps_now_release(struct steps *now);
void steps_release(struct steps *s);

/* Is the latest bound of `updated` likely to lie within a round, as the one after the same updates did before? */
bool steps_is_within_round(struct steps *s);

/* The boundaries that count, once all events are known. */
const struct steps_bounds *steps_bounds(const struct steps *s);

/* How many steps there were, the last of them may be cut short; 0 = no training seen. */
uint32_t steps_count(const struct steps *s);

/* How many boundaries lie before an event or at it. */
uint32_t steps_begun(const struct steps_bounds *b, uint64_t ordinal);

/* The step that an event lies in, 0 the first; what comes before the first step counts with it. */
uint32_t steps_of(const struct steps *s, uint64_t ordinal);

#endif
