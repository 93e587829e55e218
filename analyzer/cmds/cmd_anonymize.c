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

#include "analyzer/base/heap.h"
#include "analyzer/base/message.h"
#include "analyzer/base/progress.h"
#include "analyzer/command.h"
#include "analyzer/exchange/alias.h"
#include "analyzer/exchange/recordingcopy.h"
#include "analyzer/recording/generation.h"
#include "analyzer/recording/recording.h"
#include "analyzer/recording/traceview.h"
#include "analyzer/ui/emit.h"
#include "analyzer/ui/options.h"

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
	struct tfmt_reader *reader; /* of the trace that is copied */
	struct recordingcopy copy;
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

	/* By its content a file is known as by its name, and nobody finds it by the name that it gets. */
	if (nr < 0 || type == TFMT_DEF_SOURCE)
		return 0;
	if (a->copy.in_census)
		alias_census_texts(&a->alias, text, nr);
	else
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

/* ---- all of it ------------------------------------------------------------------------------- */

static int note_host(void *context, const char *folder, unsigned number)
{
	struct anonymize *a = context;
	char path[PATH_MAX];
	size_t nr;
	char **names = recordingcopy_names(folder, &nr);

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
	const char **host = heap_alloc(nr, sizeof(*host));

	for (size_t i = 0; i < nr; i++)
		host[i] = a->hosts.member[i]->text;
	if (nr) {
		qsort(host, nr, sizeof(*host), compare_hosts);
		alias_host_order(&a->alias, host, (unsigned)nr);
	}
	free(host);
}

static void begin(void *context, struct tfmt_reader *reader, struct tfmt_header *header)
{
	struct anonymize *a = context;
	const struct tfmt_header original = *header;

	header_alias(&a->alias, header, &original);
	a->reader = reader;
}

static const char *host(void *context, const char *name)
{
	return alias_host(&((struct anonymize *)context)->alias, name);
}

static const char *job(void *context, const char *name)
{
	return alias_job(&((struct anonymize *)context)->alias, name);
}

static int anonymize(struct anonymize *a, const struct recording *r)
{
	int err = r->folder ? recording_each_generation(r, note_host, a) : 0;

	if (err)
		return message_error("cannot read '%s': %s", r->path, strerror(err));
	if (r->folder && !a->hosts.nr_members)
		return message_error("no trace of '%s' can be read; 'vramtrace verify' says why", r->path);
	order_hosts(a);
	a->copy.context = a;
	a->copy.begin = begin;
	a->copy.host = host;
	a->copy.job = job;
	a->copy.define = define;
	return recordingcopy_make(&a->copy, r);
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
	a.copy.out = argv[2];
	status = anonymize(&a, &r);
	emit_string(e, "path", NULL, r.path);
	emit_string(e, "output", NULL, a.copy.out);
	emit_uint(e, "traces", NULL, a.copy.nr_copied);
	emit_uint(e, "not_whole", NULL, a.copy.nr_not_whole);
	emit_uint(e, "replaced", NULL, nr_replaced(&a.alias.set));
	if (status != CMD_TROUBLE)
		emit_text(e,
			  "%s: %" PRIu64
			  " traces, %u names replaced; 'vramtrace info --strings' lists what it holds",
			  a.copy.out, a.copy.nr_copied, nr_replaced(&a.alias.set));
	alias_release(&a.alias);
	textset_release(&a.hosts);
	recording_release(&r);
	return emit_close(e) ? CMD_TROUBLE : status;
}
