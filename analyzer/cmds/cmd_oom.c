/* SPDX-License-Identifier: MIT */
/* vramtrace oom: why an allocation failed, by a recording; --message: by the text of PyTorch's error alone. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/cmds/print_advice.h"
#include "analyzer/cmds/print_autopsy.h"
#include "analyzer/cmds/print_model.h"
#include "analyzer/cmds/print_oom.h"
#include "analyzer/command.h"
#include "analyzer/oomtext.h"
#include "analyzer/options.h"
#include "analyzer/ui/emit.h"
#include "analyzer/ui/human.h"
#include "analyzer/ui/message.h"

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
	return emit_fail(e, "no message of PyTorch's about memory that ran out in the text; "
			    "it has 'out of memory. Tried to allocate'");
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

/* Returns 0 or TFMT_E_NOMEM. */
static int json_device(struct emit *e, const struct model *m, const struct model_device *d,
		       const struct failures *failures)
{
	const struct failures_of_device *of = failures_of(failures, d);
	struct autopsy a = AUTOPSY_INIT;
	int err = 0;

	if (!of)
		return 0;
	emit_object_begin(e, NULL, NULL);
	print_device_identity(e, d);
	print_failures(e, m, d, of);
	if (failures_fatal(of)) {
		err = autopsy_make(&a, m, d, failures);
		if (!err)
			print_autopsy_state(e, &a);
	} else {
		emit_null(e, "state", NULL);
		emit_null(e, "holders", NULL);
		emit_null(e, "modules", NULL);
	}
	print_autopsy_findings(e, err ? NULL : &a);
	autopsy_release(&a);
	emit_object_end(e);
	return err;
}

/* Processes that were killed, though memory sufficed: what their devices had left. */
static void text_killed(struct emit *e, const struct model *m)
{
	for (size_t i = 0; i < m->nr_devices; i++) {
		const struct model_device *d = &m->device[i];
		const struct residual *r = &d->books->residual;
		int64_t left = (int64_t)(r->last.total - r->last.used) + (int64_t)(r->last.ledger - r->ledger);
		char size[HUMAN_MAX];

		if (d->process->end != MODEL_END_KILLED || !r->has_last)
			continue;
		emit_text(e, "Process %" PRIu32 " was killed from outside; its GPU %" PRIu32 " had %s free.",
			  d->process->header->pid, d->ordinal, human_signed_bytes(size, left));
	}
}

/* How many failures the page is not about, and where they are told. */
static void text_others(struct emit *e, const struct model *m, const struct failures *failures, bool verbose,
			bool explained)
{
	uint64_t nr = 0, nr_handled = 0;
	char count[HUMAN_MAX], title[256];

	for (size_t i = 0; i < failures->nr_devices; i++) {
		nr += failures->device[i].nr_all;
		nr_handled += failures->device[i].nr_handled;
	}
	if (!nr)
		emit_text(e, "Memory did not run out in this recording.");
	if (!nr)
		text_killed(e, m);
	else if (!explained)
		emit_heading(e, "%s requests failed, and each time the program went on.", human_count(count, nr));
	else if (nr > 1)
		emit_text(e, "(%s more failed, %s of all were handled%s)", human_count(title, nr - 1),
			  human_count(count, nr_handled), verbose ? "" : ": -v lists them");
	if (!verbose && explained)
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

/* Returns 0 or TFMT_E_NOMEM. */
static int print_recorded(struct emit *e, const struct model *m, const struct failures *failures, bool verbose)
{
	const struct model_device *d = failures_device(failures, m);
	struct autopsy a = AUTOPSY_INIT;
	struct advices advices = ADVICES_INIT;
	int err = d ? autopsy_make(&a, m, d, failures) : 0;

	if (d && !err)
		err = advices_find(&advices, d, failures);
	if (emit_is_text(e) && !err) {
		if (d)
			print_autopsy(e, &a, &advices, verbose);
		text_others(e, m, failures, verbose, d != NULL);
	}
	if (emit_is_json(e)) {
		emit_string(e, "source", NULL, "recording");
		print_recording(e, m);
		emit_array_begin(e, "devices", NULL);
		for (size_t i = 0; i < m->nr_devices && !err; i++)
			err = json_device(e, m, &m->device[i], failures);
		emit_array_end(e);
		print_autopsy_findings(e, d && !err ? &a : NULL);
		json_advice(e, &advices, ADVICE_USUAL);
	}
	advices_release(&advices);
	autopsy_release(&a);
	return err;
}

static int explain_recording(const char *path, const struct oom_opts *o)
{
	struct failures failures = FAILURES_INIT;
	struct model_options load = {
		.lives = true, .modules = true, .observe = failures_observe, .ctx = &failures,
	};
	struct model m = MODEL_INIT;
	int ret, damaged = CMD_FINE;
	bool is_fatal = false;
	struct emit *e;

	ret = model_load(&m, path, &load);
	if (!ret) {
		damaged = print_caveats(&m);
		e = emit_open(stdout, &o->emit, "vramtrace/oom/1");
		is_fatal = failures_device(&failures, &m);
		if (failures.is_short_of_memory || print_recorded(e, &m, &failures, o->verbose))
			ret = emit_fail(e, "cannot explain '%s': out of memory", path);
		else
			ret = emit_close(e);
	}
	failures_release(&failures);
	model_release(&m);
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
