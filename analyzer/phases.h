/* SPDX-License-Identifier: MIT */
/*
 * What part of training an event belongs to.
 *
 * Backward is known exactly: autograd's engine and its nodes are recorded. Forward, optimizer and the
 * building of the model are told by the innermost Python frame that is one of PyTorch's for it (phases.c
 * has the table): code that uses torch.nn or torch.optim, also through other libraries. Else forward is
 * what makes autograd nodes. An optimizer's step may call a closure for the loss: that is not the optimizer's
 * work. What nothing tells is `init` before the first forward or backward, `other`
 * behind.
 */
#ifndef VT_PHASES_H
#define VT_PHASES_H

#include "tracefmt/tracefmt.h"

enum phase { PHASE_OTHER, PHASE_INIT, PHASE_FORWARD, PHASE_BACKWARD, PHASE_OPTIMIZER, NR_PHASES };

/* "other", "init", "forward", "backward", "optimizer". */
extern const char *const phase_names[NR_PHASES];

/* Of one process. Zero it but for the reader. */
struct phases {
	const struct tfmt_reader *reader;
	uint8_t *of_stack;  /* by Python stack id: enum phase + 1 as its frames tell it, 0 = not known yet */
	uint32_t nr_stacks;
	uint32_t *passes;   /* by thread: how many backward passes it is in */
	uint32_t nr_threads;
	bool has_begun;     /* a forward or backward has been seen */
	bool is_update;     /* the event is an optimizer's own, at work on parameters: no zero_grad, no clipping */
};

/*
 * The phase of the next event: call it with each, in their order. Without memory it knows less, and never
 * fails.
 */
enum phase phases_next(struct phases *p, const struct tfmt_event *ev);

/* Events are missing before the next: who is in backward is not known any more. */
void phases_damaged(struct phases *p);
void phases_release(struct phases *p);

#endif
