/* SPDX-License-Identifier: MIT */
/* Rings that killed processes have left in shared memory; see leftover.h. */
#include "analyzer/recording/leftover.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tracefmt/tracefmt.h"

#define SWEEP_AFTER_S 600     /* until then it is for whoever had it killed to look first */
#define DROP_AFTER_S (24 * 3600) /* a trace that is not where it was may have been moved */

/* Show fn all segments of ours that no process has attached, until it returns false. */
static void each_left(bool (*fn)(int id, const struct shmid_ds *ds, void *context), void *context)
{
	struct shm_info info;
	struct shmid_ds ds;
	int last = shmctl(0, SHM_INFO, (struct shmid_ds *)(void *)&info);

	for (int i = 0; i <= last; i++) {
		int id = shmctl(i, SHM_STAT, &ds);

		if (id >= 0 && !ds.shm_nattch && ds.shm_perm.uid == geteuid() &&
		    ((uint32_t)ds.shm_perm.__key & TFMT_SHARED_KEY_MASK) == TFMT_SHARED_KEY && !fn(id, &ds, context))
			return;
	}
}

struct wanted {
	const char *ring_path;
	bool is_there;
};

static bool compare(int id, const struct shmid_ds *ds, void *context)
{
	struct wanted *w = context;
	char name[32];

	(void)ds;
	snprintf(name, sizeof(name), "shm:%d", id);
	w->is_there = !strcmp(name, w->ring_path);
	return !w->is_there;
}

static bool note_any(int id, const struct shmid_ds *ds, void *context)
{
	(void)id;
	(void)ds;
	*(bool *)context = true;
	return false;
}

void leftover_complete(const char *path)
{
	struct wanted wanted = { 0 };
	struct tfmt_reader *r;
	struct stat st;
	bool any = false;

	each_left(note_any, &any);
	/* Nor from a pipe, which can be read only once. */
	if (!any || stat(path, &st) || !S_ISREG(st.st_mode) || tfmt_reader_open(&r, path, NULL))
		return;
	wanted.ring_path = tfmt_reader_header(r)->ring_path;
	if (tfmt_reader_header(r)->storage == TFMT_STORAGE_SHARED)
		each_left(compare, &wanted);
	tfmt_reader_close(r);
	if (wanted.is_there)
		tfmt_seal(path, TFMT_END_OPEN, 0);
}

/* The trace that a segment is of; false if it is none of a recorder's. */
static bool read_trace_path(int id, size_t bytes, char *path, size_t size)
{
	const struct tfmt_status *s = bytes < sizeof(*s) ? (void *)-1 : shmat(id, NULL, SHM_RDONLY);
	bool is_ours;

	if (s == (void *)-1)
		return false;
	is_ours = s->magic == TFMT_RING_MAGIC && s->version == TFMT_VERSION;
	snprintf(path, size, "%.*s", (int)sizeof(s->trace_path), s->trace_path);
	shmdt(s);
	return is_ours;
}

/* Its process was killed before the trace had a header, and so its name: there is nothing that the rings belong to. */
static bool is_unborn(const char *path)
{
	char unpublished[sizeof(((struct tfmt_status *)0)->trace_path) + 8];

	snprintf(unpublished, sizeof(unpublished), "%s.new", path);
	return access(path, F_OK) && errno == ENOENT && !access(unpublished, F_OK);
}

static bool sweep(int id, const struct shmid_ds *ds, void *context)
{
	char path[sizeof(((struct tfmt_status *)0)->trace_path) + 1];
	time_t now = time(NULL);

	(void)context;
	if (!read_trace_path(id, ds->shm_segsz, path, sizeof(path)))
		return true;
	if (is_unborn(path)) {
		shmctl(id, IPC_RMID, NULL);
		return true;
	}
	if (ds->shm_dtime > now - SWEEP_AFTER_S)
		return true;
	if (!access(path, F_OK))
		tfmt_seal(path, TFMT_END_OPEN, 0);
	else if (errno == ENOENT && ds->shm_dtime < now - DROP_AFTER_S)
		shmctl(id, IPC_RMID, NULL);
	return true;
}

void leftover_sweep(void)
{
	each_left(sweep, NULL);
}
