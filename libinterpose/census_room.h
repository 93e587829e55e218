/* SPDX-License-Identifier: MIT */
/*
 * census_room: is there room for a copy of the process below the limits of its control groups?
 *
 * A copy takes memory: page tables when it is made, its own while it works, and a page for each that the program writes
 * meanwhile. It is also a process that counts. Where a group has no more of either, the kernel may refuse the program's
 * next thread, or kill the program, or all the group at once (memory.oom.group): the copy is the first to be killed, but must
 * not be the reason. Limits are those of the group and of all that it lies in, as far as they can be seen.
 *
 * Threading: one thread of a process, the recorder's own; and the copy by itself. Opens files.
 */
#ifndef IP_CENSUS_ROOM_H
#define IP_CENSUS_ROOM_H

#include <stdint.h>

#define CENSUS_ROOM_GROUPS 8   /* with a limit, one in another */
#define CENSUS_ROOM_PATH 512

struct census_group {
	char limit[CENSUS_ROOM_PATH], usage[CENSUS_ROOM_PATH], stat[CENSUS_ROOM_PATH]; /* files */
	const char *idle; /* word in the last one: memory of files that could be had at once; NULL: it is not of memory */
};

struct census_room {
	struct census_group memory[CENSUS_ROOM_GROUPS], tasks[CENSUS_ROOM_GROUPS];
	uint32_t nr_memory, nr_tasks;
};

/* Find the groups that have a limit. `root` is "" but for tests. */
void census_room_look(struct census_room *r, const char *root);

/* Bytes, and processes and threads, that are left below them now; UINT64_MAX without a limit. */
uint64_t census_room_memory(const struct census_room *r);
uint64_t census_room_tasks(const struct census_room *r);

/* Bytes of this process that are in memory; 0 if it cannot be told. */
uint64_t census_room_resident(void);

#endif
