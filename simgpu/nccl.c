/* SPDX-License-Identifier: MIT */
/*
 * NCCL on one host, over mailboxes in shared memory.
 *
 * Collectives of at most 256 KiB a rank move real data, because programs exchange sizes, flags and pickled
 * objects that way. Larger ones move nothing: what they would carry is kernel results, which the simulation
 * does not have, and both sides know the size.
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
	sim_known_copy(dst, src, bytes);
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

/* The first operation of a communicator takes memory. */
#define CONNECT(comm)                                      \
	do {                                               \
		ncclResult_t connected = nccl_connect(comm); \
                                                           \
		if (connected != ncclSuccess)              \
			return connected;                  \
	} while (0)

ncclResult_t ncclSend(const void *sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
		      cudaStream_t stream)
{
	size_t bytes = count * nccl_type_bytes(datatype);

	REQUIRE(comm && peer >= 0 && peer < comm->nr_ranks);
	CONNECT(comm);
	if (begin(bytes, sendbuff, bytes, stream))
		nccl_send(comm, peer, sendbuff, bytes);
	return ncclSuccess;
}

ncclResult_t ncclRecv(void *recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
		      cudaStream_t stream)
{
	size_t bytes = count * nccl_type_bytes(datatype);

	REQUIRE(comm && peer >= 0 && peer < comm->nr_ranks);
	CONNECT(comm);
	if (begin(bytes, NULL, 0, stream))
		nccl_receive(comm, peer, recvbuff, bytes);
	return ncclSuccess;
}

ncclResult_t ncclBroadcast(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
			   int root, ncclComm_t comm, cudaStream_t stream)
{
	size_t bytes = count * nccl_type_bytes(datatype);

	REQUIRE(comm && root >= 0 && root < comm->nr_ranks);
	CONNECT(comm);
	if (comm->rank != root)
		sendbuff = recvbuff;	/* all that a stand-in for the root has */
	root = nccl_root(&comm->presence, root);
	if (!begin(bytes, comm->rank == root ? sendbuff : NULL, bytes, stream))
		return ncclSuccess;
	if (comm->rank != root) {
		nccl_receive(comm, root, recvbuff, bytes);
		return ncclSuccess;
	}
	for (int peer = 0; peer < comm->nr_ranks; peer++)
		if (peer != root)
			nccl_send(comm, peer, sendbuff, bytes);
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
			nccl_send(comm, peer, parts ? at(src, peer, bytes) : src, bytes);
}

/* Receive BYTES from every other rank, in order of rank, into DST, which gets this rank's own at OWN. */
static void receive_all(ncclComm_t comm, void *dst, const void *own, size_t bytes)
{
	if (comm->presence.place) {
		nccl_receive_all(comm, dst, own, bytes);
		return;
	}
	keep(at(dst, comm->rank, bytes), own, bytes);
	for (int peer = 0; peer < comm->nr_ranks; peer++)
		if (peer != comm->rank)
			nccl_receive(comm, peer, at(dst, peer, bytes), bytes);
}

ncclResult_t ncclAllReduce(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
			   ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
	size_t bytes = count * nccl_type_bytes(datatype);

	REQUIRE(comm);
	CONNECT(comm);
	if (!begin(bytes, sendbuff, bytes, stream))
		return ncclSuccess;
	send_all(comm, sendbuff, bytes, false);
	nccl_reduce_into(comm, recvbuff, sendbuff, bytes, datatype, op);
	return ncclSuccess;
}

ncclResult_t ncclReduce(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
			ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream)
{
	size_t bytes = count * nccl_type_bytes(datatype);

	REQUIRE(comm && root >= 0 && root < comm->nr_ranks);
	CONNECT(comm);
	if (!begin(bytes, sendbuff, bytes, stream))
		return ncclSuccess;
	if (comm->rank == root)
		nccl_reduce_into(comm, recvbuff, sendbuff, bytes, datatype, op);
	else
		nccl_send(comm, root, sendbuff, bytes);
	return ncclSuccess;
}

ncclResult_t ncclReduceScatter(const void *sendbuff, void *recvbuff, size_t recvcount,
			       ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
	size_t bytes = recvcount * nccl_type_bytes(datatype);

	REQUIRE(comm);
	CONNECT(comm);
	if (!begin(bytes, sendbuff, bytes * (size_t)comm->nr_ranks, stream))
		return ncclSuccess;
	send_all(comm, sendbuff, bytes, true);
	nccl_reduce_into(comm, recvbuff, at(sendbuff, comm->rank, bytes), bytes, datatype, op);
	return ncclSuccess;
}

ncclResult_t ncclAllGather(const void *sendbuff, void *recvbuff, size_t sendcount, ncclDataType_t datatype,
			   ncclComm_t comm, cudaStream_t stream)
{
	size_t bytes = sendcount * nccl_type_bytes(datatype);

	REQUIRE(comm);
	CONNECT(comm);
	if (!begin(bytes, sendbuff, bytes, stream))
		return ncclSuccess;
	send_all(comm, sendbuff, bytes, false);
	receive_all(comm, recvbuff, sendbuff, bytes);
	return ncclSuccess;
}

/* Receive from every other rank its part of BYTES for this one; what absent ranks have for us is as our own. */
static void exchange(ncclComm_t comm, void *dst, const void *own, size_t bytes)
{
	for (int peer = 0; peer < comm->nr_ranks; peer++)
		if (peer == comm->rank || nccl_place(&comm->presence, peer) < 0)
			keep(at(dst, peer, bytes), own, bytes);
		else
			nccl_receive(comm, peer, at(dst, peer, bytes), bytes);
}

ncclResult_t ncclAlltoAll(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
			  ncclComm_t comm, cudaStream_t stream)
{
	size_t bytes = count * nccl_type_bytes(datatype);

	REQUIRE(comm);
	CONNECT(comm);
	if (!begin(bytes, sendbuff, bytes * (size_t)comm->nr_ranks, stream))
		return ncclSuccess;
	send_all(comm, sendbuff, bytes, true);
	exchange(comm, recvbuff, at(sendbuff, comm->rank, bytes), bytes);
	return ncclSuccess;
}

ncclResult_t ncclGather(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root,
			ncclComm_t comm, cudaStream_t stream)
{
	size_t bytes = count * nccl_type_bytes(datatype);

	REQUIRE(comm && root >= 0 && root < comm->nr_ranks);
	CONNECT(comm);
	if (!begin(bytes, sendbuff, bytes, stream))
		return ncclSuccess;
	if (comm->rank != root) {
		nccl_send(comm, root, sendbuff, bytes);
		return ncclSuccess;
	}
	receive_all(comm, recvbuff, sendbuff, bytes);
	return ncclSuccess;
}

ncclResult_t ncclScatter(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
			 int root, ncclComm_t comm, cudaStream_t stream)
{
	size_t bytes = count * nccl_type_bytes(datatype);
	bool is_root;

	REQUIRE(comm && root >= 0 && root < comm->nr_ranks);
	CONNECT(comm);
	is_root = comm->rank == root;
	if (!begin(bytes, is_root ? sendbuff : NULL, bytes * (size_t)comm->nr_ranks, stream))
		return ncclSuccess;
	if (!is_root) {
		nccl_receive(comm, root, recvbuff, bytes);
		return ncclSuccess;
	}
	send_all(comm, sendbuff, bytes, true);
	keep(recvbuff, at(sendbuff, root, bytes), bytes);
	return ncclSuccess;
}
