/* SPDX-License-Identifier: MIT */
/*
 * The shared memory of a mailbox: a ring for each ordered pair of ranks, found by name, gone once all have
 * joined.
 */
#ifndef SIMGPU_MAILBOX_RING_H
#define SIMGPU_MAILBOX_RING_H

#include <sys/types.h>

#include "simgpu/mailbox.h"

struct sim_mailbox {
	uint64_t id;
	int nr_ranks, rank;
	const int *names;		/* what messages to the user call the ranks; NULL: as they are */
	int nr_named;
	pid_t pid;			/* a fork child inherits the mailbox but is no rank */
	struct mailbox_shared *shared;
	size_t shared_bytes;
	char name[48];
	bool *is_populated;		/* by peer: the ring to it has its memory */
	bool is_failed;			/* sim_mailbox_failed() */
	struct sim_mailbox *next;
};

/* Map the shared memory of BOX, whose identity is filled in, creating it if this rank is the first. */
void mailbox_attach(struct sim_mailbox *box);
void mailbox_detach(struct sim_mailbox *box);

/* How many ranks have attached. */
int mailbox_nr_joined(const struct sim_mailbox *box);

/*
 * Whether rank PEER has detached or its process has ended: what it sent is in its ring, and no more will come.
 * False for one that has not attached yet. Takes some ten microseconds.
 */
bool mailbox_has_ended(const struct sim_mailbox *box, int peer);

/* Remove the name of BOX if not all ranks have attached; else it is gone already. */
void mailbox_unlink(struct sim_mailbox *box);

/*
 * Put a message for PEER into its ring; false when there is no room yet. Callers hold one lock for all
 * mailboxes.
 */
bool mailbox_push(struct sim_mailbox *box, int peer, const void *data, size_t bytes);

/*
 * Take the next message from PEER, if there is one, into DATA (NULL: drop it). Of a message longer than BYTES
 * the rest is dropped, so that a program's mismatched sizes do not put all later messages out of step.
 */
bool mailbox_pull(struct sim_mailbox *box, int peer, void *data, size_t bytes);

#endif
