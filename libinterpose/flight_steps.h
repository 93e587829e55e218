/* SPDX-License-Identifier: MIT */
/*
 * Steps of training, as far as the recorder can see them: a step begins with the first backward pass after what an
 * optimizer did (allocated or freed on a stack with a frame of torch.optim). Where none is ever seen, each backward
 * pass is one. Drain thread only.
 */
#ifndef IP_FLIGHT_STEPS_H
#define IP_FLIGHT_STEPS_H

#include <stdbool.h>
#include <stdint.h>

#include "tracefmt/tracefmt.h"

struct steps {
	uint64_t nr, passes;  /* steps by optimizers, outermost backward passes */
	bool has_optimized;   /* an optimizer was seen since the latest step began */
	bool knows_optimizer; /* an optimizer was seen at any time */
	uint64_t *code, *stack; /* by id, a bit: code of an optimizer; stacks that go through it */
};

/* False without memory. */
bool steps_begin(struct steps *s);
void steps_end(struct steps *s);

/* Each definition and event, in their order. */
void steps_define(struct steps *s, uint32_t type, uint32_t id, const uint8_t *payload, size_t len);
void steps_event(struct steps *s, const struct tfmt_event *ev);

/* How many have begun. */
uint64_t steps_number(const struct steps *s);

#endif
