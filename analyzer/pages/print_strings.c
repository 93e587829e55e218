/* SPDX-License-Identifier: MIT */
/* Collecting strings: of the files' names, the traces' headers, and every definition, replaced ones included.
 */
#include "analyzer/pages/print_strings.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/message.h"
#include "analyzer/command.h"
#include "analyzer/recording/censusfiles.h"
#include "analyzer/recording/generation.h"
#include "analyzer/recording/textset.h"
#include "analyzer/recording/traceview.h"

/* After the kinds of tfmt_text: what lies beside the traces, and in censuses. */
enum { FILE_NAME = TFMT_NR_TEXT_KINDS, JOB_FILE, OBJECT_NAME, NR_KINDS };

static const char *const kind_names[] = {
	[TFMT_TEXT_CODE_NAME] = "Python function",
	[TFMT_TEXT_CODE_FILE] = "Python file",
	[TFMT_TEXT_MODULE_PATH] = "mapped file",
	[TFMT_TEXT_BUILD_ID] = "build id",
	[TFMT_TEXT_THREAD] = "thread",
	[TFMT_TEXT_DEVICE] = "device",
	[TFMT_TEXT_UUID] = "device uuid",
	[TFMT_TEXT_PCI_BUS_ID] = "PCI bus id",
	[TFMT_TEXT_FUNCTION] = "entry point",
	[TFMT_TEXT_INFO_KEY] = "info key",
	[TFMT_TEXT_INFO_VALUE] = "info value",
	[TFMT_TEXT_STRING] = "range, domain or node",
	[TFMT_TEXT_CLASS] = "class",
	[TFMT_TEXT_HOST] = "host",
	[TFMT_TEXT_JOB] = "job",
	[TFMT_TEXT_RING_PATH] = "ring file",
	[TFMT_TEXT_RECORDER] = "recorder's version",
	[TFMT_TEXT_COMMIT] = "recorder's commit",
	[FILE_NAME] = "file name",
	[JOB_FILE] = "job file",
	[OBJECT_NAME] = "name, key or class",
};

struct strings {
	struct textset set;
	int status;
};

/* Text is shown as C strings: what holds a zero byte is shown in its parts. */
static void add(struct strings *s, unsigned kind, const char *text, size_t len)
{
	while (len) {
		size_t part = strnlen(text, len);

		if (part)
			textset_add(&s->set, kind, text, part);
		part += part < len;
		text += part;
		len -= part;
	}
}

static void add_definition_of(void *context, bool of_census, uint32_t type, uint32_t id, const uint8_t *payload,
			      size_t len)
{
	struct tfmt_text text[TFMT_DEFINITION_TEXTS];
	int nr = tfmt_definition_texts(type, payload, len, text);

	(void)id;
	for (int i = 0; i < nr; i++)
		add(context, of_census && text[i].kind == TFMT_TEXT_STRING ? OBJECT_NAME : text[i].kind, text[i].s,
		    text[i].len);
}

static void add_definition(void *context, uint32_t type, uint32_t id, const uint8_t *payload, size_t len)
{
	add_definition_of(context, false, type, id, payload, len);
}

static void add_census_definition(void *context, uint32_t type, uint32_t id, const uint8_t *payload, size_t len)
{
	add_definition_of(context, true, type, id, payload, len);
}

/* A trace, or a census beside it. */
static void add_trace(struct strings *s, const char *path)
{
	struct traceview v;
	struct tfmt_event ev;

	if (!traceview_open(&v, path)) {
		add(s, TFMT_TEXT_HOST, v.header->host, strlen(v.header->host));
		add(s, TFMT_TEXT_JOB, v.header->job, strlen(v.header->job));
		add(s, TFMT_TEXT_RING_PATH, v.header->ring_path, strlen(v.header->ring_path));
		add(s, TFMT_TEXT_RECORDER, v.header->recorder, strlen(v.header->recorder));
		add(s, TFMT_TEXT_COMMIT, v.header->commit, strlen(v.header->commit));
		tfmt_reader_hear(v.reader, censusfiles_is_one(path) ? add_census_definition : add_definition, s);
		while (traceview_next(&v, &ev))
			continue;
	}
	if (v.trouble[0] && !censusfiles_is_one(path)) /* a census may not even have begun */
		s->status = message_error("%s", v.trouble);
	traceview_close(&v);
}

/* The files of a generation: their names, what `job` holds, and what the traces hold. */
static int add_folder(void *context, const char *folder, unsigned number)
{
	struct strings *s = context;
	char job[JOB_ID_MAX], path[PATH_MAX];
	struct dirent *entry;
	DIR *dir = opendir(folder);

	(void)number;
	if (!dir)
		return errno;
	if (generation_job(folder, job))
		add(s, JOB_FILE, job, strlen(job));
	while ((entry = readdir(dir))) {
		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		add(s, FILE_NAME, entry->d_name, strlen(entry->d_name));
		if ((generation_is_trace(entry->d_name) || censusfiles_is_one(entry->d_name)) &&
		    !generation_join(path, folder, entry->d_name))
			add_trace(s, path);
	}
	closedir(dir);
	return 0;
}

static int compare_members(const void *va, const void *vb)
{
	const struct textset_member *a = *(struct textset_member *const *)va,
				    *b = *(struct textset_member *const *)vb;
	int order = strcmp(kind_names[a->kind], kind_names[b->kind]);

	return order ? order : strcmp(a->text, b->text);
}

int print_strings(struct emit *e, const struct recording *r)
{
	static const struct emit_column columns[] = { { "what", "WHAT", EMIT_LEFT, false },
						      { "text", "TEXT", EMIT_LEFT, false },
						      { 0 } };
	struct strings s = { .status = CMD_FINE };
	int err = 0;

	if (r->folder)
		err = recording_each_generation(r, add_folder, &s);
	for (size_t i = 0; !r->folder && i < r->nr_traces; i++)
		add_trace(&s, r->trace[i]);
	if (err)
		s.status = message_error("cannot read '%s': %s", r->path, strerror(err));
	if (s.set.nr_members)
		qsort(s.set.member, s.set.nr_members, sizeof(*s.set.member), compare_members);
	emit_table_begin(e, "strings", columns);
	for (size_t i = 0; i < s.set.nr_members; i++) {
		emit_row_begin(e);
		emit_string(e, "what", NULL, kind_names[s.set.member[i]->kind]);
		emit_string(e, "text", NULL, s.set.member[i]->text);
		emit_row_end(e);
	}
	emit_table_end(e);
	textset_release(&s.set);
	return s.status;
}
