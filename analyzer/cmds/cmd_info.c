/* SPDX-License-Identifier: MIT */
/* vramtrace info: what a recording holds. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "analyzer/base/message.h"
#include "analyzer/base/progress.h"
#include "analyzer/command.h"
#include "analyzer/ledger/books.h"
#include "analyzer/pages/print_censuses.h"
#include "analyzer/pages/print_recording.h"
#include "analyzer/pages/print_strings.h"
#include "analyzer/recording/kept.h"
#include "analyzer/recording/recording.h"
#include "analyzer/recording/traceview.h"
#include "analyzer/ui/emit.h"
#include "analyzer/ui/options.h"

struct info_opts {
	struct emit_opts emit;
	bool strings;
};

static const struct opt info_optv[] = {
	OPT_FLAG(0, "strings", struct info_opts, strings, "list every string that is in it, and nothing else"),
	EMIT_JSON_OPTIONS(struct info_opts, emit), OPT_END
};

static const struct opt_help info_help = {
	.command = "info",
	.purpose = "Say what a recording holds: processes, devices, how they ended, what was lost.",
	.usage = "[options] RECORDING",
	.example = "vramtrace info train.vtr\n"
		   "vramtrace info --strings train.vtr",
	.options = info_optv,
};

/* What a storage promises for what the recorder had not yet written when the process died. */
static const struct {
	const char *name, *promise;
} storages[] = {
	[TFMT_STORAGE_BESIDE] = { "beside", "ring file beside the trace: survives kill -9" },
	[TFMT_STORAGE_TEMPORARY] = { "temporary", "ring file in the node's own folder: survives kill -9" },
	[TFMT_STORAGE_ANONYMOUS] = { "anonymous", "plain memory: kill -9 loses what was not yet written" },
	[TFMT_STORAGE_SHARED] = { "shared", "shared memory of the machine: survives kill -9, not a power cut" },
	[TFMT_STORAGE_SEALED] = { "sealed", "memory that 'run' holds, too: survives kill -9 while 'run' lives" },
};

static const char *const stop_names[] = {
	[TFMT_STOP_NONE] = NULL,
	[TFMT_STOP_DISK_FULL] = "disk full",
	[TFMT_STOP_IO] = "write failed",
	[TFMT_STOP_NOMEM] = "out of memory",
};

/* Info values that have a line of their own; all are in JSON under "info". */
static const struct {
	const char *key, *label;
} info_lines[] = {
	{ "imported", "made of" },
	{ "script", "script" },
	{ "argv", "command line" },
	{ "exe", "executable" },
	{ "job", "job" },
	{ "rank", "rank" },
	{ "local_rank", "local rank" },
	{ "world_size", "world size" },
	{ "ranks_run", "ranks that ran" },
	{ "python", "Python" },
	{ "python_frames", "Python frames" },
	{ "unwinder", "native frames" },
	{ "unwinder_compared", "checked" },
	{ "torch", "PyTorch" },
	{ "allocator_conf", "allocator settings" },
	{ "stacks", "stacks" },
	{ "keep", "limit" },
	{ "nvtx", "NVTX" },
	{ "cupti", "CUPTI" },
	{ "tracker", "tracker" },
	{ "simulated", "simulated GPU" },
};

/* How much of the values has been shown. */
struct value_room {
	size_t shown_bytes;
	uint64_t nr_left_out;
};

/* ---- one process ----------------------------------------------------------------------------- */

/* What info shows of the values: of a recorder's, all. */
#define VALUES_SHOWN_BYTES (1u << 20)

/* Is there room for a value? Else it is counted. */
static bool may_show(struct value_room *room, const char *key, const char *value)
{
	size_t bytes = strlen(key) + strlen(value);

	if (bytes > VALUES_SHOWN_BYTES - room->shown_bytes) {
		room->nr_left_out++;
		return false;
	}
	room->shown_bytes += bytes;
	return true;
}

/* The values the recorder stored, as they are; notes may repeat and stand apart. */
static void print_values(struct emit *e, const struct tfmt_reader *reader)
{
	struct value_room room = { 0 };
	const char *key, *value;

	for (size_t i = 0; i < sizeof(info_lines) / sizeof(info_lines[0]); i++) {
		value = tfmt_reader_info_value(reader, info_lines[i].key);
		if (value && *value)
			emit_string(e, NULL, info_lines[i].label, value);
	}
	emit_object_begin(e, "info", NULL);
	for (uint32_t i = 0; tfmt_reader_info(reader, i, &key, &value); i++) {
		if (strcmp(key, "note") && may_show(&room, key, value))
			emit_string(e, key, NULL, value);
	}
	emit_object_end(e);
	emit_array_begin(e, "notes", NULL);
	for (uint32_t i = 0; tfmt_reader_info(reader, i, &key, &value); i++) {
		if (!strcmp(key, "note") && may_show(&room, key, value))
			emit_string(e, NULL, "note", value);
	}
	emit_array_end(e);
	emit_uint(e, "values_left_out", room.nr_left_out ? "values left out" : NULL, room.nr_left_out);
}

/* Who wrote the trace, if it says so. */
static void print_recorder(struct emit *e, const struct tfmt_header *h, bool is_own)
{
	emit_string(e, "recorder_version", NULL, h->recorder[0] ? h->recorder : NULL);
	emit_string(e, "recorder_commit", NULL, h->commit[0] ? h->commit : NULL);
	emit_uint(e, "must_understand", NULL, h->must);
	if (!is_own)
		return;
	if (!h->recorder[0])
		emit_label(e, NULL, "recorded by", "not known: it does not say");
	else
		emit_label(e, NULL, "recorded by", "vramtrace %s, %s%s", h->recorder,
			   h->commit[0] ? "commit " : "commit not known", h->commit);
}

static void print_devices(struct emit *e, const struct tfmt_reader *reader)
{
	struct tfmt_device d;

	emit_array_begin(e, "devices", NULL);
	for (uint32_t i = 0; i < TFMT_NR_DEVICES; i++) {
		if (!tfmt_reader_device(reader, i, &d))
			continue;
		emit_object_begin(e, NULL, NULL);
		emit_uint(e, "device", NULL, i);
		emit_string(e, "name", NULL, d.name);
		if (d.capacity_bytes == TFMT_CAPACITY_UNLIMITED || !d.capacity_bytes)
			emit_null(e, "capacity_bytes", NULL);
		else
			emit_bytes(e, "capacity_bytes", NULL, d.capacity_bytes);
		emit_bool(e, "capacity_unlimited", NULL, d.capacity_bytes == TFMT_CAPACITY_UNLIMITED);
		emit_string(e, "uuid", NULL, *d.uuid ? d.uuid : NULL);
		emit_string(e, "pci_bus_id", NULL, *d.pci_bus_id ? d.pci_bus_id : NULL);
		emit_bool(e, "mig", NULL, d.mig);
		if (d.physical_index >= 0)
			emit_int(e, "physical_index", NULL, d.physical_index);
		else
			emit_null(e, "physical_index", NULL);
		emit_object_end(e);
	}
	emit_array_end(e);
	for (uint32_t i = 0; emit_is_text(e) && i < TFMT_NR_DEVICES; i++) {
		char label[24];

		if (!tfmt_reader_device(reader, i, &d))
			continue;
		snprintf(label, sizeof(label), "GPU %u", i);
		emit_string(e, NULL, label, *d.name ? d.name : "unknown");
		if (d.capacity_bytes == TFMT_CAPACITY_UNLIMITED)
			emit_string(e, NULL, "  capacity", "unlimited");
		else if (!d.capacity_bytes)
			emit_string(e, NULL, "  capacity", "not known");
		else
			emit_bytes(e, NULL, "  capacity", d.capacity_bytes);
	}
}

static void print_end(struct emit *e, const struct tfmt_summary *s)
{
	bool has_status = s->end == TFMT_PROCESS_EXIT || s->end == TFMT_PROCESS_SIGNAL;
	const char *end = traceview_end_name(s->end);

	emit_string(e, "end", NULL, end);
	if (s->end == TFMT_PROCESS_EXIT)
		emit_int(e, "exit_status", NULL, s->exit_status);
	else
		emit_null(e, "exit_status", NULL);
	if (s->end == TFMT_PROCESS_SIGNAL)
		emit_int(e, "signal", NULL, s->exit_status);
	else
		emit_null(e, "signal", NULL);
	if (has_status)
		emit_label(e, NULL, "end", "%s %d", end, s->exit_status);
	else
		emit_label(e, NULL, "end", "%s", end);
}

static void print_losses(struct emit *e, const struct tfmt_summary *s)
{
	const char *stop = s->stop <= TFMT_STOP_NOMEM ? stop_names[s->stop] : "unknown";

	emit_uint(e, "lost_events", s->lost_events ? "events lost" : NULL, s->lost_events);
	emit_uint(e, "waits", NULL, s->waits);
	emit_uint(e, "longest_wait_ns", NULL, s->longest_wait_ns);
	if (s->waits)
		emit_label(e, NULL, "waits", "%" PRIu64 " for the drain, the longest %.1f ms", s->waits,
			   (double)s->longest_wait_ns / 1e6);
	emit_uint(e, "not_captured", s->not_captured ? "stacks missing" : NULL, s->not_captured);
	emit_uint(e, "joined_events", s->joined_events ? "from ring file" : NULL, s->joined_events);
	emit_uint(e, "damaged_places", s->nr_damaged ? "damaged places" : NULL, s->nr_damaged);
	emit_bytes(e, "damaged_bytes", s->nr_damaged ? "damaged" : NULL, s->damaged_bytes);
	emit_string(e, "stopped", NULL, stop);
	if (stop && s->stop_errno > 0)
		emit_label(e, NULL, "stopped early", "%s: %s", stop, strerror(s->stop_errno));
	else if (stop)
		emit_label(e, NULL, "stopped early", "%s", stop);
	emit_bool(e, "complete", "complete", s->complete);
}

/* What is counted by reading a trace through. */
struct counted {
	uint64_t value_reads; /* of what a simulated device did not compute */
	uint64_t settings;    /* times that the program gave its allocator others */
	struct ranges *ranges;
	struct unhooked unhooked;
};

static void print_unhooked(struct emit *e, const struct traceview *v, const struct unhooked *u)
{
	char text[160];

	if (unhooked_text(text, sizeof(text), u, v->reader))
		emit_label(e, NULL, "past the hooks", "%s", text);
	print_unhooked_calls(e, u);
}

static void print_ranges(struct emit *e, const struct traceview *v, const struct ranges_figures *r)
{
	emit_uint(e, "ranges", r->nr_ranges ? "ranges" : NULL, r->nr_ranges);
	emit_uint(e, "marks", r->nr_marks ? "marks" : NULL, r->nr_marks);
	emit_array_begin(e, "range_domains", NULL);
	for (uint32_t i = 0; i < r->nr_domains; i++)
		emit_string(e, NULL, "range domain", tfmt_reader_string(v->reader, r->domain[i]));
	emit_array_end(e);
}

static void print_volume(struct emit *e, const struct traceview *v, uint64_t bytes, const struct counted *counted)
{
	const struct tfmt_summary *s = tfmt_reader_summary(v->reader);
	uint64_t in_file = s->nr_events - s->dropped_events, from_ns, failures;
	char text[160];

	emit_uint(e, "events", "events", s->nr_events);
	emit_uint(e, "value_reads", counted->value_reads ? "values read" : NULL, counted->value_reads);
	emit_uint(e, "settings_given", counted->settings ? "settings given" : NULL, counted->settings);
	print_ranges(e, v, ranges_figures(counted->ranges));
	print_unhooked(e, v, &counted->unhooked);
	emit_uint(e, "frames", "frames", s->nr_frames);
	emit_uint(e, "checkpoints", NULL, s->nr_checkpoints);
	emit_bool(e, "index", NULL, s->indexed);
	if (s->nr_checkpoints)
		emit_label(e, NULL, "seek points", "%" PRIu64 ", %s", s->nr_checkpoints,
			   s->indexed ? "listed in an index" : "without an index");
	emit_bytes(e, "bytes", "trace file", bytes);
	if (kept_from(v->reader, &from_ns))
		emit_label(e, NULL, "kept", "%s; %" PRIu64 " events before were dropped",
			   kept_text(text, sizeof(text), v->reader, v->last_ns), s->dropped_events);
	emit_uint(e, "dropped_events", NULL, s->dropped_events);
	failures = kept_failures(v->reader, text, sizeof(text));
	emit_uint(e, "failed_drops", NULL, failures);
	if (failures)
		emit_label(e, NULL, "over the limit", "%" PRIu64 " times, the latest: %s", failures, text);
	if (in_file)
		emit_double(e, "bytes_per_event", "bytes per event", (double)bytes / (double)in_file);
	else
		emit_null(e, "bytes_per_event", NULL);
}

/* `name` is what the trace is called. What is imported was never a process that vramtrace saw. */
static void print_process(struct emit *e, const struct traceview *v, const char *name, uint64_t bytes,
			  const struct counted *counted)
{
	const struct tfmt_header *h = v->header;
	const char *program = tfmt_reader_info_value(v->reader, "program");
	bool is_own = !tfmt_reader_info_value(v->reader, "imported");
	size_t storage = h->storage <= TFMT_STORAGE_SEALED ? h->storage : TFMT_STORAGE_ANONYMOUS;

	emit_string(e, "trace", "trace", name);
	emit_string(e, "program", is_own ? "program" : NULL, program);
	emit_string(e, "host", is_own ? "host" : NULL, h->host);
	emit_int(e, "pid", is_own ? "pid" : NULL, h->pid);
	print_recorder(e, h, is_own);
	emit_unix_ns(e, "start_unix_ns", "start", h->start_real_ns);
	emit_ns(e, "duration_ns", "duration", v->last_ns - h->start_mono_ns);
	print_end(e, tfmt_reader_summary(v->reader));
	print_values(e, v->reader);
	print_devices(e, v->reader);
	print_censuses(e, v->path, v->reader);
	print_volume(e, v, bytes, counted);
	emit_int(e, "format_version", NULL, h->version);
	emit_bool(e, "simulated", NULL, h->simulated);
	emit_string(e, "storage", NULL, storages[storage].name);
	emit_string(e, "storage_promise", is_own ? "storage" : NULL, storages[storage].promise);
	print_losses(e, tfmt_reader_summary(v->reader));
}

/* ---- the recording --------------------------------------------------------------------------- */

struct totals {
	uint64_t processes, events, lost_events, bytes;
	bool complete;
};

/* *counted is the caller's to release. */
static void read_through(struct traceview *v, struct counted *counted)
{
	uint64_t done, total, nr = 0;
	struct tfmt_event ev;
	int ret;

	*counted = (struct counted){ .ranges = ranges_open(v->reader) };
	progress_begin(v->path);
	while ((ret = traceview_next(v, &ev)) != 0) {
		if (ret > 0) {
			counted->value_reads += ev.kind == TFMT_VALUE_READ;
			counted->settings += ev.kind == TFMT_SETTINGS;
			ranges_apply(counted->ranges, &ev);
			if (ev.kind == TFMT_UNHOOKED)
				unhooked_add(&counted->unhooked, &ev);
		}
		if (++nr % 65536 == 0) {
			tfmt_reader_progress(v->reader, &done, &total);
			progress_update(done, total);
		}
	}
	progress_end();
}

/* A trace that can be read; "error" says what is wrong with it all the same. */
static void show_trace(struct emit *e, struct traceview *v, const char *name, struct totals *t)
{
	const struct tfmt_summary *s = tfmt_reader_summary(v->reader);
	struct stat st;
	uint64_t bytes = stat(v->path, &st) ? 0 : (uint64_t)st.st_size;
	struct counted counted;

	read_through(v, &counted);
	if (t->processes)
		emit_blank(e);
	emit_object_begin(e, NULL, NULL);
	print_process(e, v, name, bytes, &counted);
	emit_string(e, "error", NULL, v->trouble[0] ? v->trouble : NULL);
	emit_object_end(e);
	t->processes++;
	t->events += s->nr_events;
	t->lost_events += s->lost_events;
	t->bytes += bytes;
	t->complete &= s->complete;
	ranges_close(counted.ranges);
}

/* Returns CMD_FINE, or CMD_TROUBLE after a message for each trace that is not whole or not readable. */
static int show_traces(struct emit *e, const struct recording *r, struct totals *t)
{
	int status = CMD_FINE;
	struct traceview v;

	emit_array_begin(e, "process_list", NULL);
	for (size_t i = 0; i < r->nr_traces; i++) {
		if (!traceview_open(&v, r->trace[i]))
			show_trace(e, &v, recording_trace_name(r, i), t);
		if (v.trouble[0])
			status = message_error("%s", v.trouble);
		traceview_close(&v);
	}
	emit_array_end(e);
	return status;
}

static void print_totals(struct emit *e, const struct recording *r, const struct totals *t)
{
	bool all_read = t->processes == r->nr_traces;

	emit_object_begin(e, "recording", NULL);
	emit_string(e, "path", NULL, r->path);
	emit_string(e, "folder", NULL, r->folder);
	emit_uint(e, "runs", r->nr_runs > 1 ? "runs" : NULL, r->nr_runs ? r->nr_runs : 1);
	emit_uint(e, "processes", NULL, t->processes);
	emit_uint(e, "unreadable_traces", NULL, r->nr_traces - t->processes);
	emit_uint(e, "events", NULL, t->events);
	emit_uint(e, "lost_events", NULL, t->lost_events);
	emit_bytes(e, "bytes", NULL, t->bytes);
	emit_bool(e, "complete", NULL, all_read && t->complete && !r->nr_unrecorded);
	print_unrecorded(e, r->unrecorded, r->nr_unrecorded);
	emit_object_end(e);
	if (t->processes > 1) {
		emit_blank(e);
		emit_uint(e, NULL, "processes", t->processes);
		emit_uint(e, NULL, "events", t->events);
		emit_bytes(e, NULL, "trace files", t->bytes);
	}
}

int cmd_info(int argc, const char **argv)
{
	struct info_opts o = { 0 };
	enum opt_result parsed = opt_parse(&info_help, &argc, argv, &o);
	struct totals totals = { .complete = true };
	struct recording r;
	struct emit *e;
	char why[2048];
	int status;

	if (parsed != OPT_OK)
		return opt_status(parsed);
	if (argc != 2)
		return opt_wrong(&info_help, argc < 2 ? "no recording to read" : "one recording at a time");
	e = emit_open(stdout, &o.emit, o.strings ? "vramtrace/strings/1" : "vramtrace/info/1");
	if (recording_open(&r, argv[1], why, sizeof(why))) {
		recording_release(&r);
		return emit_fail(e, "%s", why);
	}
	if (o.strings) {
		emit_string(e, "path", NULL, r.path);
		status = print_strings(e, &r);
	} else {
		status = show_traces(e, &r, &totals);
		print_totals(e, &r, &totals);
	}
	recording_release(&r);
	return emit_close(e) ? CMD_TROUBLE : status;
}
