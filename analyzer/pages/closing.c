/* SPDX-License-Identifier: MIT */
/* The last lines of `run`. */
#include "analyzer/pages/closing.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzer/base/heap.h"
#include "analyzer/base/human.h"
#include "analyzer/base/message.h"
#include "analyzer/findings/sentence.h"
#include "analyzer/holders/holders.h"
#include "analyzer/launch/keeper.h"
#include "analyzer/launch/obstacle.h"
#include "analyzer/launch/witnesses.h"
#include "analyzer/failures/fatal.h"
#include "analyzer/pages/print_holders.h"
#include "analyzer/pages/print_recording.h"
#include "analyzer/purpose/rules.h"
#include "analyzer/recording/generation.h"
#include "analyzer/replay/replay.h"
#include "tracefmt/tracefmt.h"

#define DEVICES_SHOWN 4 /* with three holders and the other lines: at most twelve */
#define HOLDERS_SHOWN 3
#define REASONS_SHOWN 3

/* ---- completing the traces ------------------------------------------------------------------- */

struct sealing {
	const struct launch_end *end;
	bool quiet;
	char own_trace[PATH_MAX]; /* of the launched process itself, "" if it has none */
};

/* A process has as many traces as it has had images, named for their starts: how it ended is the last one's end. */
static void find_own(const char *path, void *context)
{
	struct sealing *s = context;

	if (output_trace_is_of(path, s->end->pid) && strcmp(path, s->own_trace) > 0)
		snprintf(s->own_trace, sizeof(s->own_trace), "%s", path);
}

static void seal(const char *path, void *context)
{
	struct sealing *s = context;
	enum tfmt_end end = TFMT_END_OPEN;
	int err, status = 0;

	if (!output_trace_is_of(path, 0))
		return;
	if (!strcmp(path, s->own_trace)) {
		end = s->end->signal ? TFMT_END_SIGNAL : TFMT_END_EXIT;
		status = s->end->signal ? s->end->signal : s->end->exit_status;
	}
	err = tfmt_seal_kept(path, end, status, keeper_find(path));
	if (err == TFMT_E_IO && errno != EAGAIN && !s->quiet)
		message_warn("cannot complete '%s': %s; its last events stay in the ring file", path,
			     strerror(errno));
}

void closing_note(const struct output *output, const struct launch_end *end, const struct hostmemory *before)
{
	char dir[PATH_MAX];

	if ((end->signal || end->exit_status) && output_find(output, dir))
		hostmemory_note(dir, before);
}

/* ---- the lines ------------------------------------------------------------------------------- */

/* A path as one would type it here: relative if it lies below, quoted if a shell would split it. */
static void path_to_type(const char *path, char *out, size_t size)
{
	static const char plain[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
	char here[PATH_MAX];
	size_t len, n = 0;

	if (getcwd(here, sizeof(here))) {
		len = strlen(here);
		if (!strncmp(path, here, len) && path[len] == '/' && path[len + 1])
			path += len + 1;
	}
	if (!path[strspn(path, plain)] && path[0] != '-') {
		snprintf(out, size, "%s", path);
		return;
	}
	out[n++] = '\'';
	for (; *path && n + 6 < size; path++) {
		if (*path == '\'')
			n += (size_t)snprintf(out + n, size - n, "'\\''");
		else
			out[n++] = *path;
	}
	out[n++] = '\'';
	out[n] = 0;
}

static int by_peak(const void *a, const void *b)
{
	const struct replay_device *da = *(const struct replay_device *const *)a;
	const struct replay_device *db = *(const struct replay_device *const *)b;
	uint64_t pa = da->books->allocated_peak_bytes, pb = db->books->allocated_peak_bytes;

	if (pa != pb)
		return pa < pb ? 1 : -1;
	return da < db ? -1 : da > db;
}

static void device_line(const struct replay *m, const struct replay_device *d)
{
	char allocated[HUMAN_MAX], reserved[HUMAN_MAX], capacity[HUMAN_MAX] = "unknown size", who[96] = "";
	char zeros[ZERO_TEXT_MAX];
	const struct device_books *books = d->books;

	if (d->capacity_bytes)
		human_bytes(capacity, d->capacity_bytes);
	else if (d->is_unlimited)
		snprintf(capacity, sizeof(capacity), "unlimited memory");
	if (d->process->rank >= 0)
		snprintf(who, sizeof(who), "rank %lld, ", (long long)d->process->rank);
	else if (m->nr_processes > 1)
		snprintf(who, sizeof(who), "pid %u, ", d->process->header->pid);
	if (d->has_tensors)
		message_info("%sGPU %u%s: peak %s%s allocated, %s reserved of %s%s", who, d->ordinal,
			     m->simulated ? " (simulated)" : "",
			     print_at_least(d->process),
			     human_bytes(allocated, books->allocated_peak_bytes),
			     human_bytes(reserved, books->reserved_peak_bytes), capacity,
			     print_zeros(zeros, "; ", replay_zero_answers(d->process)));
	else
		message_info("%sGPU %u%s: peak %s%s taken from the driver of %s%s", who, d->ordinal,
			     m->simulated ? " (simulated)" : "",
			     print_at_least(d->process),
			     human_bytes(allocated, books->driver_peak_bytes), capacity,
			     print_zeros(zeros, "; ", replay_zero_answers(d->process)));
}

/* The devices, largest peak first. */
static void device_lines(const struct replay *m)
{
	const struct replay_device **order = heap_alloc(m->nr_devices, sizeof(*order));

	for (size_t i = 0; i < m->nr_devices; i++)
		order[i] = &m->device[i];
	qsort(order, m->nr_devices, sizeof(*order), by_peak);
	for (size_t i = 0; i < m->nr_devices && i < DEVICES_SHOWN; i++)
		device_line(m, order[i]);
	if (m->nr_devices > DEVICES_SHOWN)
		message_info("... and %zu more GPUs with lower peaks", m->nr_devices - DEVICES_SHOWN);
	free(order);
}

static void holder_line(const struct replay *m, struct replay_process *p, const struct holder *h,
			struct stack *stack)
{
	struct stack_source source = replay_stack_source(m, p);
	char bytes[HUMAN_MAX], text[256];
	int site;

	stack_expand(stack, &source, h->largest->python_stack, h->largest->native_stack);
	human_bytes(bytes, h->figures.bytes);
	site = stack_site(stack);
	if (site >= 0 && !stack_node(stack))
		message_info("  %9s  allocated at %s", bytes,
			     stack_frame_text(text, sizeof(text), &stack->frame[site]));
	else
		message_info("  %9s  %s", bytes, print_origin(text, sizeof(text), m, p, h));
}

/* What filled the device when the framework's allocator gave up. */
static void out_of_memory_lines(const struct replay *m, const struct replay_device *d)
{
	struct holders_query query = {
		.process = d->process,
		.device = d->ordinal,
		.of = HOLDERS_TENSORS,
		.by = HOLDERS_BY_SITE,
		.mark = MARK_OOM,
	};
	struct holders holders = HOLDERS_INIT;
	struct stack stack = { 0 };
	char sentence[SENTENCE_MAX];
	struct said said;

	holders_find(&holders, m, &query);
	said = SAID(ran_out_of_memory, fact_count("device", d->ordinal), fact_bytes("asked", d->books->oom_asked_bytes),
		    fact_flag("has_holders", holders.nr_holders));
	message_info("%s", sentence_text(sentence, &said));
	for (uint32_t i = 0; i < holders.nr_holders && i < HOLDERS_SHOWN; i++)
		holder_line(m, d->process, &holders.holder[i], &stack);
	stack_release(&stack);
	holders_release(&holders);
}

static void lines_of_model(const struct replay *m, const struct launch_end *end)
{
	bool has_failed = end->signal || end->exit_status;
	const struct replay_device *fatal = has_failed ? fatal_last_device(m) : NULL;
	char count[HUMAN_MAX];

	device_lines(m);
	print_kept(m);
	if (m->lost_events)
		message_info("%s events were lost: peaks are at least what is said here",
			     human_count(count, m->lost_events));
	for (size_t i = 0; i < m->nr_processes; i++) {
		if (m->process[i].summary->stop == TFMT_STOP_DISK_FULL) {
			message_info("the disk was full: the recording stops early");
			break;
		}
	}
	if (fatal)
		out_of_memory_lines(m, fatal);
}

/* ---- a repeated job --------------------------------------------------------------------------- */

static const char *end_text(char *buf, size_t size, const struct launch_end *end)
{
	if (end->signal)
		snprintf(buf, size, "signal %d (%s)", end->signal, strsignal(end->signal));
	else if (end->exit_status)
		snprintf(buf, size, "exit status %d", end->exit_status);
	else
		snprintf(buf, size, "ended normally");
	return buf;
}

/* Those who could not record, in no more lines than fit. Said even to those who want it quiet: they expect a recording. */
static bool reasons(void)
{
	char text[UNRECORDED_TEXT_MAX];
	struct unrecorded u;
	size_t nr = 0;

	for (size_t at = 0; witnesses_next(&u, &at); nr++)
		if (nr < REASONS_SHOWN)
			message_warn("%s", unrecorded_text(text, &u));
	if (nr > REASONS_SHOWN)
		message_warn("... and %zu more processes did not record", nr - REASONS_SHOWN);
	return nr > 0;
}

struct search {
	uint32_t pid;
	bool is_found;
};

static void find_process(const char *path, void *context)
{
	struct search *s = context;

	s->is_found |= output_trace_is_of(path, (pid_t)s->pid);
}

/* Those who recorded, and nothing of that is in the folder any more. */
static void missing_traces(const char *dir)
{
	struct search s = { 0 };
	size_t nr = 0;

	for (size_t at = 0; (s.pid = witnesses_next_recorder(&at)) != 0; nr += !s.is_found) {
		s.is_found = false;
		output_each_trace(dir, find_process, &s);
	}
	if (nr)
		message_warn("no trace is left in '%s' of %zu process%s that used GPU memory: removed, or ended before it "
			     "was made",
			     dir, nr, nr == 1 ? "" : "es");
}

/* Silence is a claim: it is made only where no hook saw anything; false then. */
static bool nothing_recorded(const struct output *output, bool quiet)
{
	int err = obstacle_left(output);
	size_t nr = witnesses_nr();
	bool is_said = reasons();

	if (err)
		message_warn("nothing recorded: cannot write '%s': %s", output->path, strerror(err));
	else if (is_said)
		message_warn("nothing recorded");
	else if (nr)
		message_warn("nothing recorded: %zu process%s used GPU memory, and no trace of that is left in '%s'; was it "
			     "removed?",
			     nr, nr == 1 ? "" : "es", output->path);
	else if (!quiet)
		message_info("nothing recorded: no use of GPU memory was seen");
	return err || is_said || nr;
}

static void count_trace(const char *path, void *context)
{
	(void)path;
	++*(size_t *)context;
}

/* The folder of this job, if a trace is in it. */
static bool find_traces(const struct output *output, char dir[static PATH_MAX])
{
	size_t nr = 0;

	if (output_find(output, dir))
		output_each_trace(dir, count_trace, &nr);
	return nr > 0;
}

void closing_run(const struct output *output, const struct launch_end *end, struct repeat *r, unsigned number,
		 bool quiet)
{
	static const struct replay_options silent = { .quiet = true };
	struct sealing sealing = { .end = end, .quiet = quiet };
	struct replay m = REPLAY_INIT;
	char dir[PATH_MAX], how[96];
	bool found = find_traces(output, dir);

	if (found) {
		output_each_trace(dir, find_own, &sealing);
		output_each_trace(dir, seal, &sealing);
		if (!rules_load() && !replay_load(&m, dir, &silent))
			repeat_add(r, &m, number);
		generation_set_largest_run(dir, r->largest);
	}
	reasons();
	if (found)
		missing_traces(dir);
	witnesses_empty();
	if (!quiet)
		message_info("run %u: %s%s", number, end_text(how, sizeof(how), end),
			     found ? "" : "; nothing recorded");
	replay_release(&m);
}

void closing_repeat(const struct output *output, const struct repeat *r)
{
	char typed[2 * PATH_MAX], name[64], peaks[REPEAT_TEXT_MAX], zeros[ZERO_TEXT_MAX], dir[PATH_MAX];

	path_to_type(output->path, typed, sizeof(typed));
	if (!r->nr_runs) {
		if (output_find(output, dir)) /* but no run could be read; what is wrong has been said */
			message_info("recorded %s", typed);
		else
			nothing_recorded(output, false);
		return;
	}
	message_info("recorded %s (%u runs; 'vramtrace report' shows the largest, run %u)", typed, r->nr_runs,
		     r->largest);
	for (size_t i = 0; i < r->nr_devices && i < DEVICES_SHOWN; i++)
		message_info("%s: peak %s%s%s%s", repeat_device_name(name, sizeof(name), r, &r->device[i]),
			     r->exact && !r->device[i].zero_answers ? "" : "at least ",
			     repeat_text(peaks, r, &r->device[i]),
			     repeat_is_stable(r, &r->device[i]) ? "" : ": depends on thread timing",
			     print_zeros(zeros, "; ", r->device[i].zero_answers));
	if (r->nr_devices > DEVICES_SHOWN)
		message_info("... and %zu more GPUs", r->nr_devices - DEVICES_SHOWN);
	message_info("next: vramtrace report %s", typed);
}

bool closing_find(const struct output *output, const struct launch_end *end, char path[static PATH_MAX])
{
	struct sealing sealing = { .end = end };

	if (!find_traces(output, path))
		return false;
	output_each_trace(path, find_own, &sealing);
	if (sealing.own_trace[0] && job_is_shared())
		memcpy(path, sealing.own_trace, sizeof(sealing.own_trace));
	return true;
}

/* ---- a single run ------------------------------------------------------------------------------ */

bool closing_lines(const struct output *output, const struct launch_end *end, bool quiet)
{
	struct sealing sealing = { .end = end, .quiet = quiet };
	char dir[PATH_MAX], typed[2 * PATH_MAX], size[HUMAN_MAX], events[HUMAN_MAX];
	struct replay m = REPLAY_INIT;
	const char *subject = dir;
	struct stat st;
	uint64_t bytes;

	if (!find_traces(output, dir))
		return nothing_recorded(output, quiet);
	reasons();
	missing_traces(dir);
	output_each_trace(dir, find_own, &sealing);
	output_each_trace(dir, seal, &sealing);
	if (quiet)
		return true;
	/* Other ranks' launchers speak for themselves. */
	bytes = output_bytes(dir);
	if (sealing.own_trace[0] && job_is_shared() && !stat(sealing.own_trace, &st)) {
		subject = sealing.own_trace;
		bytes = (uint64_t)st.st_size;
	}
	path_to_type(dir, typed, sizeof(typed));
	human_bytes(size, bytes);
	if (rules_load() || replay_load(&m, subject, NULL)) { /* it has said why; the recording is there */
		message_info("recorded %s (%s)", typed, size);
	} else {
		message_info("recorded %s (%s, %s events)", typed, size, human_count(events, m.nr_events));
		lines_of_model(&m, end);
		message_info("next: vramtrace report %s", typed);
	}
	replay_release(&m);
	return true;
}
