/* SPDX-License-Identifier: MIT */
/*
 * The table that shared_device.h is about: a row for each process, with what it holds of each device, in a file that
 * the processes map.
 *
 * Every change is the store of one whole word, under a mutex that survives the death of its owner, so a
 * process that is killed anywhere leaves a valid table. An empty table may be *abandoned*: marked so for
 * good, and its file removed. Whoever has it mapped or opens it then turns to a new one of the same name.
 */
#ifndef SIMGPU_SHARE_TABLE_H
#define SIMGPU_SHARE_TABLE_H

#include <pthread.h>

#include "simgpu/process.h"
#include "simgpu/shared_device.h"
#include "simgpu/simgpu.h"

struct share_table {
	uint64_t magic;			/* 0: not yet made */
	uint64_t inode;			/* of its file */
	pthread_mutex_t mutex;
	bool is_abandoned;
	unsigned nr_rows;		/* above it none was ever used */
	struct sim_process rows[SIM_SHARED_PROCESSES];	/* no pid: free */
	size_t used[SIM_MAX_DEVICES][SIM_SHARED_PROCESSES];
};

/* The table in file PATH, made if there is none. Never fails: ends the process after a message. */
struct share_table *share_table_open(const char *path);

/* A table of this process's own. */
struct share_table *share_table_private(void);

void share_table_close(struct share_table *table);

/* All below want the table locked. */
void share_table_lock(struct share_table *table);
void share_table_unlock(struct share_table *table);

void share_table_clear_row(struct share_table *table, int row);

/*
 * Clear the rows of processes that have ended, except row MINE: of those that hold memory of device INDEX, or
 * all if it is -1. Returns whether there were any.
 */
bool share_table_reap(struct share_table *table, int mine, int index);

/* If no process is in TABLE, abandon it and remove its file, NAME in DIR as openat() has them. */
void share_table_abandon_if_empty(struct share_table *table, int dir, const char *name);

#endif
