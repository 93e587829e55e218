/* SPDX-License-Identifier: MIT */
/* vramtrace verify: is a recording whole? */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "analyzer/base/message.h"
#include "analyzer/base/progress.h"
#include "analyzer/command.h"
#include "analyzer/exchange/recordingcopy.h"
#include "analyzer/pages/print_recording.h"
#include "analyzer/recording/kept.h"
#include "analyzer/recording/recording.h"
#include "analyzer/recording/traceview.h"
#include "analyzer/ui/emit.h"
#include "analyzer/ui/options.h"

#define PLACES_SHOWN 100 /* damaged places listed per trace */

struct verify_opts {
	struct emit_opts emit;
	const char *repair; /* where the copy goes; NULL: none is made */
};

static const struct opt verify_optv[] = {
	OPT_STRING(0, "repair", struct verify_opts, repair, "OUT", "write a clean copy of what can be read"),
	EMIT_JSON_OPTIONS(struct verify_opts, emit),
	OPT_END,
};

static const struct opt_help verify_help = {
	.command = "verify",
	.purpose = "Say whether a recording is whole (exit 0), cut off (1) or damaged (2).",
	.usage = "[options] RECORDING",
	.example = "vramtrace verify train.vtr\n"
		   "vramtrace verify --repair clean.vtr train.vtr",
	.options = verify_optv,
};

/* From best to worst. Incomplete: nothing is wrong with the file, but the recorder could not keep everything. */
enum health { WHOLE, INCOMPLETE, CUT_OFF, DAMAGED };
static const char *const health_names[] = { "whole", "incomplete", "cut off", "damaged" };
static const int health_status[] = { CMD_FINE, CMD_FINDING, CMD_FINDING, CMD_TROUBLE };

static void make_worse(enum health *health, enum health other)
{
	if (*health < other)
		*health = other;
}

static const char *stop_reason(const struct tfmt_summary *s)
{
	switch (s->stop) {
	case TFMT_STOP_DISK_FULL:
		return "the disk was full";
	case TFMT_STOP_IO:
		return s->stop_errno > 0 ? strerror(s->stop_errno) : "a write failed";
	case TFMT_STOP_NOMEM:
		return "memory ran out";
	default:
		return "reason unknown";
	}
}

/* Something the recorder could not keep: said in text, counted in JSON by its caller. */
static void problem(struct emit *e, enum health *health, const char *text)
{
	emit_string(e, NULL, NULL, text);
	emit_text(e, "%s", text);
	make_worse(health, INCOMPLETE);
}

static void list_problems(struct emit *e, struct traceview *v, enum health *health)
{
	const struct tfmt_summary *s = tfmt_reader_summary(v->reader);
	char text[256];

	if (traceview_lacks_end(v)) {
		problem(e, health, "its end is missing");
		if (v->header->storage != TFMT_STORAGE_ANONYMOUS && v->header->storage != TFMT_STORAGE_SEALED)
			make_worse(health, CUT_OFF);
	}
	if (s->stop) {
		snprintf(text, sizeof(text), "recording stopped early: %s", stop_reason(s));
		problem(e, health, text);
	}
	if (s->nr_given_up) {
		snprintf(text, sizeof(text), "%" PRIu64 " damaged place%s before it was repaired", s->nr_given_up,
			 s->nr_given_up == 1 ? "" : "s");
		problem(e, health, text);
	}
	if (s->lost_events) {
		snprintf(text, sizeof(text), "%" PRIu64 " events lost", s->lost_events);
		problem(e, health, text);
	}
}

/* Read the trace through; its damaged places are one JSON object and one line each. */
static void list_damage(struct emit *e, struct traceview *v, enum health *health)
{
	const struct tfmt_summary *s = tfmt_reader_summary(v->reader);
	struct tfmt_event ev;
	uint64_t done, total, nr = 0;
	int ret;

	while ((ret = traceview_next(v, &ev)) != 0) {
		if (++nr % 65536 == 0) {
			tfmt_reader_progress(v->reader, &done, &total);
			progress_update(done, total);
		}
		if (ret > 0 || !v->damage)
			continue;
		if (v->nr_damaged > PLACES_SHOWN)
			continue;
		emit_object_begin(e, NULL, NULL);
		emit_uint(e, "offset", NULL, v->damaged_offset);
		emit_string(e, "message", NULL, v->damage);
		emit_object_end(e);
		emit_text(e, "byte %" PRIu64 ": %s", v->damaged_offset, v->damage);
	}
	if (v->nr_damaged > PLACES_SHOWN)
		emit_text(e, "... and %" PRIu64 " more places", v->nr_damaged - PLACES_SHOWN);
	/* If not, the one place is the end of the file, inside a frame. */
	if (v->nr_damaged)
		make_worse(health, s->nr_damaged ? DAMAGED : CUT_OFF);
}

static enum health verify_readable(struct emit *e, struct traceview *v)
{
	const struct tfmt_summary *s = tfmt_reader_summary(v->reader);
	enum health health = WHOLE;
	uint64_t failures;
	char text[160];

	emit_array_begin(e, "damage", NULL);
	list_damage(e, v, &health);
	emit_array_end(e);
	emit_array_begin(e, "problems", NULL);
	list_problems(e, v, &health);
	emit_array_end(e);
	emit_string(e, "end", NULL, traceview_end_name(s->end));
	emit_uint(e, "events", NULL, s->nr_events);
	emit_uint(e, "lost_events", NULL, s->lost_events);
	emit_uint(e, "joined_events", NULL, s->joined_events);
	emit_uint(e, "frames", NULL, s->nr_frames);
	emit_uint(e, "checkpoints", NULL, s->nr_checkpoints);
	emit_bool(e, "index", NULL, s->indexed);
	emit_uint(e, "damaged_places", NULL, s->nr_damaged);
	emit_uint(e, "damaged_bytes", NULL, s->damaged_bytes);
	emit_uint(e, "dropped_events", NULL, s->dropped_events);
	if (s->dropped_events)
		emit_text(e, "keeps %s; %" PRIu64 " events before were dropped on purpose",
			  kept_text(text, sizeof(text), v->reader, v->last_ns), s->dropped_events);
	failures = kept_failures(v->reader, text, sizeof(text));
	emit_uint(e, "failed_drops", NULL, failures);
	if (failures)
		emit_text(e, "larger than it was to be: nothing could be dropped %" PRIu64 " times, the latest: %s",
			  failures, text);
	if (s->nr_checkpoints)
		emit_text(e, "%" PRIu64 " place%s to begin reading at, %s", s->nr_checkpoints,
			  s->nr_checkpoints == 1 ? "" : "s", s->indexed ? "listed in an index" : "without an index");
	emit_text(e, "%s: %" PRIu64 " events in %" PRIu64 " frames, end: %s", health_names[health],
		  s->nr_events, s->nr_frames, traceview_end_name(s->end));
	return health;
}

/* The same members without values. */
static void show_unreadable(struct emit *e)
{
	static const char *const members[] = { "end",		"events", "lost_events",    "joined_events", "frames",
					       "checkpoints",	"index",  "damaged_places", "damaged_bytes",
					       "dropped_events", "failed_drops" };

	emit_array_begin(e, "damage", NULL);
	emit_array_end(e);
	emit_array_begin(e, "problems", NULL);
	emit_array_end(e);
	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
		emit_null(e, members[i], NULL);
	emit_text(e, "unreadable");
}

static enum health verify_trace(struct emit *e, const char *path, const char *name)
{
	enum health health = DAMAGED;
	struct traceview v;
	struct stat st;

	emit_object_begin(e, NULL, name);
	emit_string(e, "trace", NULL, name);
	emit_uint(e, "bytes", NULL, stat(path, &st) ? 0 : (uint64_t)st.st_size);
	progress_begin(path);
	if (!traceview_open(&v, path))
		health = verify_readable(e, &v);
	else
		show_unreadable(e);
	progress_end();
	emit_string(e, "verdict", NULL, health_names[health]);
	emit_string(e, "error", NULL, v.trouble[0] ? v.trouble : NULL);
	emit_object_end(e);
	if (v.trouble[0])
		message_error("%s", v.trouble);
	traceview_close(&v);
	return health;
}

static int repair(const struct recording *r, const struct verify_opts *o)
{
	struct recordingcopy copy = { .out = o->repair, .repair = true };
	struct emit *e = emit_open(stdout, &o->emit, "vramtrace/repair/1");
	int status = recordingcopy_make(&copy, r);

	emit_string(e, "path", NULL, r->path);
	emit_string(e, "output", NULL, o->repair);
	emit_uint(e, "traces", NULL, copy.nr_copied);
	emit_uint(e, "not_whole", NULL, copy.nr_not_whole);
	if (status != CMD_TROUBLE)
		emit_text(e, "%s: %" PRIu64 " trace%s, of which %" PRIu64 " lack%s something", o->repair, copy.nr_copied,
			  copy.nr_copied == 1 ? "" : "s", copy.nr_not_whole, copy.nr_not_whole == 1 ? "s" : "");
	return emit_close(e) ? CMD_TROUBLE : status;
}

int cmd_verify(int argc, const char **argv)
{
	struct verify_opts o = { 0 };
	enum opt_result parsed = opt_parse(&verify_help, &argc, argv, &o);
	enum health worst = WHOLE;
	struct recording r;
	struct emit *e;
	char why[2048];
	int err;

	if (parsed != OPT_OK)
		return opt_status(parsed);
	if (argc != 2)
		return opt_wrong(&verify_help, argc < 2 ? "no recording to read" : "one recording at a time");
	err = recording_open(&r, argv[1], why, sizeof(why));
	if (!err && o.repair) {
		err = repair(&r, &o);
		recording_release(&r);
		return err;
	}
	e = emit_open(stdout, &o.emit, "vramtrace/verify/1");
	if (err) {
		recording_release(&r);
		return emit_fail(e, "%s", why);
	}
	emit_string(e, "path", NULL, argv[1]);
	emit_array_begin(e, "traces", NULL);
	for (size_t i = 0; i < r.nr_traces; i++) {
		make_worse(&worst, verify_trace(e, r.trace[i], recording_trace_name(&r, i)));
	}
	emit_array_end(e);
	print_unrecorded(e, r.unrecorded, r.nr_unrecorded);
	if (r.nr_unrecorded)
		make_worse(&worst, INCOMPLETE);
	emit_string(e, "verdict", NULL, health_names[worst]);
	recording_release(&r);
	return emit_close(e) ? CMD_TROUBLE : health_status[worst];
}
