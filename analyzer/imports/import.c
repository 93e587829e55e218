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
#include "analyzer/imports/profiletrace.h"
#include "analyzer/imports/rmmlog.h"
#include "analyzer/imports/snapshot.h"
#include "analyzer/imports/snapshottrace.h"

static int failed(char *why, size_t size, const char *what, const char *path, int error)
{
	snprintf(why, size, "cannot %s '%s': %s", what, path, strerror(error));
	return -1;
}

enum source_kind { SOURCE_SNAPSHOT, SOURCE_LOG, SOURCE_PROFILE };

/* What is called so in results and in names of traces. */
static const struct {
	const char *kind, *trace;
} kinds[] = {
	[SOURCE_SNAPSHOT] = { "pytorch_snapshot", "snapshot" },
	[SOURCE_LOG] = { "rmm_log", "rmm" },
	[SOURCE_PROFILE] = { "pytorch_profile", "profile" },
};

/* What is imported: one of these. */
struct source {
	enum source_kind kind;
	struct snapshot snapshot;
	struct rmmlog log;
	struct profiletrace profile;
};

static int source_read(struct source *s, const char *path, char *why, size_t size)
{
	const char *wrong;

	s->kind = rmmlog_is_log(path) ? SOURCE_LOG : profiletrace_is_trace(path) ? SOURCE_PROFILE : SOURCE_SNAPSHOT;
	if (s->kind == SOURCE_SNAPSHOT) {
		if (!snapshot_read(&s->snapshot, path))
			return 0;
		snprintf(why, size, "%s", s->snapshot.why);
		return -1;
	}
	if (s->kind == SOURCE_LOG ? !rmmlog_open(&s->log, path) : !profiletrace_read(&s->profile, path))
		return 0;
	wrong = s->kind == SOURCE_LOG ? s->log.why : s->profile.why;
	snprintf(why, size, "cannot import '%s': %s", path, wrong);
	return -1;
}

static struct tfmt_header source_header(const struct source *s)
{
	if (s->kind == SOURCE_PROFILE)
		return profiletrace_header(&s->profile);
	return s->kind == SOURCE_LOG ? rmmlog_header(&s->log) : snapshottrace_header(&s->snapshot);
}

static void source_release(struct source *s)
{
	rmmlog_close(&s->log);
	snapshot_release(&s->snapshot);
	profiletrace_release(&s->profile);
}

/* Write its trace. Returns 0, an enum tfmt_err with *error the errno of TFMT_E_IO, or 1 with s->log.why. */
static int source_write(struct source *s, int fd, struct import_result *result, int *error)
{
	struct tfmt_header header = source_header(s);
	struct snapshottrace_result of_snapshot = { 0 };
	struct profiletrace_result of_profile = { 0 };
	struct rmmlog_result of_log = { 0 };
	int err;

	if (s->kind == SOURCE_LOG)
		err = rmmlog_write(&s->log, &header, fd, &of_log);
	else if (s->kind == SOURCE_PROFILE)
		err = profiletrace_write(&s->profile, &header, fd, &of_profile);
	else
		err = snapshottrace_write(&s->snapshot, &header, fd, &of_snapshot);
	/* Those of the others are 0. */
	result->kind = kinds[s->kind].kind;
	result->nr_events = of_log.nr_events + of_profile.nr_events + of_snapshot.nr_events;
	result->nr_unexplained = of_log.nr_unexplained + of_profile.nr_unexplained + of_snapshot.nr_unexplained;
	*error = of_log.error + of_profile.error + of_snapshot.error;
	return err;
}

/* The same; `name` is what messages call it. */
static int write_trace(struct source *s, int fd, const char *path, const char *name, struct import_result *result, char *why,
		       size_t size)
{
	int error, err = source_write(s, fd, result, &error);

	if (!err)
		return 0;
	if (err == TFMT_E_IO)
		return failed(why, size, "write", name, error);
	if (err > 0)
		snprintf(why, size, "cannot import '%s': %s", path, s->log.why);
	else
		snprintf(why, size, "cannot write '%s': %s", name, tfmt_strerror(err));
	return -1;
}

/* ---- a folder ------------------------------------------------------------------------------------- */

static int write_folder(struct source *s, const char *path, const char *out, struct import_result *result, char *why, size_t size)
{
	int dir, fd, err;

	if (mkdir(out, 0700)) {
		if (errno != EEXIST)
			return failed(why, size, "create", out, errno);
		snprintf(why, size, "cannot create '%s': it exists; give another name with -o", out);
		return -1;
	}
	dir = open(out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	snprintf(result->trace, sizeof(result->trace), "%s.0.%" PRIu64 ".vtr", kinds[s->kind].trace,
		 source_header(s).image_start_ns);
	fd = dir < 0 ? -1 : openat(dir, result->trace, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	err = fd < 0 ? failed(why, size, "create", out, errno) : write_trace(s, fd, path, out, result, why, size);
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
	struct source s = { 0 };
	int err = source_read(&s, path, why, size);

	*result = (struct import_result){ 0 };
	if (!err)
		err = write_folder(&s, path, out, result, why, size);
	source_release(&s);
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

static const char *convert(struct source *s, const char *path, char *why, size_t size)
{
	static struct converted *all;
	struct import_result result;
	struct converted *c;
	int fd;

	for (c = all; c; c = c->next)
		if (!strcmp(c->path, path))
			return c->trace;
	if (source_read(s, path, why, size))
		return NULL;
	fd = open_nameless(why, size);
	if (fd < 0)
		return NULL;
	if (write_trace(s, fd, path, path, &result, why, size)) {
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
	struct source s = { 0 };
	const char *trace;

	if (!snapshot_is_pickle(path) && !rmmlog_is_log(path) && !profiletrace_is_trace(path))
		return NULL;
	trace = convert(&s, path, why, size);
	source_release(&s);
	return trace;
}
