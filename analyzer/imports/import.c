/* SPDX-License-Identifier: MIT */
/* Where an imported trace lies: in a folder that stays, or in a file that nobody else can open. */
#include "analyzer/imports/import.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzer/base/heap.h"
#include "analyzer/imports/snapshot.h"
#include "analyzer/imports/snapshottrace.h"

static int failed(char *why, size_t size, const char *what, const char *path, int error)
{
	snprintf(why, size, "cannot %s '%s': %s", what, path, strerror(error));
	return -1;
}

/* Write a snapshot's trace; `name` is what messages call it. */
static int write_trace(struct snapshot *s, int fd, const char *name, struct import_result *result, char *why, size_t size)
{
	struct tfmt_header header = snapshottrace_header(s);
	struct snapshottrace_result written = { 0 };
	int err = snapshottrace_write(s, &header, fd, &written);

	result->nr_events = written.nr_events;
	result->nr_unexplained = written.nr_unexplained;
	if (!err)
		return 0;
	if (err == TFMT_E_IO)
		return failed(why, size, "write", name, written.error);
	snprintf(why, size, "cannot write '%s': %s", name, tfmt_strerror(err));
	return -1;
}

/* ---- a folder ------------------------------------------------------------------------------------- */

static int write_folder(struct snapshot *s, const char *out, struct import_result *result, char *why, size_t size)
{
	int dir, fd, err;

	if (mkdir(out, 0700)) {
		if (errno != EEXIST)
			return failed(why, size, "create", out, errno);
		snprintf(why, size, "cannot create '%s': it exists; give another name with -o", out);
		return -1;
	}
	dir = open(out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	snprintf(result->trace, sizeof(result->trace), "snapshot.0.%" PRIu64 ".vtr", snapshottrace_header(s).image_start_ns);
	fd = dir < 0 ? -1 : openat(dir, result->trace, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	err = fd < 0 ? failed(why, size, "create", out, errno) : write_trace(s, fd, out, result, why, size);
	if (fd >= 0 && close(fd) && !err)
		err = failed(why, size, "write", out, errno);
	if (err && dir >= 0)
		unlinkat(dir, result->trace, 0);
	if (dir >= 0)
		close(dir);
	if (err)
		rmdir(out);
	return err;
}

int import_make(const char *path, const char *out, struct import_result *result, char *why, size_t size)
{
	struct snapshot s;
	int err = snapshot_read(&s, path);

	*result = (struct import_result){ 0 };
	if (err)
		snprintf(why, size, "%s", s.why);
	else
		err = write_folder(&s, out, result, why, size);
	snapshot_release(&s);
	return err;
}

/* ---- a file without a name ------------------------------------------------------------------------ */

/* What has been converted, so that a file that is named twice is read once. */
struct converted {
	struct converted *next;
	char *path;
	char trace[32];
};

static int open_nameless(char *why, size_t size)
{
	const char *folder = getenv("TMPDIR");
	char *path;
	int fd;

	heap_need(asprintf(&path, "%s/vramtrace-import-XXXXXX", folder && *folder ? folder : "/tmp") < 0 ? NULL : path);
	fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0)
		failed(why, size, "create", path, errno);
	else
		unlink(path); /* it ends with this process, however that ends */
	free(path);
	return fd;
}

static const char *convert(struct snapshot *s, const char *path, char *why, size_t size)
{
	static struct converted *all;
	struct import_result result;
	struct converted *c;
	int fd;

	for (c = all; c; c = c->next)
		if (!strcmp(c->path, path))
			return c->trace;
	if (snapshot_read(s, path)) {
		snprintf(why, size, "%s", s->why);
		return NULL;
	}
	fd = open_nameless(why, size);
	if (fd < 0)
		return NULL;
	if (write_trace(s, fd, path, &result, why, size)) {
		close(fd);
		return NULL;
	}
	c = heap_alloc(1, sizeof(*c));
	*c = (struct converted){ .next = all, .path = heap_copy(path) };
	snprintf(c->trace, sizeof(c->trace), "/proc/self/fd/%d", fd);
	all = c;
	return c->trace;
}

const char *import_temporary(const char *path, char *why, size_t size)
{
	struct snapshot s = { 0 };
	const char *trace;

	if (!snapshot_is_pickle(path))
		return NULL;
	trace = convert(&s, path, why, size);
	snapshot_release(&s);
	return trace;
}
