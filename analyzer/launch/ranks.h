/* SPDX-License-Identifier: MIT */
/*
 * Some ranks of a large job, on simulated GPUs: `run --simulate 512xh100 --ranks 0,17`.
 *
 * A job has as many ranks as GPUs, gpus_per_node of them on each simulated machine (node). The ranks that are named
 * become processes, each with the environment that torchrun would give it; the others are *absent* and assumed alike.
 * What programs are told of absent ranks is the simulated GPU's matter (simgpu/nccl_absent.h).
 */
#ifndef VT_RANKS_H
#define VT_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/launch/launch.h"
#include "analyzer/launch/preload.h"

#define RANKS_MAX_WORLD 65536

struct ranks {
	unsigned world_size, gpus_per_node;
	unsigned *rank; /* those named, ascending */
	size_t nr;
	char *list;           /* "0,17" */
	const char **program; /* NULL-terminated: what a rank runs; NULL = as given */
	unsigned port;        /* of the rendezvous store */
	int port_fd;          /* keeps it for us */
};
#define RANKS_INIT { .port_fd = -1 }

/*
 * Understand --ranks' LIST ("0,17", "0-3,8") for a job of world_size GPUs, and --gpus-per-node (0: 8, or all when there
 * are fewer). Returns 0, or RUN_TROUBLE after a message.
 */
int ranks_parse(struct ranks *r, const char *list, unsigned world_size, int64_t gpus_per_node);
void ranks_release(struct ranks *r);

/*
 * When argv is a launcher of PyTorch (torchrun, python -m torch.distributed.run), find what it would start, into
 * r->program, and compare its --nnodes and --nproc-per-node with the job; --nproc-per-node decides gpus_per_node unless
 * that was given (has_gpus_per_node). Returns 0, or RUN_TROUBLE after a message.
 */
int ranks_understand_launcher(struct ranks *r, const char *const *argv, bool has_gpus_per_node);

/* GPUs of the largest node. */
unsigned ranks_node_gpus(const struct ranks *r);

/* Remove the files through which the ranks of each node share its GPUs. */
void ranks_remove_shares(const struct ranks *r, const struct gpu_share *base);

/*
 * Take a free port for the rendezvous store, which a process of the lowest named rank serves. Returns 0, or RUN_TROUBLE
 * after a message. ranks_release_port() also ends the store.
 */
int ranks_reserve_port(struct ranks *r);
void ranks_release_port(struct ranks *r);

/*
 * Make this process's environment that of the named rank; job is the recording's id, NULL when nothing is recorded.
 * plan gets the node's devices and share. Returns 0, or RUN_TROUBLE after a message.
 */
int ranks_enter(const struct ranks *r, unsigned rank, const struct preload *p, struct preload_plan *plan,
		const char *job);

/* Called in the process that becomes a rank, just before exec. Returns 0, or the status to leave with. */
typedef int ranks_prepare(pid_t pid, unsigned rank, void *context);

/*
 * Run argv as each of the named ranks and wait for all, passing signals on, as launch_supervised() does for one
 * program. When a rank fails, the others are asked to end, and killed when they have not after a while; *end is then
 * that of the rank that failed first, else the lowest rank's.
 */
int ranks_supervised(const struct ranks *r, const char *const *argv, ranks_prepare *prepare, void *context,
		     struct launch_end *end);

#endif
