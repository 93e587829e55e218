/* SPDX-License-Identifier: MIT */
/* vramtrace top: what runs, as it runs. */
#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "analyzer/base/human.h"
#include "analyzer/base/message.h"
#include "analyzer/command.h"
#include "analyzer/live/livealert.h"
#include "analyzer/livepages/livecsv.h"
#include "analyzer/livepages/livepage.h"
#include "analyzer/livepages/livescreen.h"
#include "analyzer/ui/options.h"

#define HOLDERS_ONCE 5
#define INTERVAL_MIN_NS 10000000 /* of which a run of a day makes ten million lines */

struct top_opts {
	bool once;
	const char *csv, *alert, *alert_command;
	int sort;
};

static const struct opt top_optv[] = {
	OPT_FLAG(0, "once", struct top_opts, once, "print the page once, as text"),
	OPT_STRING(0, "csv", struct top_opts, csv, "TIME", "print a line of CSV per process, GPU and TIME (1s), until all have ended"),
	OPT_ENUM(0, "sort", struct top_opts, sort, live_sort_names, "what comes first (used)"),
	OPT_STRING(0, "alert", struct top_opts, alert, "SHARE", "tell when more than SHARE (90%) of a GPU is used"),
	OPT_STRING(0, "alert-command", struct top_opts, alert_command, "COMMAND", "run COMMAND then, by sh, once"),
	OPT_END
};

static const struct opt_help top_help = {
	.command = "top",
	.purpose = "Show what recorded programs hold while they run.",
	.usage = "[options] [PID | RECORDING]",
	.example = "vramtrace top\n"
		   "vramtrace top --alert 90% --alert-command 'notify-send GPU' train.vtr\n"
		   "vramtrace top --csv 1s 4711 >> memory.csv",
	.options = top_optv,
};

/* "90%" or "0.9". */
static bool parse_share(const char *text, double *share)
{
	char *end;

	errno = 0;
	*share = strtod(text, &end);
	if (end == text || errno)
		return false;
	if (*end == '%') {
		*share /= 100;
		end++;
	}
	return !*end && *share > 0 && *share <= 1;
}

static bool parse_pid(const char *text, pid_t *pid)
{
	char *end;
	long number;

	if (!isdigit((unsigned char)*text))
		return false;
	errno = 0;
	number = strtol(text, &end, 10);
	*pid = (pid_t)number;
	return !errno && !*end && number > 0 && *pid == number;
}

/* ---- without a page that is drawn anew -------------------------------------------------------- */

static void say_alert(void *ctx, const struct liverow *r, double share)
{
	char percent[HUMAN_MAX], used[HUMAN_MAX], capacity[HUMAN_MAX];

	(void)ctx;
	message_warn("GPU %u of process %u was at %s: %s of %s used", r->device->ordinal, r->process->header->pid,
		     human_percent(percent, share, 1), human_bytes(used, (uint64_t)(share * (double)r->device->capacity_bytes)),
		     human_bytes(capacity, r->device->capacity_bytes));
}

static int print_once(const struct live *l, struct livealert *a)
{
	struct livepage_view view = { term_columns(stdout), term_has_utf8(), LIVEPAGE_ALL, HOLDERS_ONCE };
	bool colored = term_wants_color(stdout, TERM_COLOR_AUTO);
	struct livepage page = { 0 };

	livepage_make(&page, l, &view);
	for (size_t i = 0; i < page.nr_lines; i++)
		printf("%s%s%s\n", term_style(page.line[i].style, colored), page.line[i].text, term_style(TERM_PLAIN, colored));
	livepage_release(&page);
	livealert_check(a, l, say_alert, NULL);
	return CMD_FINE;
}

static int log_until_over(struct live *l, struct livealert *a)
{
	uint64_t pause_ns = l->interval_ns < 1000000000 ? l->interval_ns : 1000000000;
	const struct timespec pause = { .tv_sec = (time_t)(pause_ns / 1000000000), .tv_nsec = (long)(pause_ns % 1000000000) };

	signal(SIGPIPE, SIG_DFL); /* a reader that has seen enough ends it */
	livecsv_head(stdout);
	for (;;) {
		livealert_check(a, l, say_alert, NULL);
		livecsv_print(stdout, l);
		if (live_is_over(l) || ferror(stdout))
			return CMD_FINE;
		nanosleep(&pause, NULL);
		live_look(l);
	}
}

/* ---- the command ------------------------------------------------------------------------------ */

static int check_options(const struct top_opts *o, struct live *l, struct livealert *a)
{
	if (o->once && o->csv)
		return opt_wrong(&top_help, "--once and --csv exclude each other");
	if (o->csv && (!human_parse_time(o->csv, &l->interval_ns) || l->interval_ns < INTERVAL_MIN_NS))
		return opt_wrong(&top_help, "--csv takes a time of 10ms or more, not '%s'", o->csv);
	if (o->alert && !parse_share(o->alert, &a->share))
		return opt_wrong(&top_help, "--alert takes a share of a GPU's memory, as 90%%, not '%s'", o->alert);
	if (o->alert_command && !o->alert)
		return opt_wrong(&top_help, "--alert-command needs --alert SHARE");
	if (!o->once && !o->csv && !(isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)))
		return opt_wrong(&top_help, "the page needs a terminal; --once prints it as text, --csv 1s a line each second");
	return CMD_FINE;
}

static int show(const struct top_opts *o, struct live *l, struct livealert *a)
{
	int ret = live_open(l);

	if (ret)
		return ret;
	if (o->once)
		ret = print_once(l, a);
	else
		ret = o->csv ? log_until_over(l, a) : livescreen_run(l, a);
	return ret == CMD_FINE && a->nr_raised ? CMD_FINDING : ret;
}

int cmd_top(int argc, const char **argv)
{
	struct top_opts o = { 0 };
	struct livealert a = { 0 };
	struct live l = { 0 };
	enum opt_result parsed = opt_parse(&top_help, &argc, argv, &o);
	int ret;

	if (parsed != OPT_OK)
		return opt_status(parsed);
	if (argc > 2)
		return opt_wrong(&top_help, "unexpected argument '%s'", argv[2]);
	l.sort = (enum live_sort)o.sort;
	a.command = o.alert_command;
	if (argc == 2 && !parse_pid(argv[1], &l.pid))
		l.recording = argv[1];
	ret = check_options(&o, &l, &a);
	if (!ret)
		ret = show(&o, &l, &a);
	livealert_release(&a);
	live_close(&l);
	return ret;
}
