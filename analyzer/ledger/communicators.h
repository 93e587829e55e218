/* SPDX-License-Identifier: MIT */
/*
 * NCCL's communicators in one process, and what each of them holds. The recorder numbers them; a function of an event
 * that belongs to one ends in ", communicator 1 of 8 ranks" (tracefmt/FORMAT.md).
 */
#ifndef VT_COMMUNICATORS_H
#define VT_COMMUNICATORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tracefmt/tracefmt.h"

struct communicator {
	uint32_t number;   /* 0: memory of NCCL that cannot be told to belong to one */
	uint32_t nr_ranks; /* 0 = not known */
	int64_t rank;      /* of this process; -1 = not known */
	uint8_t device;    /* that it was made on; TFMT_DEVICE_NONE = not known */
	uint64_t bytes;    /* whatever the maker of the list says: what it holds at some moment */
};

struct communicators {
	struct communicator *row; /* by number */
	size_t nr_rows, room;
};
void communicators_release(struct communicators *c);

/* What a function says of its communicator; false if it names none. */
bool communicator_of(const char *function, uint32_t *number, uint32_t *nr_ranks);

/*
 * The communicator of that number, added if it is not there; that of number 0 if the number cannot be right.
 * Valid until the next is added.
 */
struct communicator *communicators_row(struct communicators *c, uint32_t number);

/* An OBJECT_NEW of a communicator, with its function. */
void communicators_event(struct communicators *c, const struct tfmt_event *ev, const char *function);

/* The rank of this process in the first communicator that it shares with others: that of the job, mostly; -1: in none. */
int64_t communicators_rank(const struct communicators *c);

#endif
