/* SPDX-License-Identifier: MIT */
/* vramtrace oom: why an allocation failed, by a recording; --message: by the text of PyTorch's error alone. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/base/human.h"
#include "analyzer/base/message.h"
#include "analyzer/command.h"
#include "analyzer/oom/autopsy_facts.h"
#include "analyzer/failures/failurewatch.h"
#include "analyzer/failures/fatal.h"
#include "analyzer/oom/killing.h"
#include "analyzer/errortexts/oomtext.h"
#include "analyzer/pages/print_advice.h"
#include "analyzer/pages/print_autopsy.h"
#include "analyzer/pages/print_oom.h"
#include "analyzer/pages/print_oom_figures.h"
#include "analyzer/pages/print_recording.h"
#include "analyzer/purpose/rules.h"
#include "analyzer/ui/emit.h"
#include "analyzer/ui/options.h"

#define LISTED_MAX 8 /* rows of a table that leaves room for the explanation on one screen */

struct oom_opts {
	const char *message;
	bool exit_code;
	bool verbose;
	struct emit_opts emit;
};

static const struct opt oom_optv[] = {
	OPT_STRING(0, "message", struct oom_opts, message, "TEXT|-",
		   "PyTorch's error, or a log with it; - reads stdin"),
	OPT_FLAG(0, "exit-code", struct oom_opts, exit_code, "exit with 1 when a failure was not handled"),
	OPT_FLAG('v', "verbose", struct oom_opts, verbose, "also all failures that were handled, all findings"),
	OPT_FLAG(0, "json", struct oom_opts, emit.json, "print JSON"),
	OPT_ENUM(0, "color", struct oom_opts, emit.color, term_color_names, "colour the text"), OPT_END
};

static const struct opt_help oom_help = {
	.command = "oom",
	.purpose = "Say why an allocation failed, from a recording or the text of PyTorch's error.",
	.usage = "[options] RECORDING | --message TEXT|-",
	.example = "vramtrace oom train.vtr\nvramtrace oom --message - <train.log",
	.options = oom_optv,
};

static const struct emit_column list_columns[] = {
	{ .key = "rank", .head = "rank", .align = EMIT_RIGHT },
	{ .key = "device", .head = "GPU", .align = EMIT_RIGHT },
	{ .key = "asked", .head = "asked", .align = EMIT_RIGHT },
	{ .key = "count", .head = "times", .align = EMIT_RIGHT },
	{ .key = "verdict", .head = "verdict", .align = EMIT_LEFT },
	{ 0 },
};

/* Text: the messages but for the last, which is explained. */
static void list_messages(struct emit *e, const struct oom_text *t)
{
	size_t first = t->nr_messages > LISTED_MAX ? t->nr_messages - LISTED_MAX : 0;
	char buf[32];

	emit_heading(e, "%s different messages; the last is explained",
		     human_count(buf, t->nr_messages + t->nr_left_out));
	if (first + t->nr_left_out)
		emit_text(e, "(%d of them; --json has up to %d)", LISTED_MAX, OOM_MESSAGES_MAX);
	emit_table_begin(e, NULL, list_columns);
	for (size_t i = first; i < t->nr_messages; i++) {
		const struct oom_message *m = &t->message[i];
		struct oom_story s;

		oom_story_tell(&s, m);
		emit_row_begin(e);
		emit_label(e, "rank", NULL, m->rank < 0 ? "-" : "%" PRId64, m->rank);
		emit_label(e, "device", NULL, m->device < 0 ? "-" : "%" PRId64, m->device);
		emit_label(e, "asked", NULL, "%s",
			   m->requested.known ? print_oom_figure(buf, m->requested) : "-");
		emit_uint(e, "count", NULL, m->count);
		emit_string(e, "verdict", NULL, s.nr_reasons ? verdict_name(s.reason[0].verdict) : NULL);
		emit_row_end(e);
	}
	emit_table_end(e);
	emit_blank(e);
}

static int print_text(const struct oom_text *t, const struct oom_opts *o)
{
	struct emit *e = emit_open(stdout, &o->emit, "vramtrace/oom/1");
	const struct oom_message *last = &t->message[t->nr_messages - 1];
	struct oom_story s;

	if (emit_is_text(e) && t->nr_messages > 1)
		list_messages(e, t);
	if (emit_is_json(e)) {
		emit_string(e, "source", NULL, "message");
		emit_uint(e, "left_out", NULL, t->nr_left_out);
		emit_array_begin(e, "messages", NULL);
		for (size_t i = 0; i < t->nr_messages; i++) {
			oom_story_tell(&s, &t->message[i]);
			emit_object_begin(e, NULL, NULL);
			print_oom_message(e, &t->message[i], &s);
			print_oom_findings(e, &t->message[i], &s);
			emit_object_end(e);
		}
		emit_array_end(e);
	}
	oom_story_tell(&s, last);
	if (emit_is_json(e))
		print_oom_findings(e, last, &s);
	print_oom_text(e, last, &s);
	/* What is read but not explained is trouble. */
	return emit_close(e) || last->wording >= OOM_MPS ? CMD_TROUBLE : CMD_FINE;
}

static int nothing_found(const struct oom_text *t, const struct oom_opts *o)
{
	struct emit *e = emit_open(stdout, &o->emit, "vramtrace/oom/1");

	if (!t->nr_bytes)
		return emit_fail(
			e,
			"the text is empty; give the error's text to --message, or '-' and a log on stdin");
	if (strcmp(o->message, "-") && !access(o->message, R_OK))
		return emit_fail(e, "'%s' is a file: 'vramtrace oom --message - <%s' reads it", o->message,
				 o->message);
	return emit_fail(e, "the text has no message of PyTorch's about memory that ran out, such as "
			    "'CUDA out of memory. Tried to allocate 2.00 GiB'");
}

/* Explain the messages of a text, or of stdin. */
static int explain(const struct oom_opts *o)
{
	bool is_stdin = !strcmp(o->message, "-");
	FILE *in = is_stdin ? stdin : fmemopen((void *)o->message, strlen(o->message), "r");
	struct oom_text t;
	int err, ret;

	if (!in)
		return message_error("cannot read the text: %s", strerror(errno));
	err = oomtext_read(&t, in);
	if (err)
		ret = message_error("cannot read %s: %s", is_stdin ? "stdin" : "the text", strerror(-err));
	else if (!t.nr_messages)
		ret = nothing_found(&t, o);
	else
		ret = print_text(&t, o);
	oomtext_release(&t);
	if (!is_stdin)
		fclose(in);
	return ret;
}

/* ---- a recording ----------------------------------------------------------------------------- */

static void json_device(struct emit *e, const struct replay *m, const struct replay_device *d,
		       const struct failures *failures)
{
	const struct failures_of_device *of = failures_of(failures, d);
	struct autopsy a = AUTOPSY_INIT;

	if (!of)
		return;
	emit_object_begin(e, NULL, NULL);
	print_device_identity(e, d);
	print_failures(e, m, d, of);
	if (fatal_or_last(of)) {
		autopsy_make(&a, m, d, failures);
		print_autopsy_state(e, &a);
	} else {
		emit_null(e, "state", NULL);
		emit_null(e, "holders", NULL);
		emit_null(e, "modules", NULL);
	}
	print_autopsy_findings(e, &a);
	autopsy_release(&a);
	emit_object_end(e);
}

/* Processes that were killed, though memory sufficed: what their devices had left. */
static void text_killed(struct emit *e, const struct replay *m, const struct killings *k)
{
	char size[HUMAN_MAX];
	int64_t left;

	for (size_t i = 0; i < k->nr_killings; i++) {
		const struct killing *one = &k->killing[i];

		for (size_t n = 0; n < m->nr_devices && !one->is_by_host; n++)
			if (m->device[n].process == one->process && killing_free(&m->device[n], &left))
				emit_text(e, "Process %" PRIu32 " was killed from outside%s; its GPU %" PRIu32
					  " had %s free.", one->process->header->pid,
					  one->is_told ? "" : ", or host memory ran out", m->device[n].ordinal,
					  human_signed_bytes(size, left));
	}
}

static void json_killings(struct emit *e, const struct replay *m, const struct killings *k)
{
	int64_t left;

	emit_array_begin(e, "killed", NULL);
	for (size_t i = 0; i < k->nr_killings; i++) {
		const struct killing *one = &k->killing[i];
		const struct replay_process *p = one->process;

		emit_object_begin(e, NULL, NULL);
		emit_string(e, "host", NULL, p->header->host);
		emit_uint(e, "pid", NULL, p->header->pid);
		print_optional(e, "rank", p->rank);
		if (one->is_told)
			emit_bool(e, "host_oom", NULL, one->is_by_host);
		else
			emit_null(e, "host_oom", NULL);
		print_optional(e, "oom_kills", one->is_told ? (int64_t)p->host.nr_kills : -1);
		print_optional(e, "limit_bytes", p->host.limit_bytes ? (int64_t)p->host.limit_bytes : -1);
		emit_uint(e, "pinned_bytes", NULL, books_host(p->books)->pinned_bytes);
		emit_uint(e, "managed_bytes", NULL, books_host(p->books)->managed_bytes);
		print_optional(e, "shared_bytes", one->is_told ? (int64_t)p->host.shared_bytes : -1);
		emit_array_begin(e, "devices", NULL);
		for (size_t n = 0; n < m->nr_devices; n++) {
			if (m->device[n].process != p)
				continue;
			emit_object_begin(e, NULL, NULL);
			emit_uint(e, "device", NULL, m->device[n].ordinal);
			if (killing_free(&m->device[n], &left))
				emit_int(e, "free_bytes", NULL, left);
			else
				emit_null(e, "free_bytes", NULL);
			emit_object_end(e);
		}
		emit_array_end(e);
		emit_object_end(e);
	}
	emit_array_end(e);
}

static uint64_t count_failures(const struct failures *failures, uint64_t *nr_handled)
{
	uint64_t nr = 0;

	*nr_handled = 0;
	for (size_t i = 0; i < failures->nr_devices; i++) {
		nr += failures->device[i].nr_all;
		*nr_handled += failures->device[i].nr_handled;
	}
	return nr;
}

/* How many failures the page is not about, and where they are told. */
static void text_others(struct emit *e, const struct replay *m, const struct failures *failures, bool verbose,
			const struct autopsy *explained)
{
	uint64_t nr_handled, nr = count_failures(failures, &nr_handled);
	char count[HUMAN_MAX], title[256];

	if (!nr && !explained->nr_findings)
		emit_text(e, "Memory did not run out in this recording.");
	else if (nr && !explained->device)
		print_gone_on(e, nr);
	else if (nr > 1)
		emit_text(e, "(%s more failed, %s of all were handled%s)", human_count(title, nr - 1),
			  human_count(count, nr_handled), verbose ? "" : ": -v lists them");
	if (!verbose && explained->device)
		return;
	for (size_t i = 0; i < m->nr_devices && nr > 1; i++) {
		const struct failures_of_device *of = failures_of(failures, &m->device[i]);

		if (!of)
			continue;
		emit_blank(e);
		emit_text(e, "%s", print_device_title(title, sizeof(title), m, &m->device[i]));
		print_failures(e, m, &m->device[i], of);
	}
}

/* Returns 0, or what advices_find() does: the recording could not be read a second time (advice.c says what for). */
static int print_recorded(struct emit *e, const struct replay *m, struct failurewatch *watch, bool verbose, bool *is_fatal)
{
	const struct failures *failures = &watch->failures;
	struct killings killings = KILLINGS_INIT;
	struct autopsy a = AUTOPSY_INIT;
	struct advices advices = ADVICES_INIT;
	uint64_t nr_handled;
	int err = 0;

	killings_find(&killings, m);
	killings_autopsy(&a, &killings, m, failures);
	if (a.device)
		err = advices_find(&advices, a.device, &watch->failures, &watch->frag);
	if (a.nr_findings && !autopsy_is_about_size(&a))
		advices_put_off(&advices, a.finding[0].per_step, a.step);
	*is_fatal = a.nr_findings > 0;
	if (emit_is_text(e) && !err) {
		if (a.nr_findings)
			print_autopsy(e, &a, &advices, count_failures(failures, &nr_handled) > 1, verbose);
		text_others(e, m, failures, verbose, &a);
		if (!a.device)
			text_killed(e, m, &killings);
	}
	if (emit_is_json(e)) {
		emit_string(e, "source", NULL, "recording");
		print_recording(e, m);
		json_killings(e, m, &killings);
		emit_array_begin(e, "devices", NULL);
		for (size_t i = 0; i < m->nr_devices && !err; i++)
			json_device(e, m, &m->device[i], failures);
		emit_array_end(e);
		print_autopsy_findings(e, err ? NULL : &a);
		json_advice(e, &advices, ADVICE_USUAL);
	}
	advices_release(&advices);
	autopsy_release(&a);
	killings_release(&killings);
	return err;
}

static int explain_recording(const char *path, const struct oom_opts *o)
{
	struct failurewatch watch;
	struct replay_options load = failurewatch_options(&watch);
	struct replay m = REPLAY_INIT;
	int ret, damaged = CMD_FINE;
	bool is_fatal = false;
	struct emit *e;

	failurewatch_init(&watch);
	ret = rules_load();
	if (!ret)
		ret = replay_load(&m, path, &load);
	if (!ret) {
		damaged = print_caveats(&m);
		e = emit_open(stdout, &o->emit, "vramtrace/oom/1");
		ret = print_recorded(e, &m, &watch, o->verbose, &is_fatal);
		ret = ret ? emit_fail(e, "cannot read '%s' a second time", path) : emit_close(e);
	}
	failurewatch_release(&watch);
	replay_release(&m);
	if (ret == CMD_FINE && damaged == CMD_FINE && o->exit_code && is_fatal)
		return CMD_FINDING;
	return ret == CMD_FINE ? damaged : ret;
}

int cmd_oom(int argc, const char **argv)
{
	struct oom_opts o = { 0 };
	enum opt_result parsed = opt_parse(&oom_help, &argc, argv, &o);

	if (parsed != OPT_OK)
		return opt_status(parsed);
	if (argc > 2 || (argc > 1 && o.message))
		return opt_wrong(&oom_help, "unexpected argument '%s'", argv[argc - 1]);
	if (argc < 2 && !o.message)
		return opt_wrong(&oom_help, "missing RECORDING, or '--message -' and PyTorch's error on stdin");
	return o.message ? explain(&o) : explain_recording(argv[1], &o);
}
