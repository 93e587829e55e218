/* SPDX-License-Identifier: MIT */
/* What is in the way of a recording. */
#include "analyzer/launch/obstacle.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzer/base/message.h"
#include "analyzer/command.h"
#include "analyzer/recording/generation.h"
#include "tracefmt/tracefmt.h"

/* Who holds the lock on a trace: a pid, 0 = nobody, -1 = somebody (locks of open files name no process). */
static pid_t locked_by(int dir, const char *name)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	pid_t holder = 0;

	if (fd < 0)
		return 0;
	if (!fcntl(fd, F_OFD_GETLK, &lock) && lock.l_type != F_UNLCK)
		holder = lock.l_pid;
	close(fd);
	return holder;
}

/* What another job has left in a recording directory. */
struct remains {
	unsigned nr_files;          /* traces, rings, job files */
	char foreign[NAME_MAX + 1]; /* something that is no part of a recording, "" if nothing */
	char running[NAME_MAX + 1]; /* a trace that is being written, "" if none */
};

/* Open a folder below dir without following links; -1 on trouble. */
static DIR *open_below(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;

	if (fd >= 0 && !d)
		close(fd);
	return d;
}

static bool is_dot(const char *name)
{
	return !strcmp(name, ".") || !strcmp(name, "..");
}

static void look_around(DIR *d, bool is_top, struct remains *r)
{
	struct dirent *entry;

	while ((entry = readdir(d))) {
		const char *name = entry->d_name;
		DIR *below = is_top && generation_number(name) ? open_below(dirfd(d), name) : NULL;

		if (below) {
			look_around(below, false, r);
			closedir(below);
		} else if (generation_is_file(name)) {
			r->nr_files++;
			if (generation_is_trace(name) && locked_by(dirfd(d), name))
				snprintf(r->running, sizeof(r->running), "%s", name);
		} else if (!is_dot(name)) {
			snprintf(r->foreign, sizeof(r->foreign), "%s", name);
		}
	}
	rewinddir(d);
}

/* Was this trace made by the job? An unreadable one was not. */
static bool trace_made_by(const char *path, const char *job)
{
	struct tfmt_reader *reader = NULL;
	bool same;

	if (tfmt_reader_open(&reader, path, NULL))
		return false;
	same = !strcmp(tfmt_reader_header(reader)->job, job);
	tfmt_reader_close(reader);
	return same;
}

/*
 * Remove the recording files of dir except those of the job: its other processes may have begun since we
 * looked. Returns 0 or an errno.
 */
static int remove_remains(const char *path, DIR *d, bool is_top, const char *job)
{
	struct dirent *entry;
	int err = 0;

	while (!err && (entry = readdir(d))) {
		const char *name = entry->d_name;
		DIR *below = is_top && generation_number(name) ? open_below(dirfd(d), name) : NULL;
		char whole[PATH_MAX];

		if (generation_join(whole, path, name))
			continue;
		if (below) {
			err = remove_remains(whole, below, false, job);
			closedir(below);
			if (!err && unlinkat(dirfd(d), name, AT_REMOVEDIR) && errno != ENOTEMPTY &&
			    errno != ENOENT)
				err = errno;
		} else if (generation_is_file(name)) {
			if ((generation_is_trace(name) && trace_made_by(whole, job)) ||
			    (!strcmp(name, "job") && generation_made_by(path, job)))
				continue;
			if (unlinkat(dirfd(d), name, 0) && errno != ENOENT)
				err = errno;
		}
	}
	return err;
}

/* Trouble for an interactive run; any other goes on into a new generation and is only told. */
static int in_the_way(bool is_interactive, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	message_line(format, args);
	va_end(args);
	return is_interactive ? RUN_TROUBLE : 0;
}

static int clear_directory(const struct output *o, DIR *d, bool force, bool is_interactive)
{
	struct remains r = { 0 };
	int err;

	look_around(d, true, &r);
	if (r.foreign[0])
		return in_the_way(is_interactive,
				  "'%s' is not a recording: it holds '%s'; choose another output", o->path,
				  r.foreign);
	if (!r.nr_files || generation_made_by(o->path, o->job))
		return 0;
	if (!force && !is_interactive)
		return 0;
	if (!force)
		return in_the_way(true, "'%s' exists; choose another output, or replace it with --force",
				  o->path);
	if (r.running[0])
		return in_the_way(is_interactive,
				  "'%s' is still being recorded ('%s'); choose another output", o->path,
				  r.running);
	err = remove_remains(o->path, d, true, o->job);
	if (err)
		return in_the_way(is_interactive, "cannot replace '%s': %s", o->path, strerror(err));
	/* Made again when there is something to record; not empty if others of this job have begun. */
	rmdir(o->path);
	return 0;
}

/*
 * What is made in the folder, as its owner and its mode are on that file system: a server may know us by another
 * number, and some have no modes. False if nothing can be made.
 */
static bool probe(DIR *d, struct stat *made)
{
	char name[64];
	bool known;
	int fd;

	snprintf(name, sizeof(name), "owner.%d.vtr.new", (int)getpid());
	fd = openat(dirfd(d), name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	known = fd >= 0 && !fstat(fd, made);
	if (fd >= 0) {
		close(fd);
		unlinkat(dirfd(d), name, 0);
	}
	return known;
}

/* The recorder takes no folder that others own or may write into: they could put another trace in a trace's place. */
static int check_owner(const struct output *o, DIR *d)
{
	static const mode_t others = S_IWGRP | S_IWOTH;
	struct stat st, made;

	if (fstat(dirfd(d), &st) || (st.st_uid == geteuid() && !(st.st_mode & others)) || !probe(d, &made))
		return 0;
	if (st.st_uid != made.st_uid)
		return in_the_way(true, "'%s' belongs to user %u, not to user %u: what is recorded there could be "
				  "replaced; choose another output with '-o'", o->path, (unsigned)st.st_uid,
				  (unsigned)made.st_uid);
	if (st.st_mode & ~made.st_mode & others)
		return in_the_way(true, "others may write into '%s' (mode %04o): what is recorded there could be replaced; "
				  "'chmod go-w' it, or choose another output with '-o'", o->path,
				  (unsigned)st.st_mode & 07777);
	return 0;
}

/* The folder that will hold the recording must exist and let us write. */
static int check_parent(const struct output *o)
{
	char parent[PATH_MAX];
	struct stat st;
	char *slash;

	snprintf(parent, sizeof(parent), "%s", o->path);
	slash = strrchr(parent, '/');
	slash[slash == parent] = 0;
	if (stat(parent, &st)) {
		message_error(
			"cannot write '%s': folder '%s': %s; make it, or choose another output with '-o'",
			o->path, parent, strerror(errno));
		return RUN_TROUBLE;
	}
	if (access(parent, W_OK | X_OK)) {
		message_error("cannot write '%s': folder '%s': %s; choose another output with '-o'", o->path,
			      parent, S_ISDIR(st.st_mode) ? strerror(errno) : strerror(ENOTDIR));
		return RUN_TROUBLE;
	}
	return 0;
}

int obstacle_clear(const struct output *o, bool force, bool is_interactive)
{
	struct stat st;
	int status;
	DIR *d;

	if (stat(o->path, &st) && errno == ENOENT && !lstat(o->path, &st))
		return in_the_way(is_interactive, "'%s' is a link to nothing; choose another output", o->path);
	if (!lstat(o->path, &st) && S_ISLNK(st.st_mode))
		return in_the_way(true, "'%s' is a link, and nothing is written through links; choose another output",
				  o->path);
	if (stat(o->path, &st) && errno == ENOENT)
		return check_parent(o);
	if (stat(o->path, &st))
		return in_the_way(true, "cannot write '%s': %s", o->path, strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return in_the_way(is_interactive, "'%s' exists and is not a recording; choose another output",
				  o->path);
	if (access(o->path, W_OK | X_OK) || !(d = opendir(o->path)))
		return in_the_way(true, "cannot write '%s': %s; choose another output with '-o'", o->path,
				  strerror(errno));
	status = check_owner(o, d);
	if (!status)
		status = clear_directory(o, d, force, is_interactive);
	closedir(d);
	return status;
}

int obstacle_left(const struct output *o)
{
	struct stat st;

	if (!mkdir(o->path, 0777)) {
		rmdir(o->path);
		return 0;
	}
	if (errno != EEXIST || lstat(o->path, &st))
		return errno;
	if (S_ISLNK(st.st_mode))
		return ELOOP;
	if (!S_ISDIR(st.st_mode))
		return ENOTDIR;
	return access(o->path, W_OK | X_OK) ? errno : 0;
}
