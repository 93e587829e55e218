/* SPDX-License-Identifier: MIT */
/*
 * The file that tells simgpu about the GPU of a GPU file (SIMGPU_MODEL), for as long as a job runs.
 *
 * It lies in $TMPDIR, else /tmp. Who makes it holds a lock on it: `run`, which removes it at the end, or with
 * --exec the program. What a killed job leaves behind is not locked any more, and the next one removes it.
 */
#ifndef VT_MEMORYMODEL_H
#define VT_MEMORYMODEL_H

#include <limits.h>
#include <stdbool.h>

#include "analyzer/gpu/gpufile.h"

struct memorymodel {
	char path[PATH_MAX]; /* empty: there is none */
	int fd;
};

/*
 * Make it; inherit: programs that this process becomes keep the lock. Returns 0, or RUN_TROUBLE after a
 * message.
 */
int memorymodel_make(struct memorymodel *m, const struct gpufile *g, bool inherit);

/* Remove it, if there is one. */
void memorymodel_remove(struct memorymodel *m);

#endif
