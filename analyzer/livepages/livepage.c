/* SPDX-License-Identifier: MIT */
/* Rows of what runs, in words. */
#include "analyzer/livepages/livepage.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/base/human.h"
#include "analyzer/livepages/liveholders.h"
#include "analyzer/livepages/sparkline.h"
#include "analyzer/recording/basename.h"

#define TEXT_MAX 1024
#define SPARK_MARGIN 4

static void add_line(struct livepage *p, const struct livepage_view *v, enum term_style style, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
static void add_line(struct livepage *p, const struct livepage_view *v, enum term_style style, const char *format, ...)
{
	char text[TEXT_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	term_make_printable(text, false);
	livepage_cut(text, v->columns);
	p->line = heap_grow(p->line, &p->room, p->nr_lines + 1, sizeof(*p->line));
	p->line[p->nr_lines++] = (struct livepage_line){ heap_copy(text), style };
}

void livepage_release(struct livepage *p)
{
	for (size_t i = 0; i < p->nr_lines; i++)
		free(p->line[i].text);
	free(p->line);
	*p = (struct livepage){ 0 };
}

const char *livepage_end(char *buf, size_t size, const struct replay_process *p)
{
	int status = p->summary->exit_status;

	switch (p->is_over ? p->end : REPLAY_END_RUNNING) {
	case REPLAY_END_RUNNING:
		snprintf(buf, size, "running");
		break;
	case REPLAY_END_EXIT:
		if (p->summary->end == TFMT_PROCESS_EXEC)
			snprintf(buf, size, "went on as another program");
		else
			snprintf(buf, size, "ended with status %d", status);
		break;
	case REPLAY_END_SIGNAL:
		snprintf(buf, size, "ended by signal %d (%s)", status, strsignal(status));
		break;
	case REPLAY_END_KILLED:
		snprintf(buf, size, "killed (SIGKILL)");
		break;
	default:
		snprintf(buf, size, "ended, not known how");
	}
	return buf;
}

/* ---- one row --------------------------------------------------------------------------------- */

static const char head[] = "    PID GPU  allocated   reserved       used   capacity  share phase     steps/s";

static void add_figures(struct livepage *p, const struct livepage_view *v, const struct liverow *r, bool is_selected)
{
	char allocated[HUMAN_MAX], reserved[HUMAN_MAX], used[HUMAN_MAX], capacity[HUMAN_MAX] = "-", share[HUMAN_MAX];
	char pace[HUMAN_MAX] = "-";
	const struct replay_device *d = r->device;

	if (!isnan(r->pace.per_second))
		snprintf(pace, sizeof(pace), r->pace.per_second < 10 ? "%.2f" : "%.0f", r->pace.per_second);
	if (d->capacity_bytes)
		human_bytes(capacity, d->capacity_bytes);
	human_percent(share, (double)r->used_bytes, (double)d->capacity_bytes);
	add_line(p, v, is_selected ? TERM_BOLD : TERM_PLAIN, "%7" PRIu32 " %3" PRIu32 " %10s %10s %10s %10s %6s %-9s %7s",
		 r->process->header->pid, d->ordinal, human_bytes(allocated, r->allocated_bytes),
		 human_bytes(reserved, r->reserved_bytes), human_bytes(used, r->used_bytes), capacity, share,
		 r->process->is_over ? "-" : phase_names[r->process->phase], pace);
}

static void add_process(struct livepage *p, const struct livepage_view *v, const struct liverow *r)
{
	const struct replay_process *process = r->process;
	char end[128], steps[64] = "", rank[64] = "", age[HUMAN_MAX];

	if (r->pace.nr_steps)
		snprintf(steps, sizeof(steps), ", step %" PRIu32, r->pace.nr_steps);
	if (process->rank >= 0)
		snprintf(rank, sizeof(rank), ", rank %" PRId64, process->rank);
	add_line(p, v, process->is_over && process->end > REPLAY_END_RUNNING ? TERM_RED : TERM_PLAIN, "        %s%s on %s: %s, %s%s",
		 *process->program ? basename_of(process->program) : "program", rank, process->header->host,
		 livepage_end(end, sizeof(end), process), human_ns(age, r->trace->now_ns), steps);
}

static void add_peaks(struct livepage *p, const struct livepage_view *v, const struct liverow *r)
{
	const struct device_books *b = r->device->books;
	const char *at_least = replay_is_exact(r->process) || !r->process->is_over ? "" : "at least ";
	char allocated[HUMAN_MAX], reserved[HUMAN_MAX], driver[HUMAN_MAX];

	human_bytes(driver, b->driver_peak_bytes);
	if (r->device->has_tensors)
		add_line(p, v, TERM_PLAIN, "        peak %s%s allocated, %s reserved, %s from the driver", at_least,
			 human_bytes(allocated, b->allocated_peak_bytes), human_bytes(reserved, b->reserved_peak_bytes),
			 driver);
	else
		add_line(p, v, TERM_PLAIN, "        peak %s%s from the driver", at_least, driver);
}

/* "; out of memory about step 330 (310 to 350), in 12 min 05 s" */
static const char *oom_text(char *buf, size_t size, const struct liverow *r)
{
	char time[HUMAN_MAX], step[HUMAN_MAX], low[HUMAN_MAX], high[HUMAN_MAX], range[80] = "", when[64] = "";

	if (isfinite(r->growth.oom_step_high) && r->growth.oom_step_high >= r->growth.oom_step_low + 1)
		snprintf(range, sizeof(range), " (%s to %s)", human_count(low, (uint64_t)r->growth.oom_step_low),
			 human_count(high, (uint64_t)ceil(r->growth.oom_step_high)));
	if (!isnan(r->oom_ns))
		snprintf(when, sizeof(when), ", in %s", human_ns(time, (uint64_t)r->oom_ns));
	snprintf(buf, size, "; out of memory about step %s%s%s", human_count(step, (uint64_t)ceil(r->growth.oom_step)), range,
		 when);
	return buf;
}

static void add_growth(struct livepage *p, const struct livepage_view *v, const struct liverow *r)
{
	char bytes[HUMAN_MAX], oom[160] = "";

	if (isnan(r->growth.bytes_per_step) || fabs(r->growth.bytes_per_step) < 1)
		return;
	if (!isnan(r->growth.oom_step) && !r->process->is_over)
		oom_text(oom, sizeof(oom), r);
	add_line(p, v, TERM_YELLOW, "        %s a step%s", human_bytes_delta(bytes, (int64_t)r->growth.bytes_per_step), oom);
}

static void add_sparkline(struct livepage *p, const struct livepage_view *v, const struct liverow *r)
{
	char text[TEXT_MAX];

	if (sparkline(text, sizeof(text), r, (uint32_t)(v->columns - 8 - SPARK_MARGIN), v->utf8))
		add_line(p, v, TERM_GREEN, "        %s", text);
}

static void add_holders(struct livepage *p, const struct livepage_view *v, const struct liverow *r)
{
	struct liveholders h;
	char bytes[HUMAN_MAX], text[TEXT_MAX];

	liveholders_find(&h, r);
	for (uint32_t i = 0; i < h.holders.nr_holders && i < v->nr_holders; i++) {
		const struct holder *holder = &h.holders.holder[i];

		add_line(p, v, TERM_DIM, "        %10s %6" PRIu64 " block%s %s", human_bytes(bytes, holder->figures.bytes),
			 holder->figures.blocks, holder->figures.blocks == 1 ? " " : "s",
			 liveholders_text(text, sizeof(text), r, holder));
	}
	liveholders_release(&h);
}

static void add_row(struct livepage *p, const struct live *l, const struct livepage_view *v, size_t index)
{
	const struct liverow *r = &l->row[index];
	bool is_selected = v->selected == index;

	if (is_selected)
		p->first_selected = p->nr_lines;
	if (!r->device) {
		add_line(p, v, is_selected ? TERM_BOLD : TERM_PLAIN, "%7" PRIu32 "   - has used no GPU memory yet",
			 r->process->header->pid);
		add_process(p, v, r);
	} else {
		add_figures(p, v, r, is_selected);
		add_process(p, v, r);
		add_peaks(p, v, r);
		add_sparkline(p, v, r);
		add_growth(p, v, r);
		if (is_selected || v->selected == LIVEPAGE_ALL)
			add_holders(p, v, r);
	}
	if (is_selected)
		p->end_selected = p->nr_lines;
}

void livepage_make(struct livepage *p, const struct live *l, const struct livepage_view *v)
{
	livepage_release(p);
	add_line(p, v, TERM_BOLD, "%s", head);
	for (size_t i = 0; i < l->nr_rows; i++)
		add_row(p, l, v, i);
}
