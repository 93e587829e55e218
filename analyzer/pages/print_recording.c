/* SPDX-License-Identifier: MIT */
/* Recordings, devices and what they lack, in text and JSON. */
#include "analyzer/pages/print_recording.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/human.h"
#include "analyzer/base/message.h"
#include "analyzer/command.h"
#include "analyzer/recording/kept.h"
#include "analyzer/stacks/sourcetext.h"

static int64_t nr_listed(const char *list)
{
	int64_t nr = 1;

	for (; *list; list++)
		nr += *list == ',';
	return nr;
}

const struct replay_process *print_some_ranks(const struct replay *m, int64_t *nr_absent)
{
	for (size_t i = 0; i < m->nr_processes; i++) {
		const struct replay_process *p = &m->process[i];

		*nr_absent = p->ranks_run ? p->world_size - nr_listed(p->ranks_run) : 0;
		if (*nr_absent > 0)
			return p;
	}
	return NULL;
}

/* Which ranks of the job ran; null when all did, or it had none. */
static void print_ranks(struct emit *e, const struct replay *m)
{
	int64_t nr_absent;
	const struct replay_process *p = print_some_ranks(m, &nr_absent);
	const char *text = p ? p->ranks_run : NULL;

	if (!p) {
		emit_null(e, "ranks", NULL);
		return;
	}
	emit_object_begin(e, "ranks", NULL);
	emit_uint(e, "world_size", NULL, (uint64_t)p->world_size);
	emit_array_begin(e, "ran", NULL);
	while (*text) {
		char *end;

		emit_uint(e, NULL, NULL, strtoul(text, &end, 10));
		if (end == text)
			break;
		text = end + (*end == ',');
	}
	emit_array_end(e);
	emit_uint(e, "assumed_alike", NULL, (uint64_t)nr_absent);
	emit_object_end(e);
}

int64_t print_kept_from(const struct replay *m)
{
	int64_t from = -1;

	for (size_t i = 0; i < m->nr_processes; i++)
		if (m->process[i].is_kept && (int64_t)m->process[i].kept_ns > from)
			from = (int64_t)m->process[i].kept_ns;
	return from;
}

/* Of the process whose recording begins last: one line for all. */
void print_kept(const struct replay *m)
{
	const struct replay_process *last = NULL;
	char text[160];

	for (size_t i = 0; i < m->nr_processes; i++)
		if (m->process[i].is_kept && (!last || m->process[i].kept_ns > last->kept_ns))
			last = &m->process[i];
	if (last)
		message_info("the recording keeps %s; %s", kept_text(text, sizeof(text), last->reader,
				       last->header->start_mono_ns + last->last_ns - last->start_ns),
			     books_is_past_untold(last->books)
				     ? "PyTorch's allocator told nothing of the tensors before"
				     : "peaks and counts are of the whole job");
}

void print_recording(struct emit *e, const struct replay *m)
{
	emit_object_begin(e, "recording", NULL);
	emit_string(e, "path", NULL, m->recording.path);
	emit_bool(e, "simulated", NULL, m->simulated);
	emit_bool(e, "lower_bound", NULL, print_zero_answers(m) > 0);
	emit_uint(e, "zero_answers", NULL, print_zero_answers(m));
	emit_uint(e, "processes", NULL, m->nr_processes);
	print_ranks(e, m);
	emit_bool(e, "complete", NULL, m->complete);
	emit_string(e, "end", NULL, replay_end_names[m->end]);
	emit_uint(e, "events", NULL, m->nr_events);
	emit_uint(e, "lost_events", NULL, m->lost_events);
	emit_uint(e, "duration_ns", NULL, m->duration_ns);
	print_optional(e, "kept_from_ns", print_kept_from(m));
	if (emit_is_json(e))
		print_unrecorded(e, m->recording.unrecorded, m->recording.nr_unrecorded);
	emit_object_end(e);
}

static void say_stop(const struct replay_process *p)
{
	const struct tfmt_summary *s = p->summary;
	bool failed = s->stop == TFMT_STOP_IO;
	const char *reason = s->stop == TFMT_STOP_DISK_FULL ? "the disk was full" :
			     s->stop == TFMT_STOP_NOMEM     ? "memory ran out" :
							      "writing it failed";
	char when[HUMAN_MAX];

	message_warn("recording of process %" PRIu32 " stopped after %s because %s%s%s; what came later is missing",
		     p->header->pid, human_ns(when, replay_time(p, s->stop_time_ns)), reason, failed ? ": " : "",
		     failed ? strerror(s->stop_errno) : "");
}

/* Functions that the program called and the simulated device does not have: what follows may differ there. */
static void say_unsupported(const struct replay_process *p)
{
	const char *name;
	uint64_t calls;

	for (size_t i = 0; replay_unsupported(p, i, &name, &calls); i++)
		message_warn("the simulated GPU does not support '%s' (called %" PRIu64 " times); on a real one the "
			     "program may go another way", name, calls);
}

/* The program's own, not what was installed. */
static bool is_programs(const struct tfmt_code *code)
{
	return *code->file == '/' && !strstr(code->file, "-packages/") && !strstr(code->file, "/lib/python3");
}

/* Source that is no longer what ran: a place is named by its line then, and it is not read (sourcetext.h). */
static void say_changed_source(const struct replay *m)
{
	const char *changed = NULL;
	bool has_others = false;
	struct tfmt_code code;

	for (size_t i = 0; i < m->nr_processes; i++) {
		struct sourcetext sources = { .reader = m->process[i].reader };
		uint32_t nr = tfmt_reader_nr_definitions(sources.reader);

		for (uint32_t id = 0; id <= nr && !has_others; id++) {
			if (!tfmt_reader_code(sources.reader, id, &code) || !is_programs(&code) ||
			    (changed && !strcmp(changed, code.file)) ||
			    !sourcetext_is_edited(&sources, code.file))
				continue;
			has_others = changed;
			changed = changed ? changed : code.file;
		}
		sourcetext_release(&sources);
	}
	if (changed)
		message_info("'%s'%s changed after the recording began: lines are those of then, and the source is not "
			     "looked at", changed, has_others ? " and others were" : " was");
}

int print_caveats(const struct replay *m)
{
	int status = CMD_FINE;
	char count[HUMAN_MAX], text[UNRECORDED_TEXT_MAX];

	print_kept(m);
	for (size_t i = 0; i < m->recording.nr_unrecorded; i++)
		message_warn("%s", unrecorded_text(text, &m->recording.unrecorded[i]));
	say_changed_source(m);
	if (m->nr_unreadable)
		status = message_error("%zu of %zu traces could not be read; figures are of the others",
				       m->nr_unreadable, m->recording.nr_traces);
	for (size_t i = 0; i < m->nr_processes; i++) {
		const struct replay_process *p = &m->process[i];

		if (*p->damage)
			status = message_error("'%s' is not whole: %s", p->path, p->damage);
		if (p->summary->stop)
			say_stop(p);
		say_unsupported(p);
		if (p->summary->nr_given_up && !p->lost_events)
			message_warn("what the recording of process %" PRIu32 " lacked when it was repaired is missing; its "
				     "peaks are \"at least\"",
				     p->header->pid);
		if (p->lost_events)
			message_warn("%s events of process %" PRIu32 " were lost; its peaks are \"at least\"",
				     human_count(count, p->lost_events), p->header->pid);
	}
	return status;
}

void print_optional(struct emit *e, const char *key, int64_t number)
{
	if (number < 0)
		emit_null(e, key, NULL);
	else
		emit_int(e, key, NULL, number);
}

static void text_or_null(struct emit *e, const char *key, const char *text)
{
	emit_string(e, key, NULL, text && *text ? text : NULL);
}

void print_device_names(struct emit *e, const struct replay_device *d)
{
	const struct replay_process *p = d->process;

	emit_string(e, "host", NULL, p->header->host);
	emit_uint(e, "pid", NULL, p->header->pid);
	print_optional(e, "rank", p->rank);
	print_optional(e, "local_rank", p->local_rank);
	emit_uint(e, "device", NULL, d->ordinal);
	print_optional(e, "physical_index", d->info.name && *d->info.name ? d->info.physical_index : -1);
	text_or_null(e, "uuid", d->info.uuid);
	text_or_null(e, "pci_bus_id", d->info.pci_bus_id);
	emit_bool(e, "mig", NULL, d->info.mig);
	text_or_null(e, "name", d->info.name);
	if (d->capacity_bytes)
		emit_uint(e, "capacity_bytes", NULL, d->capacity_bytes);
	else
		emit_null(e, "capacity_bytes", NULL);
	emit_bool(e, "capacity_unlimited", NULL, d->is_unlimited);
}

void print_device_identity(struct emit *e, const struct replay_device *d)
{
	print_device_names(e, d);
	emit_bool(e, "exact", NULL, replay_is_exact(d->process));
}

const char *print_device_title(char *buf, size_t size, const struct replay *m, const struct replay_device *d)
{
	const struct replay_process *p = d->process;
	const char *name = d->info.name && *d->info.name ? d->info.name : "unknown device";
	/* A simulated device may say so in its name already. */
	const char *simulated = p->header->simulated && !strcasestr(name, "simulated") ? " (simulated)" : "";
	int used = snprintf(buf, size, "GPU %" PRIu32 ", %s%s", d->ordinal, name, simulated);

	if (m->nr_processes > 1 && used > 0 && (size_t)used < size) {
		if (p->rank >= 0)
			snprintf(buf + used, size - (size_t)used, ", rank %" PRId64 ", pid %" PRIu32, p->rank,
				 p->header->pid);
		else
			snprintf(buf + used, size - (size_t)used, ", pid %" PRIu32, p->header->pid);
	}
	return buf;
}

const char *print_at_least(const struct replay_process *p)
{
	return replay_is_exact(p) && !replay_zero_answers(p) ? "" : "at least ";
}

uint64_t print_zero_answers(const struct replay *m)
{
	uint64_t nr = 0;

	for (size_t i = 0; i < m->nr_processes; i++)
		nr += replay_zero_answers(&m->process[i]);
	return nr;
}

const char *print_zeros(char buf[static ZERO_TEXT_MAX], const char *before, uint64_t nr)
{
	char count[HUMAN_MAX];

	buf[0] = 0;
	if (nr)
		snprintf(buf, ZERO_TEXT_MAX, "%scuDNN's workspaces are not counted (%s unknown)", before,
			 human_count(count, nr));
	return buf;
}

const char *print_about_end(const struct replay_device *d, enum replay_total total)
{
	return replay_end_is_exact(d, total) ? "" : "about ";
}

void print_frame_of(struct emit *e, const char *name, const struct stack_frame *f)
{
	emit_object_begin(e, name, NULL);
	emit_string(e, "file", NULL, f ? f->file : NULL);
	if (f && f->line)
		emit_uint(e, "line", NULL, f->line);
	else
		emit_null(e, "line", NULL);
	emit_string(e, "function", NULL, f ? f->function : NULL);
	emit_object_end(e);
}

void print_site_of(struct emit *e, const struct stack_frame *f)
{
	print_frame_of(e, "site", f);
}

const char *print_short_path(const char *path)
{
	static const char *const roots[] = { "/site-packages/", "/dist-packages/" };
	const char *short_path = path;
	int slashes = 0;

	for (size_t i = 0; i < sizeof(roots) / sizeof(*roots); i++) {
		const char *found = strstr(path, roots[i]);

		if (found)
			return found + strlen(roots[i]);
	}
	for (const char *p = path + strlen(path); p > path; p--)
		if (p[-1] == '/' && ++slashes == 2) {
			short_path = p;
			break;
		}
	return short_path;
}

/* ---- what it does not have -------------------------------------------------------------------- */

void print_unrecorded(struct emit *e, const struct unrecorded *list, size_t nr)
{
	char text[UNRECORDED_TEXT_MAX];

	emit_array_begin(e, "unrecorded", NULL);
	for (size_t i = 0; i < nr; i++) {
		emit_object_begin(e, NULL, NULL);
		emit_uint(e, "pid", NULL, list[i].pid);
		emit_string(e, "program", NULL, list[i].program);
		emit_string(e, "why", NULL, tfmt_why_name(list[i].why));
		emit_int(e, "errno", NULL, list[i].error);
		emit_uint(e, "unrecorded_events", NULL, list[i].nr);
		emit_string(e, "text", "not recorded", unrecorded_text(text, &list[i]));
		emit_object_end(e);
	}
	emit_array_end(e);
}

void print_unhooked_calls(struct emit *e, const struct unhooked *u)
{
	emit_object_begin(e, "unhooked", NULL);
	emit_uint(e, "allocs", NULL, u->allocs);
	emit_uint(e, "bytes", NULL, u->alloc_bytes);
	emit_uint(e, "frees", NULL, u->frees);
	emit_uint(e, "others", NULL, u->others);
	emit_object_end(e);
}
