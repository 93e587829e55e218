/* SPDX-License-Identifier: MIT */
/* What the files of the simulated NCCL share: the communicator, and reductions as its mailbox takes them. */
#ifndef SIMGPU_NCCL_STATE_H
#define SIMGPU_NCCL_STATE_H

#include "simgpu/mailbox.h"
#include "simgpu/nccl_absent.h"

#pragma GCC visibility push(default)
#include <nccl.h>

/* nccl.h declares these without a prototype. */
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);
#pragma GCC visibility pop

struct ncclComm {
	struct sim_mailbox *box;
	int rank, nr_ranks;
	struct nccl_presence presence;	/* the mailbox has the present ranks */
	int device;
	uint64_t taken_at_init, taken_at_use;	/* sim_take(): what NCCL would hold of the device */
	uint64_t nr_splits;		/* the same on all ranks: part of a split's identity */
	uint64_t *shrinks;		/* lists of ranks that it was shrunk by */
	size_t nr_shrinks;
	double *scales;			/* of operations made by ncclRedOpCreatePreMulSum */
	int nr_scales;
	bool is_revoked;		/* ncclCommRevoke: no operation more */
	struct nccl_window *windows;
};

/* COMM goes, and its windows with it (nccl_window.c). */
void nccl_windows_release(ncclComm_t comm);

/*
 * Take what COMM would take of its device at its first operation, if it has not yet; ncclRemoteError when a rank
 * of it was given up.
 */
ncclResult_t nccl_connect(ncclComm_t comm);

/* Whether the calling thread is between ncclGroupStart() and ncclGroupEnd(). */
bool nccl_in_group(void);

/* Bytes of one element. */
size_t nccl_type_bytes(ncclDataType_t type);

/* Post the reduction with OP of BYTES that every rank contributes, this one's at OWN, into DST. */
void nccl_reduce_into(ncclComm_t comm, void *dst, const void *own, size_t bytes, ncclDataType_t type,
		      ncclRedOp_t op);

#endif
