/* SPDX-License-Identifier: MIT */
/*
 * The file through which the processes of one `run` share the memory of their simulated GPUs. `run` gives it
 * a name and removes what is left of it at the end; the simulated GPU makes it and knows what is in it.
 */
#ifndef VT_GPUSHARE_H
#define VT_GPUSHARE_H

#include <limits.h>
#include <stdbool.h>

struct gpu_share {
	char path[PATH_MAX];
	bool is_inherited; /* an outer run's, or the user's: not ours to remove */
};

/*
 * The file for programs on NR simulated GPUs of profile GPU: that of an outer `run` on the same GPUs, or the
 * one that SIMGPU_SHARE names, else a new name, in /dev/shm where that can be written.
 */
void gpushare_choose(struct gpu_share *share, const char *gpu, unsigned nr);

/* The program has ended: remove the file, if it is ours and still there. */
void gpushare_remove(const struct gpu_share *share);

#endif
