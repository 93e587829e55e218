/* SPDX-License-Identifier: MIT */
/* What NCCL takes of the GPUs: one process, a communicator over 1, 2 ... all of them, its first operation. */
#include <string.h>

#include "analyzer/base/message.h"
#include "analyzer/calibrate/measure.h"
#include "analyzer/command.h"

enum { MAX_GPUS = 64 };

/* Large enough for NCCL to use all its channels. */
#define REDUCED_BYTES (16u << 20)

struct rank {
	CUcontext context;
	CUstream stream;
	CUdeviceptr data;
	uint64_t before, made, worked; /* used bytes of its GPU */
};

static uint64_t used_on(const struct libraries *l, const struct rank *rank)
{
	size_t free_bytes = 0, total = 0;

	l->cuCtxSetCurrent(rank->context);
	l->cuCtxSynchronize();
	l->cuMemGetInfo_v2(&free_bytes, &total);
	return total - free_bytes;
}

static bool rank_open(const struct libraries *l, struct rank *rank, int device)
{
	return !l->cuDevicePrimaryCtxRetain(&rank->context, device) && !l->cuCtxSetCurrent(rank->context) &&
	       !l->cuStreamCreate(&rank->stream, CU_STREAM_NON_BLOCKING) &&
	       !l->cuMemAlloc_v2(&rank->data, REDUCED_BYTES);
}

static ncclResult_t reduce(const struct libraries *l, struct rank *ranks, ncclComm_t *comms, int nr)
{
	ncclResult_t result = l->ncclGroupStart(), end;

	for (int i = 0; i < nr && !result; i++)
		result = l->ncclAllReduce((void *)ranks[i].data, (void *)ranks[i].data,
					  REDUCED_BYTES / sizeof(float), ncclFloat32, ncclSum, comms[i],
					  (cudaStream_t)ranks[i].stream);
	end = l->ncclGroupEnd();
	return result ? result : end;
}

/* The GPU that takes most decides. */
static void add_row(struct gpufile *g, const struct rank *ranks, int nr)
{
	struct gpufile_nccl row = { .ranks = (uint64_t)nr };

	for (int i = 0; i < nr; i++) {
		const struct rank *r = &ranks[i];
		uint64_t init = r->made > r->before ? r->made - r->before : 0;
		uint64_t first = r->worked > r->made ? r->worked - r->made : 0;

		row.init_bytes = init > row.init_bytes ? init : row.init_bytes;
		row.first_bytes = first > row.first_bytes ? first : row.first_bytes;
	}
	if (g->nr_nccl < GPUFILE_MAX_NCCL)
		g->nccl[g->nr_nccl++] = row;
}

static int measure_ranks(const struct libraries *l, struct gpufile *g, struct rank *ranks, const int *devices,
			 int nr)
{
	ncclComm_t comms[MAX_GPUS] = { NULL };
	ncclResult_t result;

	for (int i = 0; i < nr; i++)
		ranks[i].before = used_on(l, &ranks[i]);
	result = l->ncclCommInitAll(comms, nr, devices);
	for (int i = 0; i < nr; i++)
		ranks[i].made = used_on(l, &ranks[i]);
	if (!result)
		result = reduce(l, ranks, comms, nr);
	for (int i = 0; i < nr; i++)
		ranks[i].worked = used_on(l, &ranks[i]);
	for (int i = 0; i < nr; i++)
		if (comms[i])
			l->ncclCommDestroy(comms[i]);
	if (result)
		return message_error("NCCL with %d GPUs failed: %s", nr, l->ncclGetErrorString(result));
	add_row(g, ranks, nr);
	return CMD_FINE;
}

int measure_nccl(const struct measured_gpu *m, struct gpufile *g)
{
	const struct libraries *l = m->libraries;
	struct rank ranks[MAX_GPUS] = { { 0 } };
	int devices[MAX_GPUS], nr = 0, status = CMD_FINE;

	l->cuDeviceGetCount(&nr);
	nr = nr < MAX_GPUS ? nr : MAX_GPUS;
	/* The measured GPU is rank 0. */
	for (int i = 0; i < nr; i++)
		devices[i] = i == 0 ? m->device : i <= m->device ? i - 1 : i;
	for (int i = 0; i < nr && !status; i++) {
		if (!rank_open(l, &ranks[i], devices[i]))
			status = message_error("GPU %d cannot be used: is its memory full?", devices[i]);
	}
	for (int i = 1; i <= nr && !status; i++)
		status = measure_ranks(l, g, ranks, devices, i);
	for (int i = 0; i < nr; i++) {
		if (!ranks[i].context)
			continue;
		l->cuCtxSetCurrent(ranks[i].context);
		if (ranks[i].data)
			l->cuMemFree_v2(ranks[i].data);
		if (ranks[i].stream)
			l->cuStreamDestroy_v2(ranks[i].stream);
	}
	l->cuCtxSetCurrent(m->context);
	return status;
}
