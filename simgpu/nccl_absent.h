/* SPDX-License-Identifier: MIT */
/*
 * Communicators of which only some ranks run: SIMGPU_RANKS names the ranks of a large job that are processes
 * here.
 *
 * The named ranks are *present*, all others *absent*. The *stand-in* of a communicator is its lowest present
 * rank. Absent ranks are assumed alike: where a collective brings data of an absent rank, it brings the
 * stand-in's, so that all present ranks see the same. Present ranks exchange real data; their mailbox has only
 * them, each at its *place*.
 *
 * Which ranks of a communicator are present NCCL cannot know: it sees neither the job's ranks nor groups. The
 * hook in PyTorch (python/simgpu_ranks) says it in the communicator's configuration, in netName, which
 * means nothing else here: "simgpu:SIZE:RANK,RANK...[:PEER]", SIZE ranks of which those listed are present;
 * PEER is 1 when the other rank of a communicator for two, made for a lone send or receive, is present.
 */
#ifndef SIMGPU_NCCL_ABSENT_H
#define SIMGPU_NCCL_ABSENT_H

#include <stdbool.h>
#include <stddef.h>

#pragma GCC visibility push(default)
#include <nccl.h>
#pragma GCC visibility pop

/* Who of a communicator is present. */
struct nccl_presence {
	int nr_present;
	int stand_in;
	int *place;			/* by rank: rank in the mailbox, -1 = absent; NULL: all are present */
	int *present;			/* the present ranks in their order; NULL: all are present */
};

/*
 * Fill P for a communicator of NR_RANKS, of which the caller is RANK. CONFIG may be NULL: then the communicator
 * of all ranks of the job has the named ones, and of any other the caller alone is present.
 */
void nccl_presence_init(struct nccl_presence *p, int nr_ranks, int rank, const ncclConfig_t *config);
void nccl_presence_release(struct nccl_presence *p);

/* The mailbox rank of RANK, or -1 when it is absent. */
static inline int nccl_place(const struct nccl_presence *p, int rank)
{
	return p->place ? p->place[rank] : rank;
}

/* ROOT, or the stand-in when it is absent. */
static inline int nccl_root(const struct nccl_presence *p, int root)
{
	return nccl_place(p, root) < 0 ? p->stand_in : root;
}

/* The size that CONFIG states for the communicator to be made, or 0. */
int nccl_stated_size(const ncclConfig_t *config);

/*
 * Send BYTES at SRC to rank PEER of COMM, or receive into DST; with an absent peer nothing happens, but in an
 * exchange of all with all (a group in which the caller also sends to itself) its message is the caller's own.
 */
void nccl_send(ncclComm_t comm, int peer, const void *src, size_t bytes);
void nccl_receive(ncclComm_t comm, int peer, void *dst, size_t bytes);

/*
 * Post the receive of BYTES from every rank of COMM, the caller's own at OWN, into DST in order of rank: those
 * of absent ranks are copies of the stand-in's.
 */
void nccl_receive_all(ncclComm_t comm, void *dst, const void *own, size_t bytes);

/* The calling thread's group is complete: what nccl_receive() has put off is done. */
void nccl_group_complete(void);

#endif
