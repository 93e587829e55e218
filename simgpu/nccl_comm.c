/* SPDX-License-Identifier: MIT */
/* NCCL: communicators, groups, memory and names. */
#include "simgpu/driver_table.h"
#include "simgpu/memory_model.h"
#include "simgpu/nccl_state.h"
#include "simgpu/taken.h"

#include <stdio.h>
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

static ncclResult_t comm_free(ncclComm_t comm, bool flush)
{
	if (!comm)
		return ncclInvalidArgument;
	sim_mailbox_close(comm->box, flush);
	sim_give(comm->taken_at_init);
	sim_give(comm->taken_at_use);
	nccl_presence_release(&comm->presence);
	nccl_windows_release(comm);
	free(comm->scales);
	free(comm->shrinks);
	free(comm);
	return ncclSuccess;
}

/*
 * The real call returns when all ranks are there, so this one does. In a group one thread opens several
 * ranks, and nobody could wait there.
 */
static ncclResult_t comm_new(ncclComm_t *comm, uint64_t id, int nr_ranks, int rank, int device, bool join,
			     const ncclConfig_t *config)
{
	uint64_t taken;

	if (!comm || nr_ranks < 1 || rank < 0 || rank >= nr_ranks)
		return ncclInvalidArgument;
	taken = sim_take(device, "nccl", sim_model_nccl_init(nr_ranks));
	if (!taken)
		return ncclUnhandledCudaError;
	*comm = sim_zalloc(sizeof(**comm));
	(*comm)->taken_at_init = taken;
	(*comm)->rank = rank;
	(*comm)->nr_ranks = nr_ranks;
	(*comm)->device = device;
	if (join)
		nccl_presence_init(&(*comm)->presence, nr_ranks, rank, config);
	else
		(*comm)->presence.nr_present = nr_ranks;
	(*comm)->box = sim_mailbox_open(id, (*comm)->presence.nr_present, nccl_place(&(*comm)->presence, rank));
	sim_mailbox_name((*comm)->box, (*comm)->presence.present, nr_ranks);
	if (join && !group_depth && !sim_mailbox_join((*comm)->box)) {
		comm_free(*comm, false);
		*comm = NULL;
		return ncclRemoteError;
	}
	return ncclSuccess;
}

ncclResult_t nccl_connect(ncclComm_t comm)
{
	if (comm->is_revoked)
		return ncclInvalidUsage;
	if (sim_mailbox_failed(comm->box))
		return ncclRemoteError;
	if (!comm->taken_at_use)
		comm->taken_at_use = sim_take(comm->device, "nccl", sim_model_nccl_first(comm->nr_ranks));
	return comm->taken_at_use ? ncclSuccess : ncclUnhandledCudaError;
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
	return ncclCommInitRankConfig(comm, nranks, commId, rank, NULL);
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank,
				    ncclConfig_t *config)
{
	return comm_new(comm, unique_id(&commId), nranks, rank, sim_device(), true, config);
}

ncclResult_t ncclCommInitRankScalable(ncclComm_t *newcomm, int nranks, int myrank, int nId,
				      ncclUniqueId *commIds, ncclConfig_t *config)
{
	if (nId < 1 || !commIds)
		return ncclInvalidArgument;
	return ncclCommInitRankConfig(newcomm, nranks, commIds[0], myrank, config);
}

ncclResult_t ncclCommInitAll(ncclComm_t *comm, int ndev, const int *devlist)
{
	ncclUniqueId id;
	ncclResult_t result = ncclGetUniqueId(&id);

	for (int rank = 0; rank < ndev && result == ncclSuccess; rank++) {
		int device = devlist ? devlist[rank] : rank;

		if (device < 0 || device >= sim_nr_devices())
			return ncclInvalidArgument;
		result = comm_new(&comm[rank], unique_id(&id), ndev, rank, device, false, NULL);
	}
	return result;
}

/*
 * All ranks tell each other their colour and key; those of one colour form a communicator, in order of key: the
 * caller's place in it and its size. False when one of them has ended.
 */
static bool exchange_colors(ncclComm_t comm, int color, int key, int *out_rank, int *out_nr_ranks)
{
	struct choice {
		int color, key;
	} mine = { color, key }, *all;
	int nr_ranks = 0, rank = 0;
	bool is_complete = true;

	all = sim_zalloc(sizeof(*all) * (size_t)comm->nr_ranks);
	for (int peer = 0; peer < comm->nr_ranks; peer++)
		sim_mailbox_send(comm->box, peer, &mine, sizeof(mine));
	for (int peer = 0; peer < comm->nr_ranks; peer++)
		is_complete &= sim_mailbox_receive_now(comm->box, peer, &all[peer], sizeof(mine));
	for (int peer = 0; peer < comm->nr_ranks; peer++) {
		if (all[peer].color != color)
			continue;
		nr_ranks++;
		rank += all[peer].key < key || (all[peer].key == key && peer < comm->rank);
	}
	free(all);
	*out_rank = rank;
	*out_nr_ranks = nr_ranks;
	return is_complete;
}

/*
 * What absent ranks would choose nobody can say here. PyTorch's choice is known: its key is the rank in the new
 * communicator, whose size the configuration states (nccl_absent.h).
 */
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *newcomm, ncclConfig_t *config)
{
	int nr_ranks = nccl_stated_size(config), rank = key;
	uint64_t id;

	if (!comm || !newcomm)
		return ncclInvalidArgument;
	id = mix(mix(sim_mailbox_id(comm->box), ++comm->nr_splits), (uint64_t)color);
	if (!comm->presence.place && !exchange_colors(comm, color, key, &rank, &nr_ranks))
		return ncclRemoteError;
	*newcomm = NULL;
	if (color == NCCL_SPLIT_NOCOLOR)
		return ncclSuccess;
	if (!nr_ranks) {
		fprintf(stderr, "simgpu: ncclCommSplit: which absent ranks would join is not known\n");
		return ncclInvalidUsage;
	}
	return comm_new(newcomm, id, nr_ranks, rank, comm->device, true, config);
}

static bool is_in(int rank, const int *list, int nr)
{
	for (int i = 0; i < nr; i++)
		if (list[i] == rank)
			return true;
	return false;
}

/*
 * How often COMM was shrunk by this LIST before, which a hash stands for: part of the identity of what comes out, and
 * the same on all ranks that take part. A count of all shrinkings would differ, for not all take part in each.
 */
static uint64_t count_shrinks(ncclComm_t comm, uint64_t list)
{
	uint64_t nr = 0;

	for (size_t i = 0; i < comm->nr_shrinks; i++)
		nr += comm->shrinks[i] == list;
	comm->shrinks = sim_realloc(comm->shrinks, (comm->nr_shrinks + 1) * sizeof(*comm->shrinks));
	comm->shrinks[comm->nr_shrinks++] = list;
	return nr;
}

/* Called by the ranks that remain; they keep their order. */
ncclResult_t ncclCommShrink(ncclComm_t comm, int *excluded, int nr_excluded, ncclComm_t *newcomm,
			    ncclConfig_t *config, int flags)
{
	uint64_t list = 0;
	int rank = 0;

	if (!comm || !newcomm || !excluded || nr_excluded < 1 || nr_excluded >= comm->nr_ranks ||
	    flags & ~NCCL_SHRINK_ABORT || is_in(comm->rank, excluded, nr_excluded))
		return ncclInvalidArgument;
	for (int i = 0; i < nr_excluded; i++) {
		if (excluded[i] < 0 || excluded[i] >= comm->nr_ranks || is_in(excluded[i], excluded, i))
			return ncclInvalidArgument;
		rank -= excluded[i] < comm->rank;
		list = mix(list, (uint64_t)excluded[i] + 1);
	}
	list = mix(list, count_shrinks(comm, list));
	return comm_new(newcomm, mix(sim_mailbox_id(comm->box), list), comm->nr_ranks - nr_excluded, comm->rank + rank, comm->device, true, config);
}

/* Nothing is in flight for longer than a call: what is left is that no operation may follow. */
ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags)
{
	if (!comm || flags != NCCL_REVOKE_DEFAULT)
		return ncclInvalidArgument;
	comm->is_revoked = true;
	return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
	if (!comm)
		return ncclInvalidArgument;
	return comm->is_revoked ? ncclInvalidUsage : ncclSuccess;
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
	*asyncError = sim_mailbox_failed(comm->box) ? ncclRemoteError : ncclSuccess;
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
	if (!--group_depth) {
		sim_mailbox_group_end();
		nccl_group_complete();
	}
	return ncclSuccess;
}

/*
 * Ends the group. How long its operations would take depends on what NCCL knows of the machine, so there is no
 * estimate; and they are under way already, on all ranks alike.
 */
ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t *info)
{
	ncclResult_t result = ncclGroupEnd();

	if (!info || result != ncclSuccess)
		return info ? result : ncclInvalidArgument;
	sim_refuse("ncclGroupSimulateEnd", true);
	return ncclInvalidUsage;
}

bool nccl_in_group(void)
{
	return group_depth > 0;
}
