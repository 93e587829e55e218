/* SPDX-License-Identifier: MIT */
/*
 * What part of training an event belongs to.
 *
 * Backward is known exactly: autograd's engine and its nodes are recorded. Forward, optimizer and the
 * building of the model are told by the innermost Python frame that is one of PyTorch's for it (phases.c
 * has the table): code that uses torch.nn or torch.optim, also through other libraries. Else forward is
 * what makes autograd nodes. An optimizer's step may call a closure for the loss: that is not the optimizer's
 * work. What nothing tells is `init` before the first forward or backward, `other`
 * after it.
 *
 * The program can say it better: an NVTX range named "forward", "backward" or "optimizer" that the thread has entered
 * holds for all that is neither a backward pass of the engine's nor an optimizer's by its frames.
 */
#ifndef VT_PHASES_H
#define VT_PHASES_H

#include "tracefmt/tracefmt.h"

enum phase { PHASE_OTHER, PHASE_INIT, PHASE_FORWARD, PHASE_BACKWARD, PHASE_OPTIMIZER, NR_PHASES };

/* "other", "init", "forward", "backward", "optimizer". */
extern const char *const phase_names[NR_PHASES];

/* Beside a phase in struct phases_stack. */
#define PHASES_KNOWN 0x20  /* the stack has been looked at */
#define PHASES_UPDATE 0x40 /* parameters are being updated */
#define PHASES_BEGUN 0x80  /* it is forward or backward */

/* What a Python stack tells of its events. */
struct phases_stack {
	uint8_t told;        /* by its frames alone; 0 = not known yet */
	uint8_t event[2][2]; /* likewise, [the thread is in a backward pass][the event makes nodes] */
};

#define PHASES_RANGES_MAX 32 /* within each other; those further in name no phase */

struct phases_thread {
	uint32_t passes; /* backward passes that it is in */
	uint32_t nr_ranges;
	uint8_t named; /* as phases_stack.event, by the innermost range that names one; 0 = none does */
	uint8_t outer[PHASES_RANGES_MAX]; /* what `named` was before the k-th range began */
};

/* Of one process. Zero it but for the reader. */
struct phases {
	const struct tfmt_reader *reader;
	struct phases_stack *of_stack; /* by id */
	uint32_t nr_stacks;
	struct phases_thread *thread; /* by id */
	uint32_t nr_threads;
	bool has_begun;     /* a forward or backward has been seen */
	bool has_nodes;     /* autograd nodes have been made: a backward may follow */
	bool is_update;     /* the event is an optimizer's own, at work on parameters: no zero_grad, no clipping */
};

/*
 * The phase of the next event: call it with each, in their order. Without memory it knows less, and never
 * fails.
 */
static inline enum phase phases_next(struct phases *p, const struct tfmt_event *ev);

/* Events are missing before the next: who is in backward is not known any more. */
void phases_damaged(struct phases *p);
void phases_release(struct phases *p);

/* An event that changes passes, is of a checkpoint, or whose thread or stack has not been seen before: of any. */
enum phase phases_next_of_all(struct phases *p, const struct tfmt_event *ev);

static inline enum phase phases_take(struct phases *p, const struct phases_stack *stack, const struct tfmt_event *ev,
				     bool in_pass, uint8_t named)
{
	/* Looked up, without a branch that the processor would have to foresee. */
	unsigned pass = in_pass | !!(ev->flags & TFMT_FLAG_BACKWARD), makes_nodes = !!(ev->flags & TFMT_FLAG_FORWARD);
	uint8_t told = stack->event[pass][makes_nodes];
	enum phase phase = (enum phase)(told & ~(PHASES_UPDATE | PHASES_BEGUN));

	if (named && !pass && phase != PHASE_OPTIMIZER) {
		told = named;
		phase = (enum phase)(told & ~(PHASES_UPDATE | PHASES_BEGUN));
	}
	p->is_update = told & PHASES_UPDATE;
	p->has_begun |= !!(told & PHASES_BEGUN);
	p->has_nodes |= makes_nodes;
	return phase == PHASE_OTHER && !p->has_begun ? PHASE_INIT : phase;
}

static inline enum phase phases_next(struct phases *p, const struct tfmt_event *ev)
{
	uint32_t stack = ev->python_stack;

	if (ev->kind > TFMT_TENSOR_FREE || ev->before || ev->thread >= p->nr_threads || stack >= p->nr_stacks ||
	    !p->of_stack[stack].told)
		return phases_next_of_all(p, ev);
	return phases_take(p, &p->of_stack[stack], ev, p->thread[ev->thread].passes, p->thread[ev->thread].named);
}

#endif
