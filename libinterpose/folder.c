/* SPDX-License-Identifier: MIT */
/* The folder that a recording lies in; see folder.h. */
#include "folder.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "env.h"
#include "interpose.h"

#define GENERATION_MAX 10000
#define OTHERS_WRITE (S_IWGRP | S_IWOTH)

int folder_make_file(int folder, const char *path, int flags)
{
	int fd = openat(folder, path, flags | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd >= 0)
		fchmod(fd, 0600);
	return fd;
}

enum owner { OURS, OTHERS, UNKNOWN };

/* Process ids are not enough for a name that nobody else takes: containers that share the folder each count from 1. */
static void own_name(char *name, size_t size, const char *what)
{
	snprintf(name, size, "%s.%.200s.%d.%llx", what, ip_env.host, (int)getpid(), (unsigned long long)ip_now_ns());
}

/* Some file systems have no links: there a rename that replaces nothing does the same. */
static void name_once(int folder, const char *from, const char *to)
{
	if (linkat(folder, from, folder, to, 0) && errno != EEXIST)
		syscall(SYS_renameat2, folder, from, folder, to, RENAME_NOREPLACE);
}

/* The job id is complete before it gets its name: another rank never reads half of it. Returns 0 or an errno. */
static int write_job(int folder, const char *job)
{
	char temporary[NAME_MAX + 1], line[sizeof(ip_env.job) + 1];
	int fd, len = snprintf(line, sizeof(line), "%s\n", job), err = 0;

	own_name(temporary, sizeof(temporary), "job");
	fd = folder_make_file(folder, temporary, O_WRONLY);
	if (fd < 0)
		return errno;
	if (write(fd, line, (size_t)len) != len)
		err = errno ? errno : ENOSPC;
	else
		name_once(folder, temporary, "job");
	close(fd);
	unlinkat(folder, temporary, 0);
	return err;
}

/* Whose is the folder? Writes the job id into one that has none. UNKNOWN leaves errno. */
static enum owner owner_of(int folder, const char *job)
{
	char found[sizeof(ip_env.job) + 1] = "";
	int fd, err = 0;
	ssize_t n;

	if (faccessat(folder, "job", F_OK, 0))
		err = write_job(folder, job);
	fd = openat(folder, "job", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0) {
		errno = err ? err : errno;
		return UNKNOWN;
	}
	n = read(fd, found, sizeof(found) - 1);
	close(fd);
	if (n <= 0) {
		errno = n ? errno : EIO;
		return UNKNOWN;
	}
	found[n] = 0;
	found[strcspn(found, "\n")] = 0;
	return strcmp(found, job) ? OTHERS : OURS;
}

/*
 * Is the folder ours, and can nobody else write into it? A server may know us by another number, and a file system
 * may have no modes: there, what we make has the owner and the mode that the folder has. False leaves errno.
 */
static bool is_private(int folder)
{
	char name[NAME_MAX + 1];
	struct stat st, made;
	int fd, err;

	if (fstat(folder, &st))
		return false;
	if (st.st_uid == geteuid() && !(st.st_mode & OTHERS_WRITE))
		return true;
	own_name(name, sizeof(name), "owner");
	fd = folder_make_file(folder, name, O_WRONLY);
	if (fd < 0)
		return false;
	err = fstat(fd, &made) ? errno : 0;
	close(fd);
	unlinkat(folder, name, 0);
	if (!err && (made.st_uid != st.st_uid || (st.st_mode & ~made.st_mode & OTHERS_WRITE)))
		err = FOLDER_NOT_OURS;
	errno = err;
	return !err;
}

/* Whatever the program's umask is. Through its descriptor: under its name there may be another by now. */
static void make_private(int folder)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/thread-self/fd/%d", folder);
	chmod(path, 0700);
}

/* The folder of that name, made if need be; -1 and errno if it cannot be had or is not ours alone. */
static int own_folder(int parent, const char *name)
{
	bool is_new = !mkdirat(parent, name, 0700);
	int err = errno, folder;

	if (!is_new && err != EEXIST)
		return -1;
	/* Whoever put a link there chose where it leads. */
	folder = openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (folder < 0)
		return -1;
	if (is_new)
		make_private(folder);
	if (is_private(folder))
		return folder;
	err = errno;
	close(folder);
	errno = err;
	return -1;
}

int folder_open(char *path, size_t size, const char *output, const char *job)
{
	int top = own_folder(AT_FDCWD, output), folder = top, err;
	enum owner owner = top < 0 ? UNKNOWN : owner_of(top, job);
	char name[16];

	snprintf(path, size, "%s", output);
	for (int generation = 2; owner == OTHERS && generation < GENERATION_MAX; generation++) {
		if (folder != top)
			close(folder);
		snprintf(name, sizeof(name), "g%d", generation);
		snprintf(path, size, "%s/%s", output, name);
		folder = own_folder(top, name);
		owner = folder < 0 ? UNKNOWN : owner_of(folder, job);
	}
	err = errno;
	if (folder != top)
		close(top);
	if (owner != OURS && folder >= 0)
		close(folder);
	errno = err;
	return owner == OURS ? folder : -1;
}
