/* SPDX-License-Identifier: MIT */
/* What this process holds of the devices, in the table that it may share with others (shared_device.h). */
#include "simgpu/shared_device.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "simgpu/internal.h"
#include "simgpu/share_table.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;	/* guards what follows */
static struct share_table *table;
static char *path;			/* NULL: a table of our own */
static int mine = -1;			/* this process's row */

void sim_shared_before_fork(void)
{
	pthread_mutex_lock(&mutex);
}

void sim_shared_after_fork(bool is_child)
{
	if (is_child)
		mine = -1;
	pthread_mutex_unlock(&mutex);
}

static void attach(void)
{
	const char *name = getenv("SIMGPU_SHARE");

	if (name && *name) {
		path = strcpy(sim_alloc(strlen(name) + 1), name);
		table = share_table_open(path);
	} else {
		table = share_table_private();
	}
}

static void lock(void)
{
	pthread_once(&once, attach);
	pthread_mutex_lock(&mutex);
	share_table_lock(table);
	while (table->is_abandoned) {
		share_table_unlock(table);
		share_table_close(table);
		table = share_table_open(path);
		share_table_lock(table);
	}
}

static void unlock(void)
{
	share_table_unlock(table);
	pthread_mutex_unlock(&mutex);
}

/* A program that this process was before exec() held memory: that went with it, its row is still there. */
static void clear_former(const struct sim_process *self)
{
	for (unsigned i = 0; i < table->nr_rows; i++)
		if (!memcmp(&table->rows[i], self, sizeof(*self)))
			share_table_clear_row(table, (int)i);
}

static int free_row(void)
{
	for (int i = 0; i < SIM_SHARED_PROCESSES; i++)
		if (!table->rows[i].pid)
			return i;
	return -1;
}

/* Give this process a row. */
static void enter(void)
{
	struct sim_process self = sim_process_self();
	int row;

	clear_former(&self);
	row = free_row();
	if (row < 0 && share_table_reap(table, -1, -1))
		row = free_row();
	if (row < 0) {
		errno = EUSERS;
		sim_host_limit("too many processes use the simulated GPUs at the same time", "start fewer");
	}
	table->rows[row] = self;
	if ((unsigned)row >= table->nr_rows)
		table->nr_rows = (unsigned)row + 1;
	mine = row;
}

static size_t sum(int index)
{
	size_t bytes = 0;

	for (unsigned i = 0; i < table->nr_rows; i++)
		bytes += table->used[index][i];
	return bytes;
}

static bool fits(int index, size_t bytes, size_t capacity)
{
	size_t used = sum(index);

	return bytes <= capacity && used <= capacity - bytes;
}

bool sim_shared_take(int index, size_t bytes, size_t capacity)
{
	bool taken;

	lock();
	if (mine < 0)
		enter();
	taken = fits(index, bytes, capacity) ||
		(share_table_reap(table, mine, index) && fits(index, bytes, capacity));
	if (taken)
		table->used[index][mine] += bytes;
	unlock();
	return taken;
}

void sim_shared_give(int index, size_t bytes)
{
	lock();
	if (mine >= 0)
		table->used[index][mine] -= bytes;
	unlock();
}

size_t sim_shared_used(int index)
{
	size_t bytes;

	lock();
	share_table_reap(table, mine, index);
	bytes = sum(index);
	unlock();
	return bytes;
}

int sim_shared_holders(int index, struct sim_holder *holders, int room)
{
	int nr = 0;

	lock();
	share_table_reap(table, mine, index);
	for (unsigned i = 0; i < table->nr_rows; i++) {
		if (!table->used[index][i])
			continue;
		if (nr < room)
			holders[nr] = (struct sim_holder){ table->rows[i].pid, table->used[index][i] };
		nr++;
	}
	unlock();
	return nr;
}

/* A process that ends gives its memory back. Where exit() was called from in here, others find it ended. */
__attribute__((destructor)) static void leave(void)
{
	if (mine < 0 || !path || pthread_mutex_trylock(&mutex))
		return;
	share_table_lock(table);
	share_table_clear_row(table, mine);
	mine = -1;
	share_table_reap(table, -1, -1);
	share_table_abandon_if_empty(table, AT_FDCWD, path);
	share_table_unlock(table);
	pthread_mutex_unlock(&mutex);
}
