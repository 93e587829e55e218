/* SPDX-License-Identifier: MIT */
/*
 * Is there a GPU of NVIDIA's on this machine? It is there when its driver answers: device nodes outlive drivers, and
 * NVIDIA's library makes one itself where there is no GPU at all. The answer is the same for every command, for the
 * pytest plugin and for the tests, which ask `vramtrace gpu`.
 */
#ifndef VT_REALGPU_H
#define VT_REALGPU_H

#include <stdbool.h>
#include <stdint.h>

enum { REALGPU_MAX = 64, REALGPU_NAME_BYTES = 96, REALGPU_WHY_BYTES = 160 };

struct realgpu {
	unsigned nr;        /* GPUs that the driver has, those left out by CUDA_VISIBLE_DEVICES not among them */
	int driver_version; /* CUDA's number of the driver: 12040 */
	struct {
		char name[REALGPU_NAME_BYTES];
		uint64_t bytes;
	} device[REALGPU_MAX];
	char why[REALGPU_WHY_BYTES]; /* there is none: for what reason */
};

/*
 * Does the file system below ROOT ("" for all of it) show a driver in the kernel, of whatever kind? Where it does not,
 * no library is loaded, so that none leaves a device node.
 */
bool realgpu_has_driver(const char *root);

/*
 * Ask the driver, in a child process that is given up after a while: a GPU that has fallen over must not take us with
 * it. Nothing of CUDA stays in this process. Returns whether there is a GPU; *g says which, or why there is none.
 * Where a simulated GPU was preloaded, that is no real one.
 */
bool realgpu_ask(struct realgpu *g);

#endif
