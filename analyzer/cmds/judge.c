/* SPDX-License-Identifier: MIT */
/* Load, judge, print. */
#include "analyzer/cmds/judge.h"

#include "analyzer/base/message.h"
#include "analyzer/checkpages/print_ruling.h"
#include "analyzer/command.h"
#include "analyzer/gate/baselinefile.h"
#include "analyzer/pages/print_recording.h"
#include "analyzer/pages/subject.h"

static int print_page(const struct check_page *page, const struct judge_opts *o, FILE *out)
{
	struct emit_opts emit = o->emit;

	switch (o->format) {
	case FORMAT_JUNIT:
		print_junit(out, page);
		break;
	case FORMAT_GITHUB:
		print_github(out, page);
		break;
	case FORMAT_MARKDOWN:
		print_markdown(out, page);
		break;
	default:
		emit.json = o->format == FORMAT_JSON;
		return print_check(emit_open(out, &emit, CHECK_SCHEMA), page);
	}
	return ferror(out) ? CMD_TROUBLE : CMD_FINE;
}

static int judge_loaded(const struct subject *s, const struct footprint *baseline, const struct limits *limits,
			const struct judge_opts *o, FILE *out)
{
	static const enum cmd_status statuses[] = { CMD_FINE, CMD_FINDING, CMD_TROUBLE };
	char obstacle[256], loss[64], text[RULING_TEXT_MAX];
	struct rulings_query query = { .limits = limits, .now = &s->footprint, .baseline = baseline };
	struct rulings all = RULINGS_INIT;
	struct check_page page = { .rulings = &all, .query = &query, .replay = &s->replay, .top = o->top };
	int ret;

	query.zero_answers = print_zero_answers(&s->replay);
	query.obstacle = subject_obstacle(obstacle, sizeof(obstacle), s);
	query.loss = subject_loss(loss, sizeof(loss), s);
	rulings_find(&all, &query);
	ret = print_page(&page, o, out);
	/* A report in a file leaves the log without a word. */
	if (!ret && o->format != FORMAT_TEXT && o->format != FORMAT_GITHUB && all.status != RULINGS_KEPT)
		message_warn("%s", print_rulings_line(text, &all, s->replay.recording.path));
	ret = ret ? ret : (int)statuses[all.status];
	rulings_release(&all);
	return ret;
}

int judge_recording(const char *path, const struct limits *limits, const struct judge_opts *o, FILE *out)
{
	struct footprint baseline = FOOTPRINT_INIT;
	struct subject s = SUBJECT_INIT;
	int ret = *limits->baseline ? baselinefile_read(&baseline, limits->baseline) : CMD_FINE;

	if (!ret)
		ret = subject_load(&s, path, false, o->quiet);
	if (!ret)
		ret = judge_loaded(&s, *limits->baseline ? &baseline : NULL, limits, o, out);
	subject_release(&s);
	footprint_release(&baseline);
	return ret;
}
