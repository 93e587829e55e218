/* SPDX-License-Identifier: MIT */
/*
 * NCCL's windows, and the teams of its ranks. A window is what a rank registered: a handle that kernels would
 * use, and that is given back. What registering takes of a device is not known: 0. All ranks are on one host,
 * and reach each other's memory as over NVLink, so they are one team, and each is its own rail.
 */
#include <stdlib.h>

#include "simgpu/nccl_state.h"

struct nccl_window {
	struct nccl_window *next;
	void *buffer;
	size_t bytes;
	int flags;
};

/* All ranks register alike; nobody needs the others' addresses here, so nobody waits. */
ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *buffer, size_t bytes, ncclWindow_t *window,
				    int flags)
{
	struct nccl_window *w;

	if (!comm || !buffer || !bytes || !window || flags & ~NCCL_WIN_COLL_SYMMETRIC)
		return ncclInvalidArgument;
	if (comm->is_revoked)
		return ncclInvalidUsage;
	w = sim_alloc(sizeof(*w));
	*w = (struct nccl_window){ comm->windows, buffer, bytes, flags };
	comm->windows = w;
	*window = (ncclWindow_t)w;
	return ncclSuccess;
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window)
{
	struct nccl_window **link, *w;

	if (!comm)
		return ncclInvalidArgument;
	for (link = &comm->windows; *link && *link != (struct nccl_window *)window; link = &(*link)->next)
		;
	w = *link;
	if (!w)
		return ncclInvalidArgument;
	*link = w->next;
	free(w);
	return ncclSuccess;
}

void nccl_windows_release(ncclComm_t comm)
{
	while (comm->windows)
		ncclCommWindowDeregister(comm, (ncclWindow_t)comm->windows);
}

/* ---- teams: as nccl_device/core.h, which is C++, declares them -------------------------------- */

struct team {
	int nr_ranks, rank, stride;
};

SIM_EXPORT struct team ncclTeamWorld(ncclComm_t comm);
SIM_EXPORT struct team ncclTeamLsa(ncclComm_t comm);
SIM_EXPORT struct team ncclTeamRail(ncclComm_t comm);
SIM_EXPORT int ncclTeamRankToWorld(ncclComm_t comm, struct team team, int rank);
SIM_EXPORT int ncclTeamRankToLsa(ncclComm_t comm, struct team team, int rank);

struct team ncclTeamWorld(ncclComm_t comm)
{
	return (struct team){ comm->nr_ranks, comm->rank, 1 };
}

struct team ncclTeamLsa(ncclComm_t comm)
{
	return ncclTeamWorld(comm);
}

struct team ncclTeamRail(ncclComm_t comm)
{
	return (struct team){ 1, 0, comm->nr_ranks };
}

int ncclTeamRankToWorld(ncclComm_t comm, struct team team, int rank)
{
	return comm->rank + (rank - team.rank) * team.stride;
}

int ncclTeamRankToLsa(ncclComm_t comm, struct team team, int rank)
{
	return ncclTeamRankToWorld(comm, team, rank);
}
