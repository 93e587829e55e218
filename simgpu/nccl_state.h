/* SPDX-License-Identifier: MIT */
/* What the files of the simulated NCCL share: the communicator, and reductions as its mailbox takes them. */
#ifndef SIMGPU_NCCL_STATE_H
#define SIMGPU_NCCL_STATE_H

#include "simgpu/mailbox.h"

#pragma GCC visibility push(default)
#include <nccl.h>

/* nccl.h declares these without a prototype. */
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);
#pragma GCC visibility pop

struct ncclComm {
	struct sim_mailbox *box;
	int rank, nr_ranks;
	int device;
	uint64_t nr_splits;		/* the same on all ranks: part of a split's identity */
	double *scales;			/* of operations made by ncclRedOpCreatePreMulSum */
	int nr_scales;
};

/* Bytes of one element. */
size_t nccl_type_bytes(ncclDataType_t type);

/* Whether elements of TYPE are combined at all: not floating point of 8 and 16 bits. */
bool nccl_type_is_reduced(ncclDataType_t type);

/* Post the reduction with OP of BYTES that every rank contributes, this one's at OWN, into DST. */
void nccl_reduce_into(ncclComm_t comm, void *dst, const void *own, size_t bytes, ncclDataType_t type,
		      ncclRedOp_t op);

#endif
