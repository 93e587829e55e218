/* SPDX-License-Identifier: MIT */
/*
 * Messages between the ranks of a simulated NCCL communicator: a ring in shared memory for each ordered pair.
 *
 * Nothing blocks in the call that starts it. A send copies its data at once and goes out as the ring has
 * room; a receive is *posted* and completes at a host synchronisation, when somebody reads its destination,
 * or as soon as anything looks. Blocking earlier would deadlock legal programs, which post receives before
 * the matching sends.
 *
 * Messages of one pair arrive in order, and each receive takes exactly one. All ranks must be on one host.
 * Every function may be called from any thread.
 */
#ifndef SIMGPU_MAILBOX_H
#define SIMGPU_MAILBOX_H

#include "simgpu/simgpu.h"

/* Larger messages are for NCCL's caller to leave out on both sides: their content would be kernel results. */
#define SIM_MESSAGE_MAX SIM_KIB(256)

struct sim_mailbox;

/* Combines what all ranks contributed, the contribution of rank i at ALL + i * BYTES, into DST. */
typedef void sim_combine_fn(void *dst, const void *all, size_t bytes, int nr_ranks, uint64_t how);

/*
 * Rank RANK's end of mailbox ID, which NR_RANKS processes (or threads) share. sim_mailbox_join() is its
 * barrier.
 */
struct sim_mailbox *sim_mailbox_open(uint64_t id, int nr_ranks, int rank);

/*
 * Wait until all ranks have opened the mailbox; false when one of them has ended or the time below is over. Its
 * name disappears when all have: a crash later leaves nothing behind.
 */
bool sim_mailbox_join(struct sim_mailbox *box);

/*
 * Whether a wait for a message of BOX was given up: its sender had ended, or had let us wait for
 * SIMGPU_NCCL_TIMEOUT seconds (default 600, as PyTorch's process groups have it). What was waited for stays
 * unwritten.
 */
bool sim_mailbox_failed(const struct sim_mailbox *box);

/* Let go of BOX; if FLUSH, wait (for a while) for what is still under way, else drop it. */
void sim_mailbox_close(struct sim_mailbox *box, bool flush);

int sim_mailbox_rank(const struct sim_mailbox *box);
int sim_mailbox_nr_ranks(const struct sim_mailbox *box);
uint64_t sim_mailbox_id(const struct sim_mailbox *box);

/*
 * Call the ranks of BOX, in messages to the user, NAMES[rank] of NR: the caller's array, kept until the mailbox is
 * closed.
 */
void sim_mailbox_name(struct sim_mailbox *box, const int *names, int nr);

/* Send BYTES (at most SIM_MESSAGE_MAX) at SRC to rank PEER. */
void sim_mailbox_send(struct sim_mailbox *box, int peer, const void *src, size_t bytes);

/* Post the receive of BYTES from rank PEER into device memory at DST. */
void sim_mailbox_receive(struct sim_mailbox *box, int peer, void *dst, size_t bytes);

/* Receive BYTES from rank PEER into host memory at DST, and wait for them; false when they do not come. */
bool sim_mailbox_receive_now(struct sim_mailbox *box, int peer, void *dst, size_t bytes);

/*
 * Post a reduction: this rank contributes BYTES at OWN, every other rank sends as much, and when all is there
 * COMBINE writes DST_BYTES of device memory at DST. Contributions are combined in order of rank, so that all
 * ranks compute the same to the last bit.
 */
void sim_mailbox_reduce(struct sim_mailbox *box, void *dst, size_t dst_bytes, const void *own, size_t bytes,
			sim_combine_fn *combine, uint64_t how);

/*
 * Complete every posted receive that overlaps [P, P + BYTES), waiting for it, except those posted since
 * sim_mailbox_group_begin() on this thread: within a group nothing depends on anything.
 */
void sim_mailbox_settle(const void *p, size_t bytes);
void sim_mailbox_group_begin(void);
void sim_mailbox_group_end(void);

#endif
