/* SPDX-License-Identifier: MIT */
/* vramtrace report: the page to read first. The text is here, the JSON in print_report.c. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "analyzer/base/human.h"
#include "analyzer/base/message.h"
#include "analyzer/command.h"
#include "analyzer/failures/failurewatch.h"
#include "analyzer/holders/holders.h"
#include "analyzer/oom/autopsy_facts.h"
#include "analyzer/oom/killing.h"
#include "analyzer/pages/devicepage.h"
#include "analyzer/pages/print_advice.h"
#include "analyzer/pages/print_autopsy.h"
#include "analyzer/pages/print_facts.h"
#include "analyzer/pages/print_holders.h"
#include "analyzer/pages/print_outside.h"
#include "analyzer/pages/print_phases.h"
#include "analyzer/pages/print_recording.h"
#include "analyzer/pages/print_report.h"
#include "analyzer/pages/print_stepgrowth.h"
#include "analyzer/purpose/rules.h"
#include "analyzer/replay/replay.h"
#include "analyzer/ui/emit.h"
#include "analyzer/ui/options.h"
#include "analyzer/ui/print_wrapped.h"

#define PAGE_LINES 24
#define PAGE_WIDTH 80
#define HOLDERS_SHOWN 3
#define DEVICES_SHOWN 5
#define ADVICE_SHOWN 3
/* Lines of the page besides devices, facts, phases and holders: heads, empty lines, what to type next. */
#define OTHER_LINES 9

struct report_opts {
	bool verbose;
	struct emit_opts emit;
};

/* What there is to say of a model. */
struct findings {
	const struct replay_device *device; /* to explain; NULL: none was used */
	struct facts facts;
	struct autopsy autopsy;
	struct advices advices;
};

static const struct opt report_optv[] = {
	OPT_FLAG('v', "verbose", struct report_opts, verbose,
		 "also all that is in use on each GPU, data-dependent places and runs"),
	EMIT_JSON_OPTIONS(struct report_opts, emit),
	OPT_END
};

static const struct opt_help report_help = {
	.command = "report",
	.purpose = "One page: what filled the GPU memory, and who held it.",
	.usage = "[options] RECORDING",
	.example = "vramtrace report train.vtr\nvramtrace report --json train.vtr",
	.options = report_optv,
};

/* How it ended: "ended normally", "exit status 1", "2 of 8 processes failed", of several the worst. */
static const char *end_text(char *buf, size_t size, const struct replay *m)
{
	static const char *const ends[] = { "ended normally", "still running", "its end is not known",
					    "ended by a signal", "killed" };
	const struct tfmt_summary *s = m->process[0].summary;
	size_t nr_failed = 0;

	for (size_t i = 0; i < m->nr_processes; i++)
		nr_failed += m->process[i].end == REPLAY_END_EXIT && m->process[i].summary->exit_status;
	if (m->nr_processes == 1 && nr_failed)
		snprintf(buf, size, "exit status %d", s->exit_status);
	else if (m->nr_processes == 1 && s->end == TFMT_PROCESS_SIGNAL)
		snprintf(buf, size, "signal %d (%s)", s->exit_status, strsignal(s->exit_status));
	else if (m->end == REPLAY_END_EXIT && nr_failed)
		snprintf(buf, size, "%zu of %zu processes failed", nr_failed, m->nr_processes);
	else if (m->nr_processes > 1)
		snprintf(buf, size, "%zu processes, %s", m->nr_processes, ends[m->end]);
	else
		snprintf(buf, size, "%s", m->process[0].imported ? "taken" : ends[m->end]);
	return buf;
}

/* A flight recorder has dropped the beginning: what is told of the rest alone. Returns its lines. */
static unsigned text_kept(struct emit *e, const struct replay *m)
{
	char kept[HUMAN_MAX], whole[HUMAN_MAX];

	if (print_kept_from(m) < 0)
		return 0;
	emit_text(e, "kept: the last %s of %s; steps and growth are of that part",
		  human_ns(kept, m->duration_ns - (uint64_t)print_kept_from(m)), human_ns(whole, m->duration_ns));
	return 1;
}

/* "train.py, torch 2.11.0, simulated GPU h100", in one line: too long a name is cut. */
static void text_program(struct emit *e, const struct replay *m, const struct replay_process *p)
{
	const char *name = *p->program ? print_short_path(p->program) : m->recording.path;
	char with[128];
	int n = snprintf(with, sizeof(with), "%s%.40s%s%.40s", p->torch ? ", torch " : p->imported ? ", " : "",
			 p->torch      ? p->torch :
			 p->imported   ? p->imported :
					 "",
			 p->simulated ? ", simulated GPU " : "", p->simulated ? p->simulated : "");

	if (strlen(name) + (size_t)n <= PAGE_WIDTH || n + 3 >= PAGE_WIDTH)
		emit_heading(e, "%s%s", name, with);
	else
		emit_heading(e, "%.*s...%s", PAGE_WIDTH - 3 - n, name, with);
}

/*
 * Lines 1 and 2: what ran (of several, on the device explained), how it ended, how much was recorded. Returns how many
 * lines there are more.
 */
static unsigned text_run(struct emit *e, const struct replay *m, const struct replay_device *d)
{
	const struct replay_process *p = d ? d->process : &m->process[0];
	char duration[HUMAN_MAX], events[HUMAN_MAX], end[64], text[256];
	unsigned lines;

	text_program(e, m, p);
	snprintf(text, sizeof(text), "%s after %s; %s events, %s", end_text(end, sizeof(end), m),
		 human_ns(duration, m->duration_ns), human_count(events, m->nr_events),
		 m->complete ? "none lost" : "not whole: figures are \"at least\"");
	lines = print_wrapped(e, "", "  ", text);
	return lines - 1 + text_kept(e, m);
}

/* Is what the autopsy explains (fatal.h says which that is) a request of PyTorch's? */
static bool is_out(const struct device_books *b, const struct autopsy *a)
{
	return b->tensor_ooms && a->device && a->device->books == b;
}

/* The end of a verdict whose figures rest on sizes taken as 0. Returns its lines. */
static unsigned zeros_line(struct emit *e, const struct replay_device *d)
{
	char zeros[ZERO_TEXT_MAX];
	uint64_t nr = replay_zero_answers(d->process);

	if (nr)
		emit_heading(e, "%s.", print_zeros(zeros, "", nr));
	return nr > 0;
}

/*
 * The sentence to remember: memory ran out, for good or not, or grows, or sufficed. Returns how many lines there are more.
 */
static unsigned text_verdict(struct emit *e, const struct replay *m, const struct devicepage *page,
			     const struct autopsy *a)
{
	const struct replay_device *d = page->device;
	const struct device_books *b = d->books;
	void (*line)(struct emit *, const char *, ...);
	unsigned lines = 0;
	const struct books_moment *oom = &b->moment[MARK_OOM];
	char size[HUMAN_MAX], other[HUMAN_MAX], cached[HUMAN_MAX], share[HUMAN_MAX];
	const char *end = replay_zero_answers(d->process) ? ";" : "."; /* the sentence may go on */

	if (is_out(b, a)) {
		emit_heading(e, "Out of memory: %s more did not fit; %s allocated, %s cached%s",
			     human_bytes(size, b->oom_asked_bytes), human_bytes(other, oom->allocated_bytes),
			     human_bytes(cached, oom->reserved_bytes > oom->allocated_bytes ?
							 oom->reserved_bytes - oom->allocated_bytes : 0), end);
		return zeros_line(e, d);
	}
	if (a->device == d && a->failure->is_driver) {
		emit_heading(e, "Out of memory: %s more did not fit beside %s taken from the driver%s",
			     human_bytes(size, a->failure->asked), human_bytes(other, a->failure->reserved), end);
		return zeros_line(e, d);
	}
	if (a->device == d && a->failure->is_library) {
		emit_heading(e, "Out of memory: %s more did not fit beside %s reserved by PyTorch%s",
			     human_bytes(size, a->failure->asked), human_bytes(other, a->failure->reserved), end);
		return zeros_line(e, d);
	}
	if (b->tensor_ooms) {
		print_gone_on(e, b->tensor_ooms);
		lines++;
	}
	lines += print_stepgrowth_line(e, m, d, &page->growth, &page->limits);
	lines += print_stepgrowth_line(e, m, &page->host, &page->on_host, &page->limits);
	line = lines ? emit_text : emit_heading;
	human_bytes(size, replay_filled_bytes(d));
	if (!d->capacity_bytes)
		line(e, "It needed %s%s of GPU memory%s", print_at_least(d->process), size, end);
	else
		line(e, "It fitted: %s%s of %s %s, %s of the GPU%s", print_at_least(d->process), size,
		     human_bytes(other, d->capacity_bytes),
		     d->has_tensors ? "reserved by PyTorch" : "taken from the driver",
		     human_percent(share, (double)replay_filled_bytes(d), (double)d->capacity_bytes), end);
	lines += zeros_line(e, d);
	return lines;
}

/* Returns its lines. */
static unsigned text_device(struct emit *e, const struct replay *m, const struct replay_device *d,
			    const struct outside *o)
{
	unsigned lines = 2 + (d->capacity_bytes != 0);
	const struct device_books *b = d->books;
	char title[256], peak[HUMAN_MAX], end[HUMAN_MAX], time[HUMAN_MAX];

	emit_object_begin(e, NULL, print_device_title(title, sizeof(title), m, d));
	if (d->capacity_bytes)
		emit_label(e, NULL, "capacity", "%8s", human_bytes(peak, d->capacity_bytes));
	else if (d->is_unlimited)
		emit_string(e, NULL, "capacity", "unlimited");
	if (d->has_tensors) {
		emit_label(e, NULL, "reserved", "%8s   peak; %s%s at the end",
			   human_bytes(peak, b->reserved_peak_bytes), print_about_end(d, REPLAY_RESERVED), human_bytes(end, b->reserved_bytes));
		emit_label(e, NULL, "allocated", "%8s   peak, after %s; %s%s at the end",
			   human_bytes(peak, b->allocated_peak_bytes),
			   human_ns(time, replay_time(d->process, b->moment[MARK_TENSOR_PEAK].time_ns)),
			   print_about_end(d, REPLAY_ALLOCATED), human_bytes(end, b->allocated_bytes));
		lines++;
	} else {
		emit_label(e, NULL, "from the driver", "%8s   peak, after %s; %s%s at the end",
			   human_bytes(peak, b->driver_peak_bytes),
			   human_ns(time, replay_time(d->process, b->moment[MARK_DRIVER_PEAK].time_ns)),
			   print_about_end(d, REPLAY_DRIVER), human_bytes(end, b->driver_bytes));
	}
	lines += print_outside(e, d, o);
	emit_object_end(e);
	return lines;
}

/* "0 (rank 17)": a device among several, by the rank of its process, or its pid. Returns buf. */
static const char *which_gpu(char *buf, size_t size, const struct replay_device *d)
{
	if (d->process->rank >= 0)
		snprintf(buf, size, "%" PRIu32 " (rank %" PRId64 ")", d->ordinal, (int64_t)d->process->rank);
	else
		snprintf(buf, size, "%" PRIu32 " (pid %" PRIu32 ")", d->ordinal, d->process->header->pid);
	return buf;
}

/* Several devices: one row each. Returns its lines. */
static unsigned text_devices(struct emit *e, const struct replay *m)
{
	static const struct emit_column columns[] = {
		{ "gpu", "GPU", EMIT_LEFT, true },	     { "capacity", "capacity", EMIT_RIGHT, true },
		{ "reserved", "reserved", EMIT_RIGHT, true }, { "allocated", "allocated", EMIT_RIGHT, true },
		{ "driver", "driver", EMIT_RIGHT, true },     { "ooms", "OOMs", EMIT_RIGHT, true },
		{ NULL, NULL, EMIT_LEFT, false },
	};
	char text[256];

	emit_table_begin(e, NULL, columns);
	for (size_t i = 0; i < m->nr_devices && i < DEVICES_SHOWN; i++) {
		const struct replay_device *d = &m->device[i];

		emit_row_begin(e);
		emit_label(e, "gpu", NULL, "%s", which_gpu(text, sizeof(text), d));
		emit_label(e, "capacity", NULL, "%s",
			   d->is_unlimited ? "unlimited" : human_bytes(text, d->capacity_bytes));
		emit_label(e, "reserved", NULL, "%s", human_bytes(text, d->books->reserved_peak_bytes));
		emit_label(e, "allocated", NULL, "%s", human_bytes(text, d->books->allocated_peak_bytes));
		emit_label(e, "driver", NULL, "%s", human_bytes(text, d->books->driver_peak_bytes));
		emit_label(e, "ooms", NULL, "%" PRIu64, d->books->tensor_ooms);
		emit_row_end(e);
	}
	emit_table_end(e);
	if (m->nr_devices > DEVICES_SHOWN)
		emit_text(e, "(%zu more: --json)", m->nr_devices - DEVICES_SHOWN);
	return 1 + (unsigned)(m->nr_devices > DEVICES_SHOWN ? DEVICES_SHOWN + 1 : m->nr_devices);
}

/* The largest holders, as many as the rest of the page leaves room for, at least one. */
static void text_holders(struct emit *e, const struct replay *m, const struct replay_device *d, unsigned lines)
{
	bool oom = d->books->tensor_ooms > 0;
	struct holders_query q = { d->process, d->ordinal, d->has_tensors ? HOLDERS_TENSORS : HOLDERS_DRIVER,
				   HOLDERS_BY_SITE,
				   oom ? MARK_OOM : d->has_tensors ? MARK_TENSOR_PEAK : MARK_DRIVER_PEAK };
	unsigned room = lines + 1 > PAGE_LINES ? 1 : PAGE_LINES - lines;
	struct print_holders_options rows = { .top = room < HOLDERS_SHOWN ? room : HOLDERS_SHOWN, .by_site = true };
	struct holders h = HOLDERS_INIT;
	const char *when = oom ? "when memory ran out" : "at the peak";
	char which[64], head[128];

	holders_find(&h, m, &q);
	if (m->nr_devices > 1)
		snprintf(head, sizeof(head), "allocated at, on GPU %s %s", which_gpu(which, sizeof(which), d), when);
	else
		snprintf(head, sizeof(head), "allocated at; the largest %s", when);
	if (h.nr_holders) {
		if (room > HOLDERS_SHOWN)
			emit_blank(e);
		print_holders_page_begin(e, head);
		print_holders_rows(e, m, &q, &h, &rows);
		print_holders_end(e);
	}
	holders_release(&h);
}

static bool is_pipe(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISFIFO(st.st_mode);
}

static void text_next(struct emit *e, const struct replay *m, const struct devicepage *page, const struct autopsy *a,
		      bool is_short)
{
	const char *path = m->recording.path;
	bool is_oom = a->nr_findings || page->device->books->tensor_ooms;
	bool grows = page->growth.nr_findings || page->on_host.nr_findings;

	if (is_pipe(path)) /* it has been read, and cannot be read again */
		return;
	emit_text(e, "next: vramtrace %s %s", is_oom ? "oom" : grows ? "leaks" : "peak", path);
	if (!is_short)
		emit_text(e, "      vramtrace %s %s", grows && !is_oom ? "peak" : "timeline", path);
}

/* Each device in all its parts. */
static void text_parts(struct emit *e, const struct replay *m)
{
	for (size_t i = 0; i < m->nr_devices; i++) {
		struct outside o;

		outside_find(&o, &m->device[i]);
		print_outside_whole(e, m, &m->device[i], &o);
		outside_release(&o);
	}
}

/* The device to explain, or all in a table, and what is PyTorch's of it. Returns its lines. */
static unsigned text_memory(struct emit *e, const struct replay *m, const struct devicepage *page)
{
	if (m->nr_devices > 1)
		return text_devices(e, m) + print_outside_of(e, page->device, &page->outside);
	return text_device(e, m, page->device, &page->outside);
}

/* How many lines of advice fit beside so many others. */
static unsigned advice_lines(const struct advices *all, unsigned lines)
{
	unsigned room = lines < PAGE_LINES ? PAGE_LINES - lines : 0, nr = all->nr;

	nr = nr < ADVICE_SHOWN ? nr : ADVICE_SHOWN;
	return nr < room ? nr : room;
}

static void text_page(struct emit *e, const struct replay *m, const struct findings *found,
		     const struct devicepage *page, bool verbose)
{
	const struct replay_device *d = page->device;
	const struct autopsy *a = &found->autopsy;
	unsigned nr_advice = 0, action = print_autopsy_action(NULL, a), lines = OTHER_LINES + text_run(e, m, d);
	bool is_short;

	emit_blank(e);
	lines += text_verdict(e, m, page, a);
	lines += print_autopsy_brief(e, a);
	lines += print_peak_phase(e, d, &page->phases);
	emit_blank(e);
	lines += text_memory(e, m, page);
	lines += print_facts(e, m, d, &found->facts);
	lines += print_phases(e, d, &page->phases, verbose);
	/* Holders and advice say more than a second line of what is next. */
	if (autopsy_is_about_size(a) && !page->growth.nr_findings)
		nr_advice = advice_lines(&found->advices, lines - 1 + HOLDERS_SHOWN);
	if (lines - 1 + HOLDERS_SHOWN + action > PAGE_LINES)
		action = 0;
	is_short = !verbose && lines + HOLDERS_SHOWN + nr_advice + action > PAGE_LINES;
	text_holders(e, m, d, lines - is_short + nr_advice + action);
	if (action)
		print_autopsy_action(e, a);
	print_advice_brief(e, &found->advices, "do: ", "do: ", nr_advice);
	if (verbose)
		print_facts_whole(e, &found->facts);
	if (verbose)
		text_parts(e, m);
	text_next(e, m, page, a, is_short);
}

static void report_text(struct emit *e, const struct replay *m, const struct findings *found, bool verbose)
{
	const struct replay_device *d = found->device;
	struct devicepage page;

	if (!d) {
		text_run(e, m, NULL);
		emit_blank(e);
		emit_text(e, "No GPU memory was allocated in this recording.");
		return;
	}
	devicepage_find(&page, m, d);
	devicepage_find_host(&page, m);
	text_page(e, m, found, &page, verbose);
	devicepage_release(&page);
}

/*
 * Facts, what there is to explain, and what would help. Returns 0, or what advices_find() does: the recording could not
 * be read a second time (advice.c says what for).
 */
static int find_all(struct findings *found, const struct replay *m, const struct failures *failures, bool is_text)
{
	struct killings killings = KILLINGS_INIT;
	int err = 0;

	facts_find(&found->facts, m, is_text);
	killings_find(&killings, m);
	killings_autopsy(&found->autopsy, &killings, m, failures);
	killings_release(&killings);
	found->device = found->autopsy.device ? found->autopsy.device : failures_worst_device(failures, m);
	if (found->device && advices_are_needed(found->device, failures))
		err = advices_find(&found->advices, found->device, failures, NULL);
	return err;
}

/* Where a request failed, was there memory of CUDA graphs? */
static bool has_graphs(const struct replay *m)
{
	bool is_there = false;

	for (size_t i = 0; i < m->nr_devices && !is_there; i++) {
		struct life *life;
		size_t nr;

		lives_list(m->device[i].process->lives, m->device[i].ordinal, LIVES_OOM, &life, &nr);
		for (size_t k = 0; k < nr; k++)
			is_there |= life[k].flags & TFMT_FLAG_CAPTURING;
		free(life);
	}
	return is_there;
}

/* How cached memory is cut up takes longer to follow, and is asked only where graphs may keep it for themselves. */
static int load_with_failures(struct replay *m, const char *path, struct failurewatch *watch)
{
	struct replay_options load = { .lives = true, .modules = true, .observe = failures_observe, .ctx = &watch->failures,
				      .observe_no_frees = true };
	int ret = replay_load(m, path, &load);

	if (ret || !has_graphs(m))
		return ret;
	replay_release(m);
	failurewatch_release(watch);
	*m = (struct replay)REPLAY_INIT;
	failurewatch_init(watch);
	load = failurewatch_options(watch);
	return replay_load(m, path, &load);
}

int cmd_report(int argc, const char **argv)
{
	struct report_opts o = { 0 };
	struct replay m = REPLAY_INIT;
	struct findings found = { 0 };
	struct failurewatch watch;
	enum opt_result parsed = opt_parse(&report_help, &argc, argv, &o);
	struct emit *e;
	int ret, damaged = CMD_FINE;

	if (parsed != OPT_OK)
		return opt_status(parsed);
	if (argc != 2)
		return opt_wrong(&report_help, argc < 2 ? "missing RECORDING" : "unexpected argument '%s'",
				 argv[argc - 1]);
	failurewatch_init(&watch);
	ret = rules_load();
	if (!ret)
		ret = load_with_failures(&m, argv[1], &watch);
	if (!ret) {
		damaged = print_caveats(&m);
		e = emit_open(stdout, &o.emit, REPORT_SCHEMA);
		ret = find_all(&found, &m, &watch.failures, emit_is_text(e));
		if (!ret && emit_is_text(e))
			report_text(e, &m, &found, o.verbose);
		else if (!ret)
			report_json(e, &m, &found.facts.repeat, &found.autopsy, &found.advices);
		ret = ret ? emit_fail(e, "cannot read '%s' a second time", argv[1]) : emit_close(e);
	}
	advices_release(&found.advices);
	autopsy_release(&found.autopsy);
	facts_release(&found.facts);
	failurewatch_release(&watch);
	replay_release(&m);
	return ret == CMD_FINE ? damaged : ret;
}
