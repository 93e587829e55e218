/* SPDX-License-Identifier: MIT */
/*
 * perfetto: a group of tracks for each process: counters for each GPU, steps, phases, NVTX ranges by thread,
 * failed allocations, and heap profiles for each GPU.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "analyzer/base/human.h"
#include "analyzer/command.h"
#include "analyzer/export/formats.h"
#include "analyzer/base/keyset.h"
#include "analyzer/export/perfettoheap.h"
#include "analyzer/export/weights.h"

enum counter { COUNT_ALLOCATED, COUNT_RESERVED, COUNT_DRIVER, COUNT_USED, NR_COUNTERS };
static const char *const counter_names[NR_COUNTERS] = { "allocated", "reserved", "taken from the driver",
							"in use" };

/* A track for each thread and domain that ranges were pushed on, and for each range that may end on another
 * thread. */
struct rangetrack {
	uint64_t track;
	uint32_t depth; /* ranges that have begun and not ended */
};

/* When a cycle, or a step that the program names, may have begun: which of them are steps shows at the end.
 */
struct boundary {
	uint64_t ordinal, time_ns;
};

/* What is written of one process. */
struct process_tracks {
	const struct replay_process *process;
	int32_t pid;    /* in the trace: different for processes of different machines */
	uint64_t track; /* 0 = nothing was written of it */
	uint64_t counter[TFMT_NR_DEVICES][NR_COUNTERS], value[TFMT_NR_DEVICES][NR_COUNTERS];
	uint64_t phases;
	enum phase phase;
	uint64_t moments;         /* failed allocations */
	struct keyset threads; /* thread, domain, and 0; a range's number, and 1 */
	struct rangetrack *range; /* by number there, from 0 */
	size_t range_room;
	struct boundary maybe, *boundary;
	size_t nr_boundaries, boundary_room;
	uint64_t last_ns;
};

struct perfetto {
	struct perfettofile file;
	struct process_tracks *process; /* by index in the recording */
};

void perfetto_open(struct export *x)
{
	struct perfetto *p = heap_alloc(1, sizeof(*p));

	weights_begin(x);
	p->file.out = x->out;
	p->process = heap_alloc(x->replay->nr_processes, sizeof(*p->process));
	x->state = p;
}

/* A pid that no other process of the trace has: those of other machines may be the same. */
static int32_t pid_of(const struct export *x, const struct perfetto *p, size_t index)
{
	int32_t pid = (int32_t)x->replay->process[index].header->pid;

	for (size_t i = 0; i < index; i++)
		if (p->process[i].track && p->process[i].pid == pid)
			return (int32_t)(1u << 23 | (uint32_t)index); /* above what Linux gives */
	return pid;
}

/* The tracks of a process, whose packets come next. */
static struct process_tracks *tracks_of(struct export *x, const struct replay_process *process)
{
	struct perfetto *p = x->state;
	size_t index = (size_t)(process - x->replay->process);
	struct process_tracks *t = &p->process[index];
	char name[512], rank[32] = "";

	p->file.sequence = (uint32_t)index + 1;
	if (t->track)
		return t;
	if (export_rank(x, process) >= 0)
		snprintf(rank, sizeof(rank), " rank %" PRId64, export_rank(x, process));
	snprintf(name, sizeof(name), "%s%s", export_program(process), rank);
	t->process = process;
	t->pid = pid_of(x, p, index);
	t->track = perfetto_process(&p->file, t->pid, name);
	return t;
}

/* ---- counters ---------------------------------------------------------------------------------- */

static void count(struct perfettofile *f, struct process_tracks *t, uint8_t device, enum counter which,
		  uint64_t time_ns, uint64_t value)
{
	uint64_t *track = &t->counter[device][which];
	char name[64];

	if (value == t->value[device][which])
		return;
	if (!*track) {
		snprintf(name, sizeof(name), "GPU %u %s", device, counter_names[which]);
		*track = perfetto_bytes_counter(f, t->track, name);
	}
	t->value[device][which] = value;
	perfetto_count(f, *track, time_ns, value);
}

static void count_device(struct perfettofile *f, struct process_tracks *t, const struct tfmt_event *ev,
			 uint64_t time_ns)
{
	const struct device_books *b = books_device(t->process->books, ev->device);

	count(f, t, ev->device, COUNT_ALLOCATED, time_ns, b->allocated_bytes);
	count(f, t, ev->device, COUNT_RESERVED, time_ns, b->reserved_bytes);
	count(f, t, ev->device, COUNT_DRIVER, time_ns, b->driver_bytes);
	if (ev->kind == TFMT_MEMORY_INFO)
		count(f, t, ev->device, COUNT_USED, time_ns,
		      books_residual(t->process->books, ev->device)->last.used);
}

/* ---- phases and steps -------------------------------------------------------------------------- */

/* The phase of what is allocated: what is freed meanwhile, by whichever thread, says nothing of it. */
static bool tells_phase(const struct tfmt_event *ev)
{
	return ev->kind == TFMT_TENSOR_ALLOC || ev->kind == TFMT_PHASE_BEGIN || ev->kind == TFMT_PHASE_END;
}

static void follow_phase(struct perfettofile *f, struct process_tracks *t, enum phase phase, uint64_t time_ns)
{
	if (phase == t->phase)
		return;
	if (!t->phases)
		t->phases = perfetto_track(f, t->track, "phases");
	if (t->phase != PHASE_OTHER)
		perfetto_end(f, t->phases, time_ns);
	if (phase != PHASE_OTHER)
		perfetto_begin(f, t->phases, time_ns, phase_names[phase]);
	t->phase = phase;
}

static void note_boundary(struct process_tracks *t, const struct boundary *b)
{
	t->boundary = heap_grow(t->boundary, &t->boundary_room, t->nr_boundaries + 1, sizeof(*t->boundary));
	t->boundary[t->nr_boundaries++] = *b;
}

/* Bounds of steps are ordinals, known later than they come: the times of all that may become one. */
static void follow_steps(struct process_tracks *t, const struct tfmt_event *ev, uint64_t time_ns)
{
	const struct lives *l = t->process->lives;
	struct boundary now = { ev->ordinal, time_ns };

	if (!l->signs)
		return;
	if (l->signs & STEPS_CYCLE && t->maybe.ordinal != TFMT_NO_ORDINAL)
		note_boundary(t, &t->maybe);
	if (l->signs & STEPS_MAYBE)
		t->maybe = now;
	if (l->signs & (STEPS_CYCLE | STEPS_NAMED))
		note_boundary(t, &now);
}

static int compare_boundaries(const void *a, const void *b)
{
	uint64_t x = ((const struct boundary *)a)->ordinal, y = ((const struct boundary *)b)->ordinal;

	return (x > y) - (x < y);
}

/* The time of the latest noted boundary that is not after an event; 0 = there is none. */
static uint64_t time_of(const struct process_tracks *t, uint64_t ordinal)
{
	size_t low = 0, high = t->nr_boundaries;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (t->boundary[middle].ordinal <= ordinal)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? t->boundary[low - 1].time_ns : 0;
}

/* Step 1 begins with the recording: what comes before the first bound counts with it. */
static void write_steps(struct perfettofile *f, struct process_tracks *t)
{
	const struct steps *s = &t->process->lives->steps;
	const struct steps_bounds *bounds = steps_bounds(s);
	uint32_t nr = steps_count(s);
	uint64_t track, begin_ns = t->process->is_kept ? t->process->kept_ns : t->process->start_ns;
	char name[32];

	if (!nr)
		return;
	if (t->nr_boundaries)
		qsort(t->boundary, t->nr_boundaries, sizeof(*t->boundary), compare_boundaries);
	track = perfetto_track(f, t->track, "steps");
	for (uint32_t i = 0; i < nr; i++) {
		uint64_t end_ns = i < bounds->nr_bounds ? time_of(t, bounds->ordinal[i]) : t->last_ns;

		snprintf(name, sizeof(name), "step %" PRIu32, i + 1);
		perfetto_begin(f, track, begin_ns, name);
		perfetto_end(f, track, end_ns > begin_ns ? end_ns : begin_ns);
		begin_ns = end_ns > begin_ns ? end_ns : begin_ns;
	}
}

/* ---- ranges ------------------------------------------------------------------------------------ */

static struct rangetrack *range_of(struct process_tracks *t, uint32_t a, uint32_t b, uint32_t c)
{
	bool is_new;
	uint32_t number = keyset_add(&t->threads, (struct keyset_key){ { a, b, c } }, &is_new);

	t->range = heap_grow(t->range, &t->range_room, number + 1, sizeof(*t->range));
	if (is_new)
		t->range[number] = (struct rangetrack){ 0 };
	return &t->range[number];
}

/* The track of a thread, below it one for each domain: their ranges need not lie within each other. */
static struct rangetrack *thread_track(struct perfettofile *f, struct process_tracks *t, uint32_t thread,
				       uint32_t domain)
{
	struct rangetrack *r = range_of(t, thread, domain, 0);
	struct tfmt_thread info;
	uint64_t parent;

	if (r->track)
		return r;
	if (domain) {
		parent = thread_track(f, t, thread, 0)->track;
		r = range_of(t, thread, domain, 0);
		r->track = perfetto_track(f, parent, tfmt_reader_string(t->process->reader, domain));
		return r;
	}
	tfmt_reader_thread(t->process->reader, thread, &info);
	r->track = perfetto_thread(f, t->pid, info.tid, info.name);
	return r;
}

static void follow_range(struct perfettofile *f, struct process_tracks *t, const struct tfmt_event *ev,
			 uint64_t time_ns)
{
	struct range range = { (uint32_t)ev->address, (uint32_t)ev->size };
	struct rangetrack *r;
	char name[512];

	if (ev->kind == TFMT_RANGE_START || ev->kind == TFMT_RANGE_END)
		r = range_of(t, (uint32_t)(ev->aux >> 32), (uint32_t)ev->aux, 1);
	else
		r = thread_track(f, t, ev->thread, range.domain);
	switch (ev->kind) {
	case TFMT_RANGE_START:
		range_label(name, sizeof(name), t->process->reader, range);
		r->track = r->depth ? r->track : perfetto_track(f, t->track, name);
		perfetto_begin(f, r->track, time_ns, name);
		r->depth++;
		break;
	case TFMT_RANGE_PUSH:
		perfetto_begin(f, r->track, time_ns,
			       range_label(name, sizeof(name), t->process->reader, range));
		r->depth++;
		break;
	case TFMT_MARK:
		perfetto_instant(f, r->track, time_ns,
				 range_label(name, sizeof(name), t->process->reader, range));
		break;
	default: /* the end of one that began before the recording's kept part is no slice's */
		if (r->depth)
			perfetto_end(f, r->track, time_ns);
		r->depth -= r->depth > 0;
	}
}

/* ---- all --------------------------------------------------------------------------------------- */

static void follow_failure(struct perfettofile *f, struct process_tracks *t, const struct tfmt_event *ev,
			   uint64_t time_ns)
{
	char text[128], size[HUMAN_MAX];

	if (!t->moments)
		t->moments = perfetto_track(f, t->track, "out of memory");
	snprintf(text, sizeof(text), "GPU %u: %s (%" PRIu64 " bytes) asked for", ev->device,
		 human_bytes(size, ev->size), ev->size);
	perfetto_instant(f, t->moments, time_ns, text);
}

void perfetto_observe(void *ctx, const struct replay_process *process, const struct tfmt_event *ev,
		      uint64_t time_ns)
{
	struct export *x = ctx;
	struct perfettofile *f = &((struct perfetto *)x->state)->file;
	bool is_device = ev->device < TFMT_NR_DEVICES;
	struct process_tracks *t;

	weights_observe(ctx, process, ev, time_ns);
	if (is_device ? !export_wants_event(x, process, ev) : !export_wants_process_of(x, process))
		return;
	t = tracks_of(x, process);
	t->last_ns = time_ns > t->last_ns ? time_ns : t->last_ns;
	follow_steps(t, ev, time_ns);
	if (tells_phase(ev))
		follow_phase(f, t, process->phase, time_ns);
	if (is_device)
		count_device(f, t, ev, time_ns);
	if (ev->kind >= TFMT_RANGE_PUSH && ev->kind <= TFMT_MARK)
		follow_range(f, t, ev, time_ns);
	if (ev->kind == TFMT_TENSOR_OOM && is_device)
		follow_failure(f, t, ev, time_ns);
}

static void finish_process(struct export *x, struct process_tracks *t)
{
	struct perfettofile *f = &((struct perfetto *)x->state)->file;

	if (t->track) {
		tracks_of(x, t->process);
		follow_phase(f, t, PHASE_OTHER, t->last_ns);
		write_steps(f, t);
		for (size_t i = 0; i < x->replay->nr_devices; i++) {
			const struct replay_device *d = &x->replay->device[i];

			if (d->process == t->process && export_wants_device(x, d))
				perfettoheap_write(f, x, d, t->pid);
		}
	}
	keyset_release(&t->threads);
	free(t->range);
	free(t->boundary);
}

int perfetto_finish(struct export *x)
{
	struct perfetto *p = x->state;

	for (size_t i = 0; i < x->replay->nr_processes; i++)
		finish_process(x, &p->process[i]);
	weights_end(x);
	perfettofile_release(&p->file);
	free(p->process);
	free(p);
	return CMD_FINE;
}
