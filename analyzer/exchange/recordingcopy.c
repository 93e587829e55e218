/* SPDX-License-Identifier: MIT */
/* Copying a recording, trace by trace, into a new folder or file. */
#include "analyzer/exchange/recordingcopy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzer/base/heap.h"
#include "analyzer/base/message.h"
#include "analyzer/base/progress.h"
#include "analyzer/command.h"
#include "analyzer/recording/censusfiles.h"
#include "analyzer/recording/generation.h"
#include "analyzer/recording/hostmemory.h"
#include "analyzer/recording/textset.h"
#include "analyzer/recording/traceview.h"
#include "analyzer/recording/unrecorded.h"

/* ---- one trace ------------------------------------------------------------------------------- */

static int define_as_it_is(void *context, struct tfmt_writer *w, uint32_t type, uint32_t id, const uint8_t *payload,
			   size_t len)
{
	(void)context;
	return tfmt_writer_definition(w, type, id, payload, len);
}

/*
 * Say what was wrong with the original; the copy has what could be read. A census may end anywhere, as when the program was
 * faster.
 */
static void warn_if_not_whole(struct recordingcopy *c, struct traceview *v)
{
	const struct tfmt_summary *s = tfmt_reader_summary(v->reader);

	if (c->in_census && !s->nr_damaged)
		return;
	if (s->nr_damaged || s->cut)
		message_warn("'%s' is not whole: %s (at byte %" PRIu64 "); the copy has what could be read",
			     v->path, tfmt_reader_message(v->reader), tfmt_reader_offset(v->reader));
	else if (traceview_lacks_end(v))
		message_warn("%s; the copy has what could be read", v->trouble);
	else if (s->end == TFMT_PROCESS_RUNNING)
		message_warn("'%s' is still being recorded; the copy has what there was", v->path);
	else
		return;
	c->nr_not_whole++;
}

/* Copy a trace into a new file, dir/name. Returns 0, or a message has been printed. */
static int copy_trace(struct recordingcopy *c, struct traceview *v, int dir, const char *name)
{
	int fd = openat(dir, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600), err;
	struct tfmt_header header;

	if (fd < 0)
		return message_error("cannot create '%s' for '%s': %s", name, c->out, strerror(errno));
	header = *v->header;
	if (c->begin)
		c->begin(c->context, v->reader, &header);
	progress_begin(v->path);
	err = fchmod(fd, 0600) ? TFMT_E_IO :
				 tfmt_copy(v->reader, fd, &header, c->repair, c->define ? c->define : define_as_it_is,
					   c->context);
	progress_end();
	if (close(fd) && !err)
		err = TFMT_E_IO;
	if (!err) {
		c->nr_copied++;
		warn_if_not_whole(c, v);
		return 0;
	}
	message_error("cannot write '%s' of '%s': %s", name, c->out,
		      err == TFMT_E_IO ? strerror(errno) : tfmt_strerror(err));
	unlinkat(dir, name, 0);
	return err;
}

/* ---- censuses -------------------------------------------------------------------------------- */

/* A file of which nothing was written when the program ended holds nothing to copy. */
static bool is_begun(const char *path)
{
	struct tfmt_header header;

	return tfmt_header_read(path, &header) != TFMT_E_EMPTY;
}

/* The copy of a census of the process whose trace is being copied, as dir/name. Returns 0, or a message has been printed. */
static int copy_census(struct recordingcopy *c, const char *path, int dir, const char *name)
{
	struct traceview v;
	uint64_t nr_copied = c->nr_copied; /* traces alone count */
	int err = 0;

	if (!is_begun(path))
		return 0;
	if (traceview_open(&v, path)) {
		message_warn("%s; it is not in the copy", v.trouble);
		c->nr_not_whole++;
	} else {
		c->in_census = true;
		err = copy_trace(c, &v, dir, name);
		c->in_census = false;
	}
	traceview_close(&v);
	c->nr_copied = nr_copied;
	return err;
}

/* Those of a trace of which the copy is called dir/name: beside that, by the same numbers. */
static int copy_censuses(struct recordingcopy *c, const char *trace, int dir, const char *name)
{
	struct censusfiles files;
	char own[PATH_MAX];
	int err = 0;

	censusfiles_find(&files, trace);
	for (size_t i = 0; i < files.nr_files && !err && generation_is_trace(name); i++) {
		snprintf(own, sizeof(own), "%.*s.%lu" CENSUSFILES_SUFFIX, (int)(strlen(name) - strlen(".vtr")), name,
			 files.file[i].number);
		err = copy_census(c, files.file[i].path, dir, own);
	}
	censusfiles_release(&files);
	return err;
}

/* ---- traces and what belongs to them ---------------------------------------------------------- */

/* Returns 0, also when the trace cannot be read at all, which is said; else a message has been printed. */
static int copy_into(struct recordingcopy *c, const char *path, int dir, const char *name)
{
	struct traceview v;
	char own[512];
	int err = 0;

	if (traceview_open(&v, path)) {
		message_warn("%s; it is not in the copy", v.trouble);
		c->nr_not_whole++;
	} else {
		if (c->host)
			snprintf(own, sizeof(own), "%s.%u.%" PRIu64 ".vtr", c->host(c->context, v.header->host),
				 v.header->pid, v.header->image_start_ns);
		else /* not what the header says: that may be anything */
			snprintf(own, sizeof(own), "%s", strrchr(path, '/') ? strrchr(path, '/') + 1 : path);
		name = name ? name : own;
		err = copy_trace(c, &v, dir, name);
		err = err ? err : copy_censuses(c, path, dir, name);
	}
	traceview_close(&v);
	return err;
}

/* ---- a folder -------------------------------------------------------------------------------- */

/* A file of one line, as `job` and `largest` are. */
static int write_line(struct recordingcopy *c, int dir, const char *name, const char *line)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	bool done = fd >= 0 && !fchmod(fd, 0600) && dprintf(fd, "%s\n", line) == (int)strlen(line) + 1;

	if (fd >= 0 && close(fd))
		done = false;
	return done ? 0 : message_error("cannot write '%s' of '%s': %s", name, c->out, strerror(errno));
}

/* A new folder for nobody else; its descriptor, or -1 after a message. */
static int make_folder(struct recordingcopy *c, int dir, const char *name)
{
	int fd = mkdirat(dir, name, 0700)
			 ? -1
			 : openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd >= 0 && !fchmod(fd, 0700))
		return fd;
	if (errno == EEXIST)
		message_error("cannot create '%s': it exists; give another name", c->out);
	else
		message_error("cannot create '%s': %s", c->out, strerror(errno));
	if (fd >= 0)
		close(fd);
	return -1;
}

static int copy_lines(struct recordingcopy *c, const char *folder, int dir)
{
	char job[JOB_ID_MAX], largest[16];
	unsigned run = generation_largest_run(folder);
	int err = 0;

	if (generation_job(folder, job))
		err = write_line(c, dir, "job", c->job ? c->job(c->context, job) : job);

	snprintf(largest, sizeof(largest), "%u", run);
	return err || !run ? err : write_line(c, dir, "largest", largest);
}

/* What `run` noted of the host's memory (hostmemory.h), under the name that the copy has for the host. */
static int copy_notes(struct recordingcopy *c, const char *folder, int dir)
{
	char path[PATH_MAX], name[512];
	struct hostmemory_note note;
	struct dirent *entry;
	DIR *d = opendir(folder);
	int err = 0;

	while (d && !err && (entry = readdir(d))) {
		if (generation_join(path, folder, entry->d_name) || !hostmemory_read_note(&note, path))
			continue;
		snprintf(name, sizeof(name), "%s.%s.host", c->host ? c->host(c->context, note.host) : note.host,
			 note.pid);
		err = write_line(c, dir, name, note.text);
	}
	if (d)
		closedir(d);
	return err;
}

/* Who did not record, and why: a copy is as incomplete as what it is of. Names of programs and hosts are left out. */
static int copy_unrecorded(struct recordingcopy *c, const char *folder, int dir)
{
	struct unrecorded *list;
	size_t nr = unrecorded_read(&list, folder);
	char name[64], text[128];
	int err = 0;

	for (size_t i = 0; i < nr && !err; i++) {
		snprintf(name, sizeof(name), "unrecorded.%" PRIu32 ".%zu" TFMT_WHY_SUFFIX, list[i].pid, i);
		snprintf(text, sizeof(text), "why %s\nerrno %d\nunrecorded %" PRIu64, tfmt_why_name(list[i].why),
			 list[i].error, list[i].nr);
		err = write_line(c, dir, name, text);
	}
	free(list);
	return err;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

char **recordingcopy_names(const char *folder, size_t *nr)
{
	char **names = NULL;
	struct dirent *entry;
	DIR *dir = opendir(folder);

	*nr = 0;
	while (dir && (entry = readdir(dir))) {
		if (!generation_is_trace(entry->d_name) || entry->d_type == DT_DIR)
			continue;
		names = heap_need(realloc(names, (*nr + 1) * sizeof(*names)));
		names[(*nr)++] = textset_format("%s", entry->d_name);
	}
	if (dir)
		closedir(dir);
	if (*nr)
		qsort(names, *nr, sizeof(*names), compare_names);
	return names;
}

struct generation_copy {
	struct recordingcopy *c;
	int root; /* descriptor of the copy */
};

static int copy_generation(void *context, const char *folder, unsigned number)
{
	struct generation_copy *g = context;
	char name[16], path[PATH_MAX];
	int dir = g->root, err;
	size_t nr;
	char **names;

	snprintf(name, sizeof(name), "g%u", number);
	if (number > 1)
		dir = make_folder(g->c, g->root, name);
	if (dir < 0)
		return CMD_TROUBLE;
	err = copy_lines(g->c, folder, dir);
	err = err ? err : copy_notes(g->c, folder, dir);
	err = err ? err : copy_unrecorded(g->c, folder, dir);
	names = recordingcopy_names(folder, &nr);
	for (size_t i = 0; i < nr; i++) {
		if (!err && !generation_join(path, folder, names[i]))
			err = copy_into(g->c, path, dir, NULL);
		free(names[i]);
	}
	free(names);
	if (dir != g->root)
		close(dir);
	return err ? CMD_TROUBLE : 0;
}

static int copy_folder(struct recordingcopy *c, const struct recording *r)
{
	struct generation_copy g = { .c = c, .root = make_folder(c, AT_FDCWD, c->out) };
	int err;

	if (g.root < 0)
		return CMD_TROUBLE;
	err = recording_each_generation(r, copy_generation, &g);
	close(g.root);
	return err ? CMD_TROUBLE : CMD_FINE;
}

int recordingcopy_make(struct recordingcopy *c, const struct recording *r)
{
	int err = r->folder ? copy_folder(c, r) : copy_into(c, r->trace[0], AT_FDCWD, c->out);

	if (err)
		return CMD_TROUBLE;
	if (!c->nr_copied)
		return message_error("nothing of '%s' could be copied", r->path);
	return c->nr_not_whole ? CMD_FINDING : CMD_FINE;
}
