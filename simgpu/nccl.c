/* SPDX-License-Identifier: MIT */
/*
 * NCCL on one host, over mailboxes in shared memory.
 *
 * Collectives of at most 256 KiB a rank move real data, because programs exchange sizes, flags and pickled objects
 * that way. Larger ones move nothing: what they would carry is kernel results, which the simulation does not have,
 * and both sides know the size. Reductions of 8- and 16-bit floating point leave each rank its own contribution.
 */
#include "simgpu/driver_table.h"
#include "simgpu/mailbox.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#pragma GCC visibility push(default)
#include <nccl.h>
#pragma GCC visibility pop

struct ncclComm {
	struct sim_mailbox *box;
	int rank, nr_ranks;
	int device;
	uint64_t nr_splits;		/* the same on all ranks: part of a split's identity */
	double *scales;			/* of operations made by ncclRedOpCreatePreMulSum */
	int nr_scales;
};

/* nccl.h declares these without a prototype. */
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);

static __thread int group_depth;

/* ---- communicators --------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t a, uint64_t b)
{
	a ^= b + 0x9e3779b97f4a7c15u + (a << 6) + (a >> 2);
	a *= 0xff51afd7ed558ccdu;
	return a ^ a >> 33;
}

/*
 * The real call returns when all ranks are there, so this one does. In a group one thread opens several ranks, and
 * nobody could wait there.
 */
static ncclResult_t comm_new(ncclComm_t *comm, uint64_t id, int nr_ranks, int rank, bool join)
{
	if (!comm || nr_ranks < 1 || rank < 0 || rank >= nr_ranks)
		return ncclInvalidArgument;
	*comm = sim_zalloc(sizeof(**comm));
	(*comm)->rank = rank;
	(*comm)->nr_ranks = nr_ranks;
	(*comm)->device = sim_device();
	(*comm)->box = sim_mailbox_open(id, nr_ranks, rank);
	if (join && !group_depth)
		sim_mailbox_join((*comm)->box);
	return ncclSuccess;
}

static ncclResult_t comm_free(ncclComm_t comm, bool flush)
{
	if (!comm)
		return ncclInvalidArgument;
	sim_mailbox_close(comm->box, flush);
	free(comm->scales);
	free(comm);
	return ncclSuccess;
}

static uint64_t unique_id(const ncclUniqueId *id)
{
	uint64_t value;

	memcpy(&value, id->internal, sizeof(value));
	return value;
}

ncclResult_t ncclGetVersion(int *version)
{
	if (!version)
		return ncclInvalidArgument;
	*version = NCCL_VERSION_CODE;
	return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *uniqueId)
{
	if (!uniqueId)
		return ncclInvalidArgument;
	memset(uniqueId, 0, sizeof(*uniqueId));
	return getrandom(uniqueId->internal, sizeof(uint64_t), 0) == sizeof(uint64_t) ? ncclSuccess : ncclSystemError;
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank)
{
	return comm_new(comm, unique_id(&commId), nranks, rank, true);
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank,
				    ncclConfig_t *config)
{
	(void)config;
	return ncclCommInitRank(comm, nranks, commId, rank);
}

ncclResult_t ncclCommInitRankScalable(ncclComm_t *newcomm, int nranks, int myrank, int nId, ncclUniqueId *commIds,
				      ncclConfig_t *config)
{
	(void)config;
	if (nId < 1 || !commIds)
		return ncclInvalidArgument;
	return ncclCommInitRank(newcomm, nranks, commIds[0], myrank);
}

ncclResult_t ncclCommInitAll(ncclComm_t *comm, int ndev, const int *devlist)
{
	ncclUniqueId id;
	ncclResult_t result = ncclGetUniqueId(&id);

	for (int rank = 0; rank < ndev && result == ncclSuccess; rank++) {
		result = comm_new(&comm[rank], unique_id(&id), ndev, rank, false);
		if (result == ncclSuccess)
			comm[rank]->device = devlist ? devlist[rank] : rank;
	}
	return result;
}

/* All ranks tell each other their colour and key; those of one colour form a communicator, in order of key. */
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *newcomm, ncclConfig_t *config)
{
	struct choice {
		int color, key;
	} mine = { color, key }, *all;
	int nr_ranks = 0, rank = 0;
	uint64_t id;

	(void)config;
	if (!comm || !newcomm)
		return ncclInvalidArgument;
	all = sim_zalloc(sizeof(*all) * (size_t)comm->nr_ranks);
	for (int peer = 0; peer < comm->nr_ranks; peer++)
		sim_mailbox_send(comm->box, peer, &mine, sizeof(mine));
	for (int peer = 0; peer < comm->nr_ranks; peer++)
		sim_mailbox_receive_now(comm->box, peer, &all[peer], sizeof(mine));
	for (int peer = 0; peer < comm->nr_ranks; peer++) {
		if (all[peer].color != color)
			continue;
		nr_ranks++;
		rank += all[peer].key < key || (all[peer].key == key && peer < comm->rank);
	}
	free(all);
	id = mix(mix(sim_mailbox_id(comm->box), ++comm->nr_splits), (uint64_t)color);
	*newcomm = NULL;
	if (color == NCCL_SPLIT_NOCOLOR)
		return ncclSuccess;
	return comm_new(newcomm, id, nr_ranks, rank, true);
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
	return comm ? ncclSuccess : ncclInvalidArgument;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
	return comm_free(comm, true);
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
	return comm_free(comm, false);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *asyncError)
{
	if (!comm || !asyncError)
		return ncclInvalidArgument;
	*asyncError = ncclSuccess;
	return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int *count)
{
	if (!comm)
		return ncclInvalidArgument;
	*count = comm->nr_ranks;
	return ncclSuccess;
}

ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *device)
{
	if (!comm)
		return ncclInvalidArgument;
	*device = comm->device;
	return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank)
{
	if (!comm)
		return ncclInvalidArgument;
	*rank = comm->rank;
	return ncclSuccess;
}

/* A buffer that needs no registration: the documented handle for it is NULL. */
ncclResult_t ncclCommRegister(const ncclComm_t comm, void *buff, size_t size, void **handle)
{
	(void)buff, (void)size;
	if (!comm || !handle)
		return ncclInvalidArgument;
	*handle = NULL;
	return ncclSuccess;
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *handle)
{
	(void)handle;
	return comm ? ncclSuccess : ncclInvalidArgument;
}

const char *ncclGetErrorString(ncclResult_t result)
{
	switch (result) {
	case ncclSuccess:
		return "no error";
	case ncclUnhandledCudaError:
		return "unhandled cuda error";
	case ncclSystemError:
		return "unhandled system error";
	case ncclInternalError:
		return "internal error";
	case ncclInvalidArgument:
		return "invalid argument";
	case ncclInvalidUsage:
		return "invalid usage (or not simulated)";
	case ncclRemoteError:
		return "remote process exited or there was a network error";
	case ncclInProgress:
		return "NCCL operation in progress";
	default:
		return "unknown result code";
	}
}

const char *ncclGetLastError(ncclComm_t comm)
{
	(void)comm;
	return "";
}

ncclResult_t ncclMemAlloc(void **ptr, size_t size)
{
	CUdeviceptr p = 0;

	if (!ptr)
		return ncclInvalidArgument;
	if (sim_driver()->cuMemAlloc_v2(&p, size) != CUDA_SUCCESS)
		return ncclUnhandledCudaError;
	*ptr = (void *)(uintptr_t)p;
	return ncclSuccess;
}

ncclResult_t ncclMemFree(void *ptr)
{
	if (ptr && sim_driver()->cuMemFree_v2((CUdeviceptr)(uintptr_t)ptr) != CUDA_SUCCESS)
		return ncclUnhandledCudaError;
	return ncclSuccess;
}

ncclResult_t ncclGroupStart(void)
{
	if (!group_depth++)
		sim_mailbox_group_begin();
	return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
	if (!group_depth)
		return ncclInvalidUsage;
	if (!--group_depth)
		sim_mailbox_group_end();
	return ncclSuccess;
}

/* ---- reductions ---------------------------------------------------------------------------------------- */

static size_t type_bytes(ncclDataType_t type)
{
	switch (type) {
	case ncclInt64:
	case ncclUint64:
	case ncclFloat64:
		return 8;
	case ncclInt32:
	case ncclUint32:
	case ncclFloat32:
		return 4;
	case ncclFloat16:
	case ncclBfloat16:
		return 2;
	default:
		return 1;
	}
}

static bool type_is_reduced(ncclDataType_t type)
{
	return type != ncclFloat16 && type != ncclBfloat16 && type != ncclFloat8e4m3 && type != ncclFloat8e5m2;
}

/* How to combine, in one word for the mailbox: element type, operation, and a factor for every contribution. */
static uint64_t how_of(ncclDataType_t type, ncclRedOp_t op, float scale)
{
	uint32_t bits;

	memcpy(&bits, &scale, sizeof(bits));
	return (uint64_t)bits << 32 | (uint64_t)op << 8 | (uint64_t)type;
}

#define COMBINE(element_t)                                                                     \
	do {                                                                                   \
		element_t *out = dst;                                                          \
		for (size_t i = 0; i < bytes / sizeof(element_t); i++) {                       \
			const element_t *in = (const element_t *)all + i;                      \
			size_t step = bytes / sizeof(element_t);                               \
			element_t value = scale == 1 ? *in : (element_t)(*in * scale);         \
			for (int rank = 1; rank < nr_ranks; rank++) {                          \
				element_t other = in[step * (size_t)rank];                     \
				if (scale != 1)                                                \
					other = (element_t)(other * scale);                    \
				value = op == ncclMax  ? (value > other ? value : other)       \
					: op == ncclMin  ? (value < other ? value : other)     \
					: op == ncclProd ? (element_t)(value * other)          \
							 : (element_t)(value + other);         \
			}                                                                      \
			out[i] = op == ncclAvg ? (element_t)(value / nr_ranks) : value;        \
		}                                                                              \
	} while (0)

static void combine(void *dst, const void *all, size_t bytes, int nr_ranks, uint64_t how)
{
	uint32_t bits = (uint32_t)(how >> 32);
	ncclRedOp_t op = (ncclRedOp_t)(how >> 8 & 0xff);
	float scale;

	memcpy(&scale, &bits, sizeof(scale));
	switch ((ncclDataType_t)(how & 0xff)) {
	case ncclInt8:
		COMBINE(int8_t);
		break;
	case ncclUint8:
		COMBINE(uint8_t);
		break;
	case ncclInt32:
		COMBINE(int32_t);
		break;
	case ncclUint32:
		COMBINE(uint32_t);
		break;
	case ncclInt64:
		COMBINE(int64_t);
		break;
	case ncclUint64:
		COMBINE(uint64_t);
		break;
	case ncclFloat32:
		COMBINE(float);
		break;
	case ncclFloat64:
		COMBINE(double);
		break;
	default:
		break;
	}
}

/* OP as a built-in operation and the factor that precedes it. */
static ncclRedOp_t resolve(ncclComm_t comm, ncclRedOp_t op, float *scale)
{
	int custom = (int)op - (int)ncclNumOps;

	*scale = 1;
	if (custom < 0)
		return op;
	if (custom < comm->nr_scales)
		*scale = (float)comm->scales[custom];
	return ncclSum;
}

/* A factor in device memory is a kernel's result and reads 0 there: such a sum is taken unscaled. */
ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t datatype,
				      ncclScalarResidence_t residence, ncclComm_t comm)
{
	double scale = 1;

	if (!op || !scalar || !comm)
		return ncclInvalidArgument;
	if (residence == ncclScalarHostImmediate && datatype == ncclFloat32)
		scale = *(const float *)scalar;
	else if (residence == ncclScalarHostImmediate && datatype == ncclFloat64)
		scale = *(const double *)scalar;
	comm->scales = sim_realloc(comm->scales, sizeof(*comm->scales) * (size_t)(comm->nr_scales + 1));
	comm->scales[comm->nr_scales] = scale;
	*op = (ncclRedOp_t)((int)ncclNumOps + comm->nr_scales++);
	return ncclSuccess;
}

/* Numbers are not reused, and a program makes few. */
ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm)
{
	return comm && (int)op >= (int)ncclNumOps ? ncclSuccess : ncclInvalidArgument;
}

/* ---- operations ------------------------------------------------------------------------------------------ */

/*
 * Begin an operation of COUNT elements a rank on STREAM, reading READ_BYTES at SRC: counts the launch, and completes
 * receives that SRC depends on. Returns whether data moves: not for large messages, nor while a graph is captured.
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
	size_t bytes = count * type_bytes(datatype);

	REQUIRE(comm && peer >= 0 && peer < comm->nr_ranks);
	if (begin(bytes, sendbuff, bytes, stream))
		sim_mailbox_send(comm->box, peer, sendbuff, bytes);
	return ncclSuccess;
}

ncclResult_t ncclRecv(void *recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
		      cudaStream_t stream)
{
	size_t bytes = count * type_bytes(datatype);

	REQUIRE(comm && peer >= 0 && peer < comm->nr_ranks);
	if (begin(bytes, NULL, 0, stream))
		sim_mailbox_receive(comm->box, peer, recvbuff, bytes);
	return ncclSuccess;
}

ncclResult_t ncclBroadcast(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root,
			   ncclComm_t comm, cudaStream_t stream)
{
	size_t bytes = count * type_bytes(datatype);

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

static void reduce_into(ncclComm_t comm, void *dst, const void *own, size_t bytes, ncclDataType_t type,
			ncclRedOp_t op)
{
	float scale;

	op = resolve(comm, op, &scale);
	sim_mailbox_reduce(comm->box, dst, own, bytes, combine, how_of(type, op, scale));
}

ncclResult_t ncclAllReduce(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
			   ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
	size_t bytes = count * type_bytes(datatype);

	REQUIRE(comm);
	if (!begin(bytes, sendbuff, bytes, stream))
		return ncclSuccess;
	if (!type_is_reduced(datatype)) {
		keep(recvbuff, sendbuff, bytes);
		return ncclSuccess;
	}
	send_all(comm, sendbuff, bytes, false);
	reduce_into(comm, recvbuff, sendbuff, bytes, datatype, op);
	return ncclSuccess;
}

ncclResult_t ncclReduce(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
			int root, ncclComm_t comm, cudaStream_t stream)
{
	size_t bytes = count * type_bytes(datatype);

	REQUIRE(comm && root >= 0 && root < comm->nr_ranks);
	if (!begin(bytes, sendbuff, bytes, stream))
		return ncclSuccess;
	if (!type_is_reduced(datatype)) {
		if (comm->rank == root)
			keep(recvbuff, sendbuff, bytes);
	} else if (comm->rank == root) {
		reduce_into(comm, recvbuff, sendbuff, bytes, datatype, op);
	} else {
		sim_mailbox_send(comm->box, root, sendbuff, bytes);
	}
	return ncclSuccess;
}

ncclResult_t ncclReduceScatter(const void *sendbuff, void *recvbuff, size_t recvcount, ncclDataType_t datatype,
			       ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
	size_t bytes = recvcount * type_bytes(datatype);

	REQUIRE(comm);
	if (!begin(bytes, sendbuff, bytes * (size_t)comm->nr_ranks, stream))
		return ncclSuccess;
	if (!type_is_reduced(datatype)) {
		keep(recvbuff, at(sendbuff, comm->rank, bytes), bytes);
		return ncclSuccess;
	}
	send_all(comm, sendbuff, bytes, true);
	reduce_into(comm, recvbuff, at(sendbuff, comm->rank, bytes), bytes, datatype, op);
	return ncclSuccess;
}

ncclResult_t ncclAllGather(const void *sendbuff, void *recvbuff, size_t sendcount, ncclDataType_t datatype,
			   ncclComm_t comm, cudaStream_t stream)
{
	size_t bytes = sendcount * type_bytes(datatype);

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
	size_t bytes = count * type_bytes(datatype);

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
	size_t bytes = count * type_bytes(datatype);

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

ncclResult_t ncclScatter(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root,
			 ncclComm_t comm, cudaStream_t stream)
{
	size_t bytes = count * type_bytes(datatype);
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
