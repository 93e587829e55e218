/* SPDX-License-Identifier: MIT */
/* vramtrace html: a recording as one page for a browser. */
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/base/heap.h"
#include "analyzer/base/human.h"
#include "analyzer/base/jsontext.h"
#include "analyzer/base/message.h"
#include "analyzer/command.h"
#include "analyzer/export/outfile.h"
#include "analyzer/pages/print_recording.h"
#include "analyzer/picture/documents.h"
#include "analyzer/picture/picture.h"
#include "analyzer/picture/webpage.h"
#include "analyzer/picturepages/print_picture.h"
#include "analyzer/purpose/rules.h"
#include "analyzer/replay/replay.h"
#include "analyzer/ui/options.h"

#define SCHEMA "vramtrace/html/1"
#define PAGE_MAX (5u << 20)    /* bytes of a page */
#define PARTS 512              /* moments at which small blocks are summed up, before anything is left out */
#define TRIES 5                /* each with half as many rows */
#define LONG_EVENTS 2000000u   /* from here on what takes seconds for each million of events is left out */

struct html_opts {
	const char *output;
	bool with_source, json, all;
};

static const struct opt html_optv[] = {
	OPT_STRING('o', "output", struct html_opts, output, "FILE", "write the page to FILE"),
	OPT_FLAG(0, "with-source", struct html_opts, with_source, "embed the lines of source that allocated"),
	OPT_FLAG(0, "all", struct html_opts, all, "look at fragmentation of long recordings, too"),
	OPT_FLAG(0, "json", struct html_opts, json, "print the documents that the page is drawn from"),
	OPT_END
};

static const struct opt_help html_help = {
	.command = "html",
	.purpose = "Show a recording as one page for a browser, or what differs between two.",
	.usage = "[options] RECORDING [RECORDING] -o FILE",
	.example = "vramtrace html train.vtr -o train.html\n"
		   "vramtrace html before.vtr after.vtr -o differs.html",
	.options = html_optv,
};

/* ---- documents --------------------------------------------------------------------------------- */

/* Of one recording, by their places in struct pages.document; they are begun in this order, and the first take longest. */
enum { OOM, REPORT, PICTURE, LEAKS, BY_NAME, BY_MODULE, BY_STACK, ADVISE, FRAG, NR_DOCUMENTS };

static struct print_picture_options picture_options; /* of the processes that draw */

/* The picture's document, in a process of its own like a command's. */
static int print_own(int argc, const char **argv)
{
	struct replay_options load;
	struct replay m = REPLAY_INIT;
	struct picture p;
	int ret, damaged;

	picture_follow(&p, &m, &load);
	ret = rules_load();
	if (!ret)
		ret = replay_load(&m, argv[argc - 1], &load);
	if (ret)
		return ret;
	damaged = print_caveats(&m);
	picture_settle(&p);
	print_picture(stdout, &m, &p, &picture_options);
	/* The process ends: what it holds need not be given back one by one. */
	return damaged;
}

static void want(struct document *d, const char *path)
{
	static const struct document wanted[NR_DOCUMENTS] = {
		[REPORT] = { .name = "report", .run = cmd_report, .argument = { "report", "--json" } },
		[PICTURE] = { .name = "picture", .run = print_own, .argument = { "picture" } },
		[LEAKS] = { .name = "leaks", .run = cmd_leaks, .argument = { "leaks", "--json" } },
		[BY_NAME] = { .name = "by_name", .run = cmd_peak, .argument = { "peak", "--json", "--by=name" } },
		[BY_MODULE] = { .name = "by_module", .run = cmd_peak, .argument = { "peak", "--json", "--by=module" } },
		[BY_STACK] = { .name = "by_stack", .run = cmd_peak, .argument = { "peak", "--json", "--top=50" } },
		[ADVISE] = { .name = "advise", .run = cmd_advise, .argument = { "advise", "--json" } },
		[OOM] = { .name = "oom", .run = cmd_oom, .argument = { "oom", "--json" } },
		[FRAG] = { .name = "frag", .run = cmd_frag, .argument = { "frag", "--json", "--top=20" } },
	};

	for (size_t i = 0; i < NR_DOCUMENTS; i++) {
		size_t n = 0;

		d[i] = wanted[i];
		while (d[i].argument[n])
			n++;
		d[i].argument[n] = path;
	}
}

static struct json_object *member(struct json_object *o, const char *key)
{
	struct json_object *value = NULL;

	return o && json_object_object_get_ex(o, key, &value) ? value : NULL;
}

/* How much is to be done. */
struct outline {
	uint64_t nr_events;
	unsigned has_failed; /* a request did, or the program was killed */
};

/* The outline as a document of JSON, in a process of its own: what it has to say of a recording, the documents say, too. */
static int print_outline(int argc, const char **argv)
{
	struct replay_options load = { .quiet = true };
	struct replay m = REPLAY_INIT;
	struct outline o = { 0 };
	int ret = replay_load(&m, argv[argc - 1], &load);

	for (size_t i = 0; i < m.nr_processes; i++) {
		o.nr_events += m.process[i].summary->nr_events;
		o.has_failed |= m.process[i].end == REPLAY_END_KILLED || m.process[i].end == REPLAY_END_SIGNAL;
	}
	for (size_t i = 0; i < m.nr_devices; i++)
		o.has_failed |= m.device[i].books->tensor_ooms > 0;
	printf("[%" PRIu64 ",%u]", o.nr_events, o.has_failed);
	return ret;
}

static struct outline outline_of(const char *path)
{
	struct document d = { .name = "outline", .run = print_outline, .argument = { "outline", path } };
	struct outline o = { 0 };

	documents_run(&d, 1);
	if (!d.text || sscanf(d.text, "[%" SCNu64 ",%u]", &o.nr_events, &o.has_failed) != 2)
		o = (struct outline){ 0 };
	documents_release(&d, 1);
	return o;
}

/* What `oom` advises is what `advise` does: it need not be reckoned twice. false: `oom` has found no failure. */
static bool take_advice(struct document *advise, const struct document *oom)
{
	struct json_object *o = oom->text ? json_tokener_parse(oom->text) : NULL, *advice = member(o, "advice");
	struct json_object *taken = json_object_new_object();

	json_object_object_add(taken, "schema", json_object_new_string("vramtrace/advise/1"));
	json_object_object_add(taken, "recording", json_object_get(member(o, "recording")));
	json_object_object_add(taken, "advice", json_object_get(advice));
	if (advice)
		advise->text = heap_copy(json_object_to_json_string_ext(taken, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(taken);
	json_object_put(o);
	return advice;
}

/* Replaying PyTorch's allocator takes far longer than all else: of a long recording that is done where it is needed. */
static void run(struct document *d, const char *path, const struct html_opts *o)
{
	struct outline outline = outline_of(path);
	bool is_long = outline.nr_events > LONG_EVENTS && !o->all;

	if (!is_long) {
		documents_run(d, NR_DOCUMENTS);
		return;
	}
	if (outline.has_failed) {
		documents_run(&d[OOM], ADVISE - OOM);
		if (!take_advice(&d[ADVISE], &d[OOM]))
			documents_run(&d[ADVISE], 1);
	} else {
		d[OOM].message = heap_copy("memory did not run out");
		documents_run(&d[REPORT], FRAG - REPORT);
	}
	d[FRAG].message = heap_copy("left out of this page because the recording is long: "
				    "'vramtrace frag' shows it, 'vramtrace html --all' takes it in");
}

/* ---- the JSON text ----------------------------------------------------------------------------- */

static void put_documents(FILE *out, const char *path, const struct document *d)
{
	fputs("{\"path\":", out);
	jsontext_write(out, path);
	fputs(",\"documents\":{", out);
	for (size_t i = 0; i < NR_DOCUMENTS; i++)
		fprintf(out, "%s\"%s\":%s", i ? "," : "", d[i].name, d[i].text ? d[i].text : "null");
	fputs("},\"messages\":{", out);
	for (size_t i = 0, nr = 0; i < NR_DOCUMENTS; i++) {
		if (!d[i].message || !*d[i].message)
			continue;
		fprintf(out, "%s\"%s\":", nr++ ? "," : "", d[i].name);
		jsontext_write(out, d[i].message);
	}
	fputs("}}", out);
}

/* What the page is drawn from. */
struct pages {
	size_t nr_recordings;
	const char *path[2];
	struct document document[2][NR_DOCUMENTS];
	struct document diff;
};

static char *join(const struct pages *p, size_t *len)
{
	char *text = NULL;
	FILE *out = heap_need(open_memstream(&text, len));

	fprintf(out, "{\"schema\":\"%s\",\"recordings\":[", SCHEMA);
	for (size_t i = 0; i < p->nr_recordings; i++) {
		if (i)
			putc(',', out);
		put_documents(out, p->path[i], p->document[i]);
	}
	fprintf(out, "],\"diff\":%s}\n", p->diff.text ? p->diff.text : "null");
	fclose(out);
	return heap_need(text);
}

/* ---- the page ---------------------------------------------------------------------------------- */

/* Draw the pictures anew, with half as much in them. */
static void draw_less(struct pages *p)
{
	picture_options.max_large /= 2;
	picture_options.max_parts /= 2;
	for (size_t i = 0; i < p->nr_recordings; i++) {
		struct document *d = &p->document[i][PICTURE];

		documents_release(d, 1);
		d->text = d->message = NULL;
		documents_run(d, 1);
	}
}

/* Of two recordings, and of many devices, each gets its part. */
static void pack(struct pages *p, struct webpage *w)
{
	size_t len;
	char *text = join(p, &len);

	webpage_pack(w, text, len);
	free(text);
	for (int i = 1; i < TRIES && webpage_size(w) > PAGE_MAX; i++) {
		webpage_release(w);
		draw_less(p);
		text = join(p, &len);
		webpage_pack(w, text, len);
		free(text);
	}
}

/* Can it be written to? Better to know it before the work than after. */
static int check_output(const char *path)
{
	struct outfile f;
	int status = outfile_open(&f, path, false);

	if (!status)
		outfile_close(&f, false);
	return status;
}

/* Returns CMD_FINE, or CMD_TROUBLE after a message: then what was there before is still there. */
static int write_file(const struct webpage *w, const char *path)
{
	struct outfile f;
	int status = outfile_open(&f, path, false);

	if (status)
		return status;
	webpage_write(f.stream, w);
	return outfile_close(&f, true);
}

static int write_page(struct pages *p, const struct html_opts *o)
{
	struct webpage w;
	int status = CMD_FINE;
	char size[HUMAN_MAX];

	pack(p, &w);
	if (o->output)
		status = write_file(&w, o->output);
	else
		webpage_write(stdout, &w);
	if (o->output && !status)
		message_info("wrote '%s' (%s): open it in a browser", o->output, human_bytes(size, webpage_size(&w)));
	webpage_release(&w);
	return status;
}

/* ---- the command ------------------------------------------------------------------------------- */

static int run_all(struct pages *p, const struct html_opts *o)
{
	int status = CMD_FINE;

	for (size_t i = 0; i < p->nr_recordings; i++) {
		struct document *d = p->document[i];

		want(d, p->path[i]);
		run(d, p->path[i], o);
		if (!d[REPORT].text)
			return message_error("%s", *d[REPORT].message ? d[REPORT].message : "the report failed");
		if (*d[REPORT].message)
			message_warn("%s", d[REPORT].message);
		if (d[REPORT].status)
			status = CMD_TROUBLE;
	}
	if (p->nr_recordings < 2)
		return status;
	p->diff = (struct document){ .name = "diff", .run = cmd_diff,
				     .argument = { "diff", "--json", p->path[0], p->path[1] } };
	documents_run(&p->diff, 1);
	if (!p->diff.text)
		return message_error("%s", p->diff.message);
	return status;
}

static int print_json(const struct pages *p)
{
	size_t len;
	char *text = join(p, &len);

	fwrite(text, 1, len, stdout);
	free(text);
	return CMD_FINE;
}

int cmd_html(int argc, const char **argv)
{
	struct html_opts o = { 0 };
	enum opt_result parsed = opt_parse(&html_help, &argc, argv, &o);
	struct pages p = { 0 };
	int status, written;

	if (parsed != OPT_OK)
		return opt_status(parsed);
	if (argc < 2 || argc > 3)
		return opt_wrong(&html_help, argc < 2 ? "missing RECORDING" : "unexpected argument '%s'", argv[argc - 1]);
	if (!o.output && !o.json && isatty(STDOUT_FILENO))
		return opt_wrong(&html_help, "a page does not belong on a terminal: name a file with '-o FILE'");
	if (o.output && o.json)
		return opt_wrong(&html_help, "'--json' prints, and '-o' writes a page: choose one");
	if (o.output && check_output(o.output))
		return CMD_TROUBLE;
	p.nr_recordings = (size_t)argc - 1;
	for (size_t i = 0; i < p.nr_recordings; i++)
		p.path[i] = argv[i + 1];
	picture_options = (struct print_picture_options){ LIVEROWS_LARGE, PARTS, o.with_source };
	status = run_all(&p, &o);
	if (p.document[p.nr_recordings - 1][REPORT].text && (p.nr_recordings < 2 || p.diff.text)) {
		written = o.json ? print_json(&p) : write_page(&p, &o);
		status = written ? written : status;
	}
	for (size_t i = 0; i < p.nr_recordings; i++)
		documents_release(p.document[i], NR_DOCUMENTS);
	documents_release(&p.diff, 1);
	return status;
}
