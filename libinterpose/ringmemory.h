/* SPDX-License-Identifier: MIT */
/*
 * Memory for the rings that is no file in anybody's folder, so that nobody can cut it short: a store into the mapping
 * of a file that has become too short ends the program with SIGBUS. Used by the drain thread alone.
 */
#ifndef IP_RINGMEMORY_H
#define IP_RINGMEMORY_H

#include <stdbool.h>
#include <stddef.h>

/*
 * System V shared memory, zeroed, mapped for reading and writing at *base. It has a fixed size and no descriptor, and
 * stays when all its processes are gone, until ringmemory_unshare() or the end of its IPC namespace. Its pages come
 * when they are touched; they were promised when it was made, also where the kernel promises no more than it has.
 * Returns its id, or -1: none can be had, the kernel drops what no process has attached, or too much lies about
 * already that dead recorders have left.
 */
int ringmemory_share(size_t bytes, void **base);
void ringmemory_unshare(int id);

/* A memfd of this size that can never get smaller. Returns its descriptor, or -1. */
int ringmemory_seal(size_t bytes);

/* Give `run` a descriptor of it, so that it outlives this process. False: there is none that takes it. */
bool ringmemory_hand_over(int fd);

#endif
