/* SPDX-License-Identifier: MIT */
/* vramtrace anonymize: a copy of a recording without the names in it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzer/alias.h"
#include "analyzer/command.h"
#include "analyzer/generation.h"
#include "analyzer/options.h"
#include "analyzer/recording.h"
#include "analyzer/traceview.h"
#include "analyzer/ui/emit.h"
#include "analyzer/ui/message.h"
#include "analyzer/ui/progress.h"

struct anonymize_opts {
	struct emit_opts emit;
};

static const struct opt anonymize_optv[] = { EMIT_JSON_OPTIONS(struct anonymize_opts, emit), OPT_END };

static const struct opt_help anonymize_help = {
	.command = "anonymize",
	.purpose =
		"Copy a recording with every name of yours replaced: paths, functions, hosts, jobs, ranges, notes.",
	.usage = "[options] RECORDING OUT",
	.example = "vramtrace anonymize train.vtr shared.vtr\n"
		   "vramtrace info --strings shared.vtr",
	.options = anonymize_optv,
};

struct anonymize {
	struct alias alias;
	struct textset hosts; /* of all traces, kind 0: to be sorted before any gets its number */
	const char *out;
	struct tfmt_reader *reader; /* of the trace that is copied */
	uint64_t nr_copied, nr_not_whole;
};

/* ---- one trace ------------------------------------------------------------------------------- */

static int define(void *context, struct tfmt_writer *w, uint32_t type, uint32_t id, const uint8_t *payload,
		  size_t len)
{
	struct anonymize *a = context;
	struct tfmt_text text[TFMT_DEFINITION_TEXTS];
	struct tfmt_frame frame;
	uint8_t *changed, string[512];
	size_t bytes;
	int nr = tfmt_definition_texts(type, payload, len, text), err;

	if (nr < 0)
		return 0;
	alias_texts(&a->alias, text, nr);
	err = tfmt_definition_rewrite(type, payload, len, text, &changed, &bytes);
	if (err) /* of a type that is not known: nobody can say what it holds */
		return err == TFMT_E_NOMEM ? err : 0;
	if (type == TFMT_DEF_FRAME && tfmt_reader_frame(a->reader, id, &frame) &&
	    frame.kind == TFMT_FRAME_NODE) {
		const char *name = tfmt_reader_string(a->reader, (uint32_t)frame.a);

		/* Only now it is known that this text is a node's name and no range's: it stays. */
		if (alias_is_torch_node(name) && strlen(name) < sizeof(string) - 16)
			err = tfmt_writer_definition(
				w, TFMT_DEF_STRING, (uint32_t)frame.a, string,
				(size_t)(tfmt_put_string(string, name, strlen(name)) - string));
	}
	if (!err)
		err = tfmt_writer_definition(w, type, id, changed, bytes);
	free(changed);
	return err;
}

static void header_alias(struct alias *a, struct tfmt_header *to, const struct tfmt_header *from)
{
	*to = *from;
	alias_boot_id(a, to->boot_id);
	snprintf(to->host, sizeof(to->host), "%s", alias_host(a, from->host));
	snprintf(to->job, sizeof(to->job), "%s", alias_job(a, from->job));
	snprintf(to->ring_path, sizeof(to->ring_path), "%s", alias_path(a, from->ring_path));
}

/* Say what was wrong with the original; the copy has what could be read. */
static void judge(struct anonymize *a, struct traceview *v)
{
	const struct tfmt_summary *s = tfmt_reader_summary(v->reader);

	if (s->nr_damaged || s->cut)
		message_warn("'%s' is not whole: %s (at byte %" PRIu64 "); the copy has what could be read",
			     v->path, tfmt_reader_message(v->reader), tfmt_reader_offset(v->reader));
	else if (traceview_lacks_end(v))
		message_warn("%s; the copy has what could be read", v->trouble);
	else if (s->end == TFMT_PROCESS_RUNNING)
		message_warn("'%s' is still being recorded; the copy has what there was", v->path);
	else
		return;
	a->nr_not_whole++;
}

/* Copy a trace into a new file, dir/name. Returns 0, or a message has been printed. */
static int copy_trace(struct anonymize *a, struct traceview *v, int dir, const char *name)
{
	int fd = openat(dir, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600), err;
	struct tfmt_header header;

	if (fd < 0)
		return message_error("cannot create '%s' for '%s': %s", name, a->out, strerror(errno));
	header_alias(&a->alias, &header, v->header);
	a->reader = v->reader;
	progress_begin(v->path);
	err = fchmod(fd, 0600) ? TFMT_E_IO : tfmt_copy(v->reader, fd, &header, define, a);
	progress_end();
	if (close(fd) && !err)
		err = TFMT_E_IO;
	if (!err) {
		a->nr_copied++;
		judge(a, v);
		return 0;
	}
	message_error("cannot write '%s' of '%s': %s", name, a->out,
		      err == TFMT_E_IO ? strerror(errno) : tfmt_strerror(err));
	unlinkat(dir, name, 0);
	return err;
}

/* Returns 0, also when the trace cannot be read at all, which is said; else a message has been printed. */
static int copy_into(struct anonymize *a, const char *path, int dir, const char *name)
{
	struct traceview v;
	char own[512];
	int err = 0;

	if (traceview_open(&v, path)) {
		message_warn("%s; it is not in the copy", v.trouble);
		a->nr_not_whole++;
	} else {
		snprintf(own, sizeof(own), "%s.%u.%" PRIu64 ".vtr", alias_host(&a->alias, v.header->host),
			 v.header->pid, v.header->image_start_ns);
		err = copy_trace(a, &v, dir, name ? name : own);
	}
	traceview_close(&v);
	return err;
}

/* ---- a folder -------------------------------------------------------------------------------- */

/* A file of one line, as `job` and `largest` are. */
static int write_line(struct anonymize *a, int dir, const char *name, const char *line)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	bool done = fd >= 0 && !fchmod(fd, 0600) && dprintf(fd, "%s\n", line) == (int)strlen(line) + 1;

	if (fd >= 0 && close(fd))
		done = false;
	return done ? 0 : message_error("cannot write '%s' of '%s': %s", name, a->out, strerror(errno));
}

/* A new folder for nobody else; its descriptor, or -1 after a message. */
static int make_folder(struct anonymize *a, int dir, const char *name)
{
	int fd = mkdirat(dir, name, 0700)
			 ? -1
			 : openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd >= 0 && !fchmod(fd, 0700))
		return fd;
	if (errno == EEXIST)
		message_error("cannot create '%s': it exists; give another name", a->out);
	else
		message_error("cannot create '%s': %s", a->out, strerror(errno));
	if (fd >= 0)
		close(fd);
	return -1;
}

static int copy_lines(struct anonymize *a, const char *folder, int dir)
{
	char job[JOB_ID_MAX], largest[16];
	unsigned run = generation_largest_run(folder);
	int err = generation_job(folder, job) ? write_line(a, dir, "job", alias_job(&a->alias, job)) : 0;

	snprintf(largest, sizeof(largest), "%u", run);
	return err || !run ? err : write_line(a, dir, "largest", largest);
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The traces' names in the folder, sorted, so that every copy numbers alike. The caller's to free. */
static char **trace_names(const char *folder, size_t *nr)
{
	char **names = NULL, **grown;
	struct dirent *entry;
	DIR *dir = opendir(folder);

	*nr = 0;
	while (dir && (entry = readdir(dir))) {
		if (!generation_is_trace(entry->d_name) || entry->d_type == DT_DIR)
			continue;
		grown = realloc(names, (*nr + 1) * sizeof(*names));
		if (!grown)
			break;
		names = grown;
		names[(*nr)++] = textset_format("%s", entry->d_name);
	}
	if (dir)
		closedir(dir);
	if (*nr)
		qsort(names, *nr, sizeof(*names), compare_names);
	return names;
}

struct generation_copy {
	struct anonymize *a;
	int root; /* descriptor of OUT */
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
		dir = make_folder(g->a, g->root, name);
	if (dir < 0)
		return CMD_TROUBLE;
	err = copy_lines(g->a, folder, dir);
	names = trace_names(folder, &nr);
	for (size_t i = 0; i < nr; i++) {
		if (!err && !generation_join(path, folder, names[i]))
			err = copy_into(g->a, path, dir, NULL);
		free(names[i]);
	}
	free(names);
	if (dir != g->root)
		close(dir);
	return err ? CMD_TROUBLE : 0;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static int note_host(void *context, const char *folder, unsigned number)
{
	struct anonymize *a = context;
	char path[PATH_MAX];
	size_t nr;
	char **names = trace_names(folder, &nr);

	(void)number;
	for (size_t i = 0; i < nr; i++) {
		struct traceview v;

		if (!generation_join(path, folder, names[i]) && !traceview_open(&v, path)) {
			textset_add(&a->hosts, 0, v.header->host, strlen(v.header->host));
			traceview_close(&v);
		}
		free(names[i]);
	}
	free(names);
	return 0;
}

/* As the names of files sort in which a host's name ends at a dot. */
static int compare_hosts(const void *va, const void *vb)
{
	const char *a = *(const char *const *)va, *b = *(const char *const *)vb;

	while (*a && *a == *b)
		a++, b++;
	return (*a ? (unsigned char)*a : '.') - (*b ? (unsigned char)*b : '.');
}

static void order_hosts(struct anonymize *a)
{
	size_t nr = a->hosts.nr_members;
	const char **host = calloc(nr + 1, sizeof(*host));

	for (size_t i = 0; host && i < nr; i++)
		host[i] = a->hosts.member[i]->text;
	if (host && nr) {
		qsort(host, nr, sizeof(*host), compare_hosts);
		alias_host_order(&a->alias, host, (unsigned)nr);
	}
	free(host);
}

static int copy_folder(struct anonymize *a, const struct recording *r)
{
	struct generation_copy g = { .a = a };
	int err = recording_each_generation(r, note_host, a);

	if (err)
		return message_error("cannot read '%s': %s", r->path, strerror(err));
	if (!a->hosts.nr_members)
		return message_error("no trace of '%s' can be read; 'vramtrace verify' says why", r->path);
	order_hosts(a);
	g.root = make_folder(a, AT_FDCWD, a->out);
	if (g.root < 0)
		return CMD_TROUBLE;
	err = recording_each_generation(r, copy_generation, &g);
	close(g.root);
	return err ? CMD_TROUBLE : CMD_FINE;
}

static int copy_recording(struct anonymize *a, const struct recording *r)
{
	int err = r->folder ? copy_folder(a, r) : copy_into(a, r->trace[0], AT_FDCWD, a->out);

	if (err)
		return CMD_TROUBLE;
	if (!a->nr_copied)
		return message_error("nothing of '%s' could be copied", r->path);
	return a->nr_not_whole ? CMD_FINDING : CMD_FINE;
}

static unsigned nr_replaced(const struct textset *s)
{
	unsigned nr = 0;

	for (size_t i = 0; i < s->nr_members; i++)
		nr += s->member[i]->replacement && strcmp(s->member[i]->replacement, s->member[i]->text) != 0;
	return nr;
}

int cmd_anonymize(int argc, const char **argv)
{
	struct anonymize_opts o = { 0 };
	enum opt_result parsed = opt_parse(&anonymize_help, &argc, argv, &o);
	struct anonymize a = { 0 };
	struct recording r;
	struct emit *e;
	char why[2048];
	int status;

	if (parsed != OPT_OK)
		return opt_status(parsed);
	if (argc != 3)
		return opt_wrong(&anonymize_help, argc < 2   ? "no recording to read"
						  : argc < 3 ? "no name for the copy"
							     : "one recording at a time");
	e = emit_open(stdout, &o.emit, "vramtrace/anonymize/1");
	if (recording_open(&r, argv[1], why, sizeof(why))) {
		recording_release(&r);
		return emit_fail(e, "%s", why);
	}
	a.out = argv[2];
	status = copy_recording(&a, &r);
	emit_string(e, "path", NULL, r.path);
	emit_string(e, "output", NULL, a.out);
	emit_uint(e, "traces", NULL, a.nr_copied);
	emit_uint(e, "not_whole", NULL, a.nr_not_whole);
	emit_uint(e, "replaced", NULL, nr_replaced(&a.alias.set));
	if (status != CMD_TROUBLE)
		emit_text(e,
			  "%s: %" PRIu64
			  " traces, %u names replaced; 'vramtrace info --strings' lists what it holds",
			  a.out, a.nr_copied, nr_replaced(&a.alias.set));
	alias_release(&a.alias);
	textset_release(&a.hosts);
	recording_release(&r);
	return emit_close(e) ? CMD_TROUBLE : status;
}
