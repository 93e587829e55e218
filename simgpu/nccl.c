/* SPDX-License-Identifier: MIT */
/*
 * NCCL on one host, over mailboxes in shared memory.
 *
 * Collectives of at most 256 KiB a rank move real data, because programs exchange sizes, flags and pickled
 * objects that way. Larger ones move nothing: what they would carry is kernel results, which the simulation
 * does not have, and both sides know the size. Reductions of 8- and 16-bit floating point leave each rank its
 * own contribution.
 */
#include "simgpu/nccl_state.h"

#include <string.h>

/*
 * Begin an operation of COUNT elements a rank on STREAM, reading READ_BYTES at SRC: counts the launch, and
 * completes receives that SRC depends on. Returns whether data moves: not for large messages, nor while a
 * graph is captured.
 */
static bool begin(size_t bytes, const void *src, size_t read_bytes, cudaStream_t stream)
{
	bool captured = sim_capturing(stream);

	sim_launch(stream);
	if (captured || !bytes || bytes > SIM_MESSAGE_MAX)
		return false;
	if (src)
		sim_mailbox_settle(src, read_bytes);
	return true;
}

/* This rank's own part of a result. */
static void keep(void *dst, const void *src, size_t bytes)
{
	if (dst == src)
		return;
	memmove(dst, src, bytes);
	sim_dirty(dst, bytes);
}

static void *at(const void *base, int rank, size_t bytes)
{
	return (char *)(uintptr_t)base + (size_t)rank * bytes;
}

#define REQUIRE(condition)                          \
	do {                                        \
		if (!(condition))                   \
			return ncclInvalidArgument; \
	} while (0)

ncclResult_t ncclSend(const void *sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
		      cudaStream_t stream)
{
	size_t bytes = count * nccl_type_bytes(datatype);

	REQUIRE(comm && peer >= 0 && peer < comm->nr_ranks);
	if (begin(bytes, sendbuff, bytes, stream))
		sim_mailbox_send(comm->box, peer, sendbuff, bytes);
	return ncclSuccess;
}

ncclResult_t ncclRecv(void *recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
		      cudaStream_t stream)
{
	size_t bytes = count * nccl_type_bytes(datatype);

	REQUIRE(comm && peer >= 0 && peer < comm->nr_ranks);
	if (begin(bytes, NULL, 0, stream))
		sim_mailbox_receive(comm->box, peer, recvbuff, bytes);
	return ncclSuccess;
}

ncclResult_t ncclBroadcast(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
			   int root, ncclComm_t comm, cudaStream_t stream)
{
	size_t bytes = count * nccl_type_bytes(datatype);

	REQUIRE(comm && root >= 0 && root < comm->nr_ranks);
	if (!begin(bytes, comm->rank == root ? sendbuff : NULL, bytes, stream))
		return ncclSuccess;
	if (comm->rank != root) {
		sim_mailbox_receive(comm->box, root, recvbuff, bytes);
		return ncclSuccess;
	}
	for (int peer = 0; peer < comm->nr_ranks; peer++)
		if (peer != root)
			sim_mailbox_send(comm->box, peer, sendbuff, bytes);
	keep(recvbuff, sendbuff, bytes);
	return ncclSuccess;
}

ncclResult_t ncclBcast(void *buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
		       cudaStream_t stream)
{
	return ncclBroadcast(buff, buff, count, datatype, root, comm, stream);
}

/* Send this rank's BYTES at SRC, or the part of them that is a peer's, to every other rank. */
static void send_all(ncclComm_t comm, const void *src, size_t bytes, bool parts)
{
	for (int peer = 0; peer < comm->nr_ranks; peer++)
		if (peer != comm->rank)
			sim_mailbox_send(comm->box, peer, parts ? at(src, peer, bytes) : src, bytes);
}

/* Receive BYTES from every other rank, in order of rank, into DST. */
static void receive_all(ncclComm_t comm, void *dst, size_t bytes)
{
	for (int peer = 0; peer < comm->nr_ranks; peer++)
		if (peer != comm->rank)
			sim_mailbox_receive(comm->box, peer, at(dst, peer, bytes), bytes);
}

ncclResult_t ncclAllReduce(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
			   ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
	size_t bytes = count * nccl_type_bytes(datatype);

	REQUIRE(comm);
	if (!begin(bytes, sendbuff, bytes, stream))
		return ncclSuccess;
	if (!nccl_type_is_reduced(datatype)) {
		keep(recvbuff, sendbuff, bytes);
		return ncclSuccess;
	}
	send_all(comm, sendbuff, bytes, false);
	nccl_reduce_into(comm, recvbuff, sendbuff, bytes, datatype, op);
	return ncclSuccess;
}

ncclResult_t ncclReduce(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
			ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream)
{
	size_t bytes = count * nccl_type_bytes(datatype);

	REQUIRE(comm && root >= 0 && root < comm->nr_ranks);
	if (!begin(bytes, sendbuff, bytes, stream))
		return ncclSuccess;
	if (!nccl_type_is_reduced(datatype)) {
		if (comm->rank == root)
			keep(recvbuff, sendbuff, bytes);
	} else if (comm->rank == root) {
		nccl_reduce_into(comm, recvbuff, sendbuff, bytes, datatype, op);
	} else {
		sim_mailbox_send(comm->box, root, sendbuff, bytes);
	}
	return ncclSuccess;
}

ncclResult_t ncclReduceScatter(const void *sendbuff, void *recvbuff, size_t recvcount,
			       ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
	size_t bytes = recvcount * nccl_type_bytes(datatype);

	REQUIRE(comm);
	if (!begin(bytes, sendbuff, bytes * (size_t)comm->nr_ranks, stream))
		return ncclSuccess;
	if (!nccl_type_is_reduced(datatype)) {
		keep(recvbuff, at(sendbuff, comm->rank, bytes), bytes);
		return ncclSuccess;
	}
	send_all(comm, sendbuff, bytes, true);
	nccl_reduce_into(comm, recvbuff, at(sendbuff, comm->rank, bytes), bytes, datatype, op);
	return ncclSuccess;
}

ncclResult_t ncclAllGather(const void *sendbuff, void *recvbuff, size_t sendcount, ncclDataType_t datatype,
			   ncclComm_t comm, cudaStream_t stream)
{
	size_t bytes = sendcount * nccl_type_bytes(datatype);

	REQUIRE(comm);
	if (!begin(bytes, sendbuff, bytes, stream))
		return ncclSuccess;
	send_all(comm, sendbuff, bytes, false);
	keep(at(recvbuff, comm->rank, bytes), sendbuff, bytes);
	receive_all(comm, recvbuff, bytes);
	return ncclSuccess;
}

ncclResult_t ncclAlltoAll(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
			  ncclComm_t comm, cudaStream_t stream)
{
	size_t bytes = count * nccl_type_bytes(datatype);

	REQUIRE(comm);
	if (!begin(bytes, sendbuff, bytes * (size_t)comm->nr_ranks, stream))
		return ncclSuccess;
	send_all(comm, sendbuff, bytes, true);
	keep(at(recvbuff, comm->rank, bytes), at(sendbuff, comm->rank, bytes), bytes);
	receive_all(comm, recvbuff, bytes);
	return ncclSuccess;
}

ncclResult_t ncclGather(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root,
			ncclComm_t comm, cudaStream_t stream)
{
	size_t bytes = count * nccl_type_bytes(datatype);

	REQUIRE(comm && root >= 0 && root < comm->nr_ranks);
	if (!begin(bytes, sendbuff, bytes, stream))
		return ncclSuccess;
	if (comm->rank != root) {
		sim_mailbox_send(comm->box, root, sendbuff, bytes);
		return ncclSuccess;
	}
	keep(at(recvbuff, root, bytes), sendbuff, bytes);
	receive_all(comm, recvbuff, bytes);
	return ncclSuccess;
}

ncclResult_t ncclScatter(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
			 int root, ncclComm_t comm, cudaStream_t stream)
{
	size_t bytes = count * nccl_type_bytes(datatype);
	bool is_root;

	REQUIRE(comm && root >= 0 && root < comm->nr_ranks);
	is_root = comm->rank == root;
	if (!begin(bytes, is_root ? sendbuff : NULL, bytes * (size_t)comm->nr_ranks, stream))
		return ncclSuccess;
	if (!is_root) {
		sim_mailbox_receive(comm->box, root, recvbuff, bytes);
		return ncclSuccess;
	}
	send_all(comm, sendbuff, bytes, true);
	keep(recvbuff, at(sendbuff, root, bytes), bytes);
	return ncclSuccess;
}
