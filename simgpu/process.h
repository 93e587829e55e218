/* SPDX-License-Identifier: MIT */
/*
 * Processes of this machine as shared memory names them: a pid alone may belong to a later process.
 */
#ifndef SIMGPU_PROCESS_H
#define SIMGPU_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

/* All zero: nobody. */
struct sim_process {
	uint32_t pid;
	uint32_t pid_space;		/* inode of its pid namespace; 0 where there is no /proc */
	uint64_t start;			/* clock ticks from boot to its start; 0 where there is no /proc */
};

/* The calling process. */
struct sim_process sim_process_self(void);

/*
 * Whether PROCESS has ended: a zombie has, and so has one whose pid another process now carries. What cannot
 * be told (another pid namespace, no /proc, no descriptor left) has not. Takes some ten microseconds.
 */
bool sim_process_ended(const struct sim_process *process);

#endif
