/* SPDX-License-Identifier: MIT */
/*
 * Which traces are there to be followed: those that processes of this machine write now, told by the descriptors that /proc
 * shows, or those of a recording. Only what the user may see is found.
 */
#ifndef VT_LIVEFIND_H
#define VT_LIVEFIND_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Paths of traces, each once, in order of discovery. Zero before first use. */
struct livepaths {
	char **path;
	size_t nr_paths, room;
};
void livepaths_release(struct livepaths *p);

/* Add what any process writes now. */
void livefind_all(struct livepaths *p);

/* Add what this process, and those below it, write now. False: there is no such process. */
bool livefind_process(struct livepaths *p, pid_t pid);

/* Add the traces of a recording. Returns 0, or -1 after writing one sentence for the user into why[size]. */
int livefind_recording(struct livepaths *p, const char *recording, char *why, size_t size);

#endif
