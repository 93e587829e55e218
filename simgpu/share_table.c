/* SPDX-License-Identifier: MIT */
/* Making, opening and removing the table of processes on the devices (share_table.h). */
#include "simgpu/share_table.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "simgpu/file_limit.h"
#include "simgpu/internal.h"

/* Another layout has another size, or counts up the number in it. */
#define TABLE_MAGIC (0x73696d6770750001ULL ^ (sizeof(struct share_table) << 16))
#define NAME_PREFIX "simgpu-share-"	/* as `vramtrace run` names the files that it lets us make */

enum { STATUS_TROUBLE = 125 };

static _Noreturn void unusable(const char *path, const char *reason)
{
	dprintf(STDERR_FILENO, "simgpu: SIMGPU_SHARE '%s' is not usable: %s\n", path, reason);
	_exit(STATUS_TROUBLE);
}

void share_table_lock(struct share_table *table)
{
	if (pthread_mutex_lock(&table->mutex) == EOWNERDEAD)
		pthread_mutex_consistent(&table->mutex);
}

void share_table_unlock(struct share_table *table)
{
	pthread_mutex_unlock(&table->mutex);
}

static void init(struct share_table *table, uint64_t inode)
{
	pthread_mutexattr_t attr;

	table->inode = inode;
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&table->mutex, &attr);
	pthread_mutexattr_destroy(&attr);
	table->magic = TABLE_MAGIC;
}

void share_table_clear_row(struct share_table *table, int row)
{
	for (int i = 0; i < SIM_MAX_DEVICES; i++)
		table->used[i][row] = 0;
	table->rows[row] = (struct sim_process){ 0 };
}

bool share_table_reap(struct share_table *table, int mine, int index)
{
	bool found = false;

	for (int i = 0; i < (int)table->nr_rows; i++) {
		if (i == mine || !table->rows[i].pid || (index >= 0 && !table->used[index][i]) ||
		    !sim_process_ended(&table->rows[i]))
			continue;
		share_table_clear_row(table, i);
		found = true;
	}
	return found;
}

/* Remove the file if it is still TABLE's: another may have been made since. */
static void remove_file(const struct share_table *table, int dir, const char *name)
{
	struct stat st;

	if (!fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) && st.st_ino == table->inode)
		unlinkat(dir, name, 0);
}

void share_table_abandon_if_empty(struct share_table *table, int dir, const char *name)
{
	for (unsigned i = 0; i < table->nr_rows; i++)
		if (table->rows[i].pid)
			return;
	table->is_abandoned = true;
	remove_file(table, dir, name);
}

static struct share_table *map(int fd)
{
	void *p = mmap(NULL, sizeof(struct share_table), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (p == MAP_FAILED)
		sim_host_limit("mmap of the simulated GPUs' shared table failed", "raise `ulimit -v`");
	return p;
}

void share_table_close(struct share_table *table)
{
	munmap(table, sizeof(*table));
}

struct share_table *share_table_private(void)
{
	struct share_table *table = sim_map(sizeof(*table), 0, PROT_READ | PROT_WRITE);

	init(table, 0);
	return table;
}

/* ---- the file -------------------------------------------------------------------------------- */

/* Remove the table in file NAME of folder DIR if nobody in it lives. */
static void reap_file(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct share_table *table;
	struct stat st;

	if (fd < 0)
		return;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
	    st.st_size == sizeof(struct share_table)) {
		table = map(fd);
		if (table->magic == TABLE_MAGIC) {
			share_table_lock(table);
			share_table_reap(table, -1, -1);
			share_table_abandon_if_empty(table, dir, name);
			share_table_unlock(table);
		}
		share_table_close(table);
	}
	close(fd);
}

/* Remove what killed jobs left beside PATH, which is being made. */
static void reap_others(const char *path)
{
	const char *slash = strrchr(path, '/'), *own = slash ? slash + 1 : path;
	char folder[PATH_MAX];
	struct dirent *entry;
	DIR *dir;

	if (snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".") >=
		    (int)sizeof(folder) || !(dir = opendir(*folder ? folder : "/")))
		return;
	while ((entry = readdir(dir)))
		if (!strncmp(entry->d_name, NAME_PREFIX, strlen(NAME_PREFIX)) &&
		    strcmp(entry->d_name, own) != 0)
			reap_file(dirfd(dir), entry->d_name);
	closedir(dir);
}

/* Wait for the file's lock. Closing the file lets go of it, and so does the kernel when its owner dies. */
static void file_lock(int fd)
{
	struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	while (fcntl(fd, F_SETLKW, &whole) && errno == EINTR)
		;
}

/* Map the table in FD, giving it its memory and its first contents if this process is the first. */
static struct share_table *table_of(int fd, const char *path, bool *is_new)
{
	struct share_table *table;
	struct stat st;
	int error;

	file_lock(fd);
	if (fstat(fd, &st))
		unusable(path, strerror(errno));
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid())
		unusable(path, "it is not a file of this user");
	if (st.st_size && st.st_size != sizeof(*table))
		unusable(path, "it is not a table of this version of the simulated GPU");
	/* Its memory now: on a full /dev/shm a later store into it would be a SIGBUS. */
	error = file_limit_allocate(fd, sizeof(*table));
	if (error == EFBIG)
		file_limit_end("making the simulated GPUs' shared table failed");
	if (error)
		unusable(path, strerror(error));
	table = map(fd);
	*is_new = !table->magic;
	if (*is_new)
		init(table, st.st_ino);
	if (table->magic != TABLE_MAGIC)
		unusable(path, "it is not a table of this version of the simulated GPU");
	return table;
}

/* Whether TABLE, just opened, is the one that a new process should use. */
static bool is_current(struct share_table *table, const char *path)
{
	bool current;

	share_table_lock(table);
	current = !table->is_abandoned;
	/* Who abandoned it may have been killed before it was removed. */
	if (!current)
		remove_file(table, AT_FDCWD, path);
	share_table_unlock(table);
	return current;
}

struct share_table *share_table_open(const char *path)
{
	struct share_table *table;
	bool is_new = false;
	int fd;

	for (;;) {
		fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
		if (fd < 0)
			unusable(path, strerror(errno));
		table = table_of(fd, path, &is_new);
		close(fd);
		if (is_current(table, path))
			break;
		share_table_close(table);
	}
	if (is_new)
		reap_others(path);
	return table;
}
