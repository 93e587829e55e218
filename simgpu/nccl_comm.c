/* SPDX-License-Identifier: MIT */
/* NCCL: communicators, groups, memory and names. */
#include "simgpu/driver_table.h"
#include "simgpu/nccl_state.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static __thread int group_depth;

static uint64_t mix(uint64_t a, uint64_t b)
{
	a ^= b + 0x9e3779b97f4a7c15u + (a << 6) + (a >> 2);
	a *= 0xff51afd7ed558ccdu;
	return a ^ a >> 33;
}

/*
 * The real call returns when all ranks are there, so this one does. In a group one thread opens several
 * ranks, and nobody could wait there.
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
	return getrandom(uniqueId->internal, sizeof(uint64_t), 0) == sizeof(uint64_t) ? ncclSuccess
										      : ncclSystemError;
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

ncclResult_t ncclCommInitRankScalable(ncclComm_t *newcomm, int nranks, int myrank, int nId,
				      ncclUniqueId *commIds, ncclConfig_t *config)
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

/*
 * All ranks tell each other their colour and key; those of one colour form a communicator, in order of key.
 */
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
