/* SPDX-License-Identifier: MIT */
/* Censuses in a line of text, and each of them in JSON. */
#include "analyzer/pages/print_censuses.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/human.h"
#include "analyzer/base/message.h"
#include "analyzer/recording/censusfiles.h"

enum { NR_REASONS = TFMT_CENSUS_ASKED + 1 };

static const char *const reasons[NR_REASONS] = {
	[0] = "unknown", [TFMT_CENSUS_OOM] = "oom", [TFMT_CENSUS_HIGH] = "high", [TFMT_CENSUS_ASKED] = "asked"
};

static const char *const reason_words[NR_REASONS] = {
	[0] = "for an unknown reason",
	[TFMT_CENSUS_OOM] = "out of memory",
	[TFMT_CENSUS_HIGH] = "at a new high",
	[TFMT_CENSUS_ASKED] = "asked for",
};

/* Why one has not all: in JSON, and in a sentence. A file that ends early has no flags. */
static const struct cut {
	uint32_t flag;
	const char *word, *because;
} cuts[] = {
	{ TFMT_CENSUS_NO_MEMORY, "memory", "had no memory" },
	{ TFMT_CENSUS_NO_TIME, "time", "had no time" },
	{ TFMT_CENSUS_FAULT, "class", "met a class whose code faulted" },
	{ 0, "end", "ended early" },
};
#define NR_CUTS ((int)(sizeof(cuts) / sizeof(*cuts)))

struct counts {
	uint32_t reason[NR_REASONS], cut[NR_CUTS];
	uint32_t nr, nr_unreadable;
	uint64_t nr_tensors; /* of the one with most */
};

static uint32_t reason_of(const struct tfmt_census_facts *f)
{
	return f->why < NR_REASONS ? f->why : 0;
}

/* Number in cuts; NR_CUTS: it is whole. */
static int cut_of(const struct tfmt_census_facts *f)
{
	int i = 0;

	if (f->flags & TFMT_CENSUS_WHOLE)
		return NR_CUTS;
	while (cuts[i].flag && !(f->flags & cuts[i].flag))
		i++;
	return i;
}

static void census_json(struct emit *e, const struct censusfile *file, const struct tfmt_census *c, uint64_t start_ns)
{
	const struct tfmt_census_facts *f = tfmt_census_facts(c);
	int cut = cut_of(f);

	emit_object_begin(e, NULL, NULL);
	emit_uint(e, "number", NULL, file->number);
	emit_string(e, "reason", NULL, reasons[reason_of(f)]);
	emit_uint(e, "time_ns", NULL, f->time_ns > start_ns ? f->time_ns - start_ns : 0);
	if (f->device == TFMT_DEVICE_NONE)
		emit_null(e, "device", NULL);
	else
		emit_uint(e, "device", NULL, f->device);
	emit_uint(e, "allocated_bytes", NULL, f->allocated);
	emit_uint(e, "objects", NULL, f->nr_objects);
	emit_uint(e, "tensors", NULL, tfmt_census_nr_tensors(c));
	emit_bool(e, "whole", NULL, cut == NR_CUTS);
	emit_string(e, "cut_by", NULL, cut < NR_CUTS ? cuts[cut].word : NULL);
	emit_object_end(e);
}

static void add(struct counts *n, const struct tfmt_census *c)
{
	const struct tfmt_census_facts *f = tfmt_census_facts(c);
	int cut = cut_of(f);

	n->nr++;
	n->reason[reason_of(f)]++;
	if (cut < NR_CUTS)
		n->cut[cut]++;
	if (tfmt_census_nr_tensors(c) > n->nr_tensors)
		n->nr_tensors = tfmt_census_nr_tensors(c);
}

static void show_each(struct emit *e, const struct censusfiles *files, uint64_t start_ns, struct counts *n)
{
	struct tfmt_census *c;

	emit_array_begin(e, "censuses", NULL);
	for (size_t i = 0; i < files->nr_files; i++) {
		int err = tfmt_census_open(&c, files->file[i].path);

		if (err == TFMT_E_EMPTY)
			continue;
		if (err) {
			if (!n->nr_unreadable++)
				message_warn("cannot read '%s'; the names in it are missing", files->file[i].path);
			continue;
		}
		census_json(e, &files->file[i], c, start_ns);
		add(n, c);
		tfmt_census_close(c);
	}
	emit_array_end(e);
}

/* "3 censuses (2 at a new high, 1 out of memory), up to 311 tensors; the program stood still for 51 ms" */
static void show_line(struct emit *e, const struct counts *n, uint64_t stall_ns)
{
	char text[320], stall[HUMAN_MAX], tensors[HUMAN_MAX];
	size_t used = (size_t)snprintf(text, sizeof(text), "%" PRIu32 " census%s", n->nr, n->nr == 1 ? "" : "es");
	bool is_first = true;

	for (int i = 0; i < NR_REASONS; i++) {
		if (!n->reason[i])
			continue;
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%" PRIu32 " %s", is_first ? " (" : ", ",
					 n->reason[i], reason_words[i]);
		is_first = false;
	}
	used += (size_t)snprintf(text + used, sizeof(text) - used, "%s, up to %s tensors", is_first ? "" : ")",
				 human_count(tensors, n->nr_tensors));
	for (int i = 0; i < NR_CUTS; i++)
		if (n->cut[i])
			used += (size_t)snprintf(text + used, sizeof(text) - used, ", %" PRIu32 " not whole: %s", n->cut[i],
						 cuts[i].because);
	if (n->nr_unreadable)
		used += (size_t)snprintf(text + used, sizeof(text) - used, ", %" PRIu32 " not readable", n->nr_unreadable);
	if (stall_ns)
		snprintf(text + used, sizeof(text) - used, "; it stood still for %s", human_ns(stall, stall_ns));
	emit_label(e, NULL, "names", "%s", text);
}

/* What the recorder says of copies that did not look, or did not end well. */
static void show_failures(struct emit *e, struct tfmt_reader *reader)
{
	static const char *const keys[] = { "names.failed", "names.refused" };

	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
		const char *said = tfmt_reader_info_value(reader, keys[i]);

		if (said)
			emit_label(e, NULL, "names", "%s", said);
	}
}

void print_censuses(struct emit *e, const char *trace, struct tfmt_reader *reader)
{
	const char *stall = tfmt_reader_info_value(reader, "names.stall_ns");
	struct censusfiles files;
	struct counts n = { .nr = 0 };

	censusfiles_find(&files, trace);
	if (files.nr_files) {
		show_each(e, &files, tfmt_reader_header(reader)->start_mono_ns, &n);
		emit_uint(e, "unreadable_censuses", NULL, n.nr_unreadable);
		emit_uint(e, "names_stall_ns", NULL, stall ? strtoull(stall, NULL, 10) : 0);
		show_line(e, &n, stall ? strtoull(stall, NULL, 10) : 0);
	}
	show_failures(e, reader);
	censusfiles_release(&files);
}
