/* SPDX-License-Identifier: MIT */
/* Loading a recording: open its traces, align their clocks, enter their events. */
#include "analyzer/replay/eventloop.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/base/message.h"
#include "analyzer/base/progress.h"
#include "analyzer/command.h"
#include "analyzer/recording/kept.h"
#include "analyzer/recording/traceview.h"

const char *const replay_end_names[] = { "exit", "running", "unknown", "signal", "killed" };

#define EVENTS_PER_PROGRESS 65536

struct stack_source replay_stack_source(const struct replay *m, struct replay_process *p)
{
	return (struct stack_source){ p->reader, &p->mapping, m->symbols };
}

uint64_t replay_filled_bytes(const struct replay_device *d)
{
	return d->has_tensors ? d->books->reserved_peak_bytes : d->books->driver_peak_bytes;
}

bool replay_is_exact(const struct replay_process *p)
{
	return p->summary->complete && !p->lost_events && !books_is_past_untold(p->books);
}

bool replay_end_is_exact(const struct replay_device *d, enum replay_total total)
{
	const struct tfmt_summary *s = d->process->summary;
	const struct device_books *b = d->books;
	bool unsure = total == REPLAY_ALLOCATED ? b->allocated_unsure :
		      total == REPLAY_RESERVED  ? b->reserved_unsure :
						 b->driver_unsure || b->context_missed;

	return replay_is_exact(d->process) || (!unsure && s->lost_events == s->lost_in_damage && !s->stop);
}

/* Open one trace into *p. Returns 0 or an error that has been said. */
static int process_open(struct replay_process *p, const char *path)
{
	uint64_t offset = 0;
	int err = tfmt_reader_open(&p->reader, path, &offset);
	char why[1024];

	p->path = path;
	if (err) {
		traceview_say_unreadable(why, sizeof(why), path, err, offset);
		message_error("%s", why);
	} else {
		p->header = tfmt_reader_header(p->reader);
		p->summary = tfmt_reader_summary(p->reader);
	}
	return err;
}

static int64_t info_number(const struct replay_process *p, const char *key)
{
	const char *text = tfmt_reader_info_value(p->reader, key);
	char *end;
	int64_t number;

	if (!text || !*text)
		return -1;
	number = strtoll(text, &end, 10);
	return *end || number < 0 ? -1 : number;
}

static const char *info_text(const struct replay_process *p, const char *key)
{
	const char *text = tfmt_reader_info_value(p->reader, key);

	return text && *text ? text : NULL;
}

static bool same_clock(const struct tfmt_header *a, const struct tfmt_header *b)
{
	static const uint8_t unknown[16];

	return memcmp(a->boot_id, unknown, sizeof(unknown)) &&
	       !memcmp(a->boot_id, b->boot_id, sizeof(unknown)) && a->time_ns_inode == b->time_ns_inode;
}

/* Place every process on one clock that starts with the earliest. */
static void align_clocks(struct replay *m)
{
	const struct tfmt_header *first = m->process[0].header;
	int64_t earliest = 0;

	for (size_t i = 0; i < m->nr_processes; i++) {
		struct replay_process *p = &m->process[i];
		int64_t start;

		p->clock_estimated = !same_clock(first, p->header) && i > 0;
		start = p->clock_estimated ? (int64_t)(p->header->start_real_ns - first->start_real_ns)
					   : (int64_t)(p->header->start_mono_ns - first->start_mono_ns);
		p->start_ns = (uint64_t)start;
		if (start < earliest)
			earliest = start;
	}
	for (size_t i = 0; i < m->nr_processes; i++)
		m->process[i].start_ns -= (uint64_t)earliest;
}

bool replay_unsupported(const struct replay_process *p, size_t nth, const char **name, uint64_t *calls)
{
	static const char prefix[] = "unsupported.";
	const char *key, *value;

	for (uint32_t i = 0; tfmt_reader_info(p->reader, i, &key, &value); i++) {
		if (strncmp(key, prefix, sizeof(prefix) - 1))
			continue;
		if (nth-- == 0) {
			*name = key + sizeof(prefix) - 1;
			*calls = strtoull(value, NULL, 10);
			return true;
		}
	}
	return false;
}

uint64_t replay_zero_answers(const struct replay_process *p)
{
	const char *value = tfmt_reader_info_value(p->reader, "zero_answers");

	return value ? strtoull(value, NULL, 10) : 0;
}

static void show_progress(const struct replay *m, size_t index)
{
	uint64_t done, total;

	tfmt_reader_progress(m->process[index].reader, &done, &total);
	/* Traces of one job are about equally long; per mille of all of them. */
	progress_update(1000 * index + (total ? done * 1000 / total : 0), 1000 * m->nr_processes);
}

static enum replay_end end_of(const struct tfmt_summary *s)
{
	switch (s->end) {
	case TFMT_PROCESS_EXIT:
	case TFMT_PROCESS_EXEC:
		return REPLAY_END_EXIT;
	case TFMT_PROCESS_SIGNAL:
		/* kill -9 has one name, whether `run` lived to see it or the trace just stops. */
		return s->exit_status == SIGKILL ? REPLAY_END_KILLED : REPLAY_END_SIGNAL;
	case TFMT_PROCESS_RUNNING:
		return REPLAY_END_RUNNING;
	case TFMT_PROCESS_KILLED:
		return REPLAY_END_KILLED;
	default:
		return REPLAY_END_UNKNOWN;
	}
}

/* What the trace says of the process itself, as far as it has been read. */
static void process_ask(struct replay_process *p)
{
	const char *program = info_text(p, "script");
	uint64_t kept_ns;

	if (kept_from(p->reader, &kept_ns)) {
		p->is_kept = true;
		p->kept_ns = replay_time(p, kept_ns);
		p->last_ns = p->last_ns > p->kept_ns ? p->last_ns : p->kept_ns;
	}
	p->end = p->has_failed ? REPLAY_END_UNKNOWN : end_of(p->summary);
	p->rank = info_number(p, "rank");
	p->local_rank = info_number(p, "local_rank");
	p->world_size = info_number(p, "world_size");
	p->ranks_run = info_text(p, "ranks_run");
	program = program ? program : info_text(p, "program");
	p->program = program ? program : "";
	p->torch = info_text(p, "torch");
	p->allocator_conf = info_text(p, "allocator_conf");
	p->simulated = info_text(p, "simulated");
	p->imported = info_text(p, "imported");
	p->lost_events = p->summary->lost_events;
}

/* Something was skipped; the summary counts it. */
static void process_damaged(struct replay_process *p, int err)
{
	if (!*p->damage && err != TFMT_E_GIVEN_UP)
		snprintf(p->damage, sizeof(p->damage), "%s (at byte %" PRIu64 ")", tfmt_reader_message(p->reader),
			 tfmt_reader_offset(p->reader));
	eventloop_miss(p);
}

/*
 * Events as many as are at hand; after damage one at a time: the books then ask what the reader knows to be live at
 * each. Returns as tfmt_reader_events() does.
 */
static int next_events(struct replay_process *p, const struct tfmt_event **ev, struct tfmt_event *single)
{
	if (!books_is_damaged(p->books))
		return tfmt_reader_events(p->reader, ev);
	*ev = single;
	return tfmt_reader_next(p->reader, single);
}

/* What options ask of a process, before its first event. */
static void process_begin(struct replay *m, struct replay_process *p)
{
	const struct replay_options *o = &m->options;

	eventloop_begin(p, o);
	if (o->window && p->lives && p == m->process)
		p->lives->window = o->window;
	if (o->follower && p->lives)
		p->lives->follower = o->follower;
	if (o->has_at)
		books_ask_time(p->books, o->at_ns < p->start_ns ? p->header->start_mono_ns
							  : o->at_ns - p->start_ns + p->header->start_mono_ns);
	p->last_event_ns = p->header->start_mono_ns;
	tfmt_reader_follow(p->reader, o->follow);
	tfmt_reader_plain_stacks(p->reader);
}

/* All events that are there; with the last one of the process, its accounts are closed. */
static void process_advance(struct replay *m, struct replay_process *p)
{
	const struct replay_options *o = &m->options;
	uint64_t nr = 0, shown = 0;
	const struct tfmt_event *ev;
	struct tfmt_event single;
	int got;

	while ((got = next_events(p, &ev, &single)) != 0) {
		if (got == TFMT_E_NOMEM)
			heap_need(NULL);
		if (got < 0) {
			process_damaged(p, got);
			continue;
		}
		eventloop_enter(p, ev, got, o);
		if (ev[got - 1].before) /* all of them, then */
			continue;
		p->last_event_ns = ev[got - 1].time_ns;
		nr += (uint64_t)got;
		if (nr - shown >= EVENTS_PER_PROGRESS && !o->quiet) {
			show_progress(m, (size_t)(p - m->process));
			shown = nr;
		}
	}
	if (nr)
		p->last_ns = replay_time(p, p->last_event_ns);
	p->is_over = !tfmt_reader_is_waiting(p->reader);
	if (p->is_over)
		eventloop_finish(p, p->last_event_ns);
}

static void add_devices(struct replay *m, struct replay_process *p)
{
	for (uint32_t i = 0; i < TFMT_NR_DEVICES; i++) {
		const struct device_books *books = books_device(p->books, i);
		struct replay_device *device;

		if (!books->present)
			continue;
		m->device = heap_grow(m->device, &m->devices_room, m->nr_devices + 1, sizeof(*device));
		device = &m->device[m->nr_devices++];
		*device = (struct replay_device){ .process = p, .ordinal = i, .books = books };
		tfmt_reader_device(p->reader, i, &device->info);
		device->is_unlimited = device->info.capacity_bytes == TFMT_CAPACITY_UNLIMITED;
		if (!device->is_unlimited)
			device->capacity_bytes = device->info.capacity_bytes ? device->info.capacity_bytes
									     : books_residual(p->books, i)->last.total;
		if (p->has_failed && m->options.failure->capacity_bytes)
			device->capacity_bytes = m->options.failure->capacity_bytes;
		device->has_tensors = books->tensor_allocs || books->tensor_ooms;
	}
}

/* Figures of all processes and devices, as they stand. */
static void ask(struct replay *m)
{
	m->complete = !m->nr_unreadable && !m->recording.nr_unrecorded;
	m->nr_devices = 0;
	m->nr_events = m->lost_events = 0;
	m->end = REPLAY_END_EXIT;
	for (size_t i = 0; i < m->nr_processes; i++) {
		struct replay_process *p = &m->process[i];

		process_ask(p);
		add_devices(m, p);
		if (p->end > m->end)
			m->end = p->end;
		m->simulated |= p->header->simulated || p->simulated;
		m->complete &= replay_is_exact(p);
		m->nr_events += p->summary->nr_events;
		m->lost_events += p->lost_events;
		if (p->last_ns > m->duration_ns)
			m->duration_ns = p->last_ns;
	}
}

/* Open what can be opened; the error of the last failure if that is nothing. */
static int open_all(struct replay *m)
{
	int err = 0;

	m->process = heap_alloc(m->recording.nr_traces, sizeof(*m->process));
	m->symbols = symbols_new();
	for (size_t i = 0; i < m->recording.nr_traces; i++) {
		struct replay_process *p = &m->process[m->nr_processes];

		err = process_open(p, m->recording.trace[i]);
		if (err) {
			*p = (struct replay_process){ 0 };
			m->nr_unreadable++;
			continue;
		}
		mapping_init(&p->mapping, p->reader);
		p->books = books_open(p->reader, &p->mapping, m->symbols);
		hostmemory_noted(&p->host, m->recording.trace[i], p->header->host);
		m->nr_processes++;
	}
	return m->nr_processes ? 0 : CMD_TROUBLE;
}

int replay_open(struct replay *m, const char *path, const struct replay_options *options)
{
	char why[4096];

	if (options)
		m->options = *options;
	if (recording_open(&m->recording, path, why, sizeof(why)))
		return message_error("%s", why);
	if (open_all(m))
		return CMD_TROUBLE;
	align_clocks(m);
	for (size_t i = 0; i < m->nr_processes; i++)
		process_begin(m, &m->process[i]);
	return CMD_FINE;
}

void replay_advance(struct replay *m)
{
	char text[4096];

	if (!m->options.quiet) {
		snprintf(text, sizeof(text), "reading %s", m->recording.path);
		progress_begin(text);
	}
	for (size_t i = 0; i < m->nr_processes; i++)
		if (!m->process[i].is_over)
			process_advance(m, &m->process[i]);
	progress_end();
	ask(m);
}

bool replay_is_over(const struct replay *m)
{
	for (size_t i = 0; i < m->nr_processes; i++)
		if (!m->process[i].is_over)
			return false;
	return true;
}

bool replay_is_outgrown(const struct replay *m)
{
	struct recording now = { 0 };
	char why[4096];
	bool is_other = recording_open(&now, m->recording.path, why, sizeof(why)) ||
			now.nr_traces != m->recording.nr_traces;

	for (size_t i = 0; i < m->recording.nr_traces && !is_other; i++)
		is_other = strcmp(now.trace[i], m->recording.trace[i]) != 0;
	recording_release(&now);
	return is_other || m->nr_unreadable;
}

int replay_load(struct replay *m, const char *path, const struct replay_options *options)
{
	int ret = replay_open(m, path, options);

	if (!ret)
		replay_advance(m);
	return ret;
}

void replay_release(struct replay *m)
{
	for (size_t i = 0; i < m->nr_processes; i++) {
		eventloop_release(&m->process[i]);
		books_release(m->process[i].books);
		mapping_release(&m->process[i].mapping);
		tfmt_reader_close(m->process[i].reader);
	}
	symbols_free(m->symbols);
	free(m->process);
	free(m->device);
	recording_release(&m->recording);
	*m = (struct replay){ 0 };
}
