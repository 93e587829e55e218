/* SPDX-License-Identifier: MIT */
/* Gathering traces, and making rows of them. */
#include "analyzer/live/live.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/base/message.h"
#include "analyzer/command.h"
#include "analyzer/purpose/rules.h"

const char *const live_sort_names[NR_LIVE_SORTS + 1] = { "used", "allocated", "share", "growth", "oom", "pid", NULL };

/* ---- traces ---------------------------------------------------------------------------------- */

static size_t folder_length(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? (size_t)(slash - path) : 0;
}

static bool same_folder(const char *a, const char *b)
{
	size_t len = folder_length(a);

	return len == folder_length(b) && !memcmp(a, b, len);
}

static bool is_followed(const struct live *l, const char *path)
{
	for (size_t i = 0; i < l->nr_traces; i++)
		if (!strcmp(l->trace[i]->path, path))
			return true;
	return false;
}

/* A process that began later than the first of its recording has its times from there on. */
static void place(const struct live *l, struct livetrace *t, const struct tfmt_header *header)
{
	uint64_t first_real = t->start_real_ns, first_mono = header->start_mono_ns;
	const struct tfmt_header *h;
	bool same_boot = true;

	for (size_t i = 0; i < l->nr_traces; i++) {
		if (!livetrace_process(l->trace[i]))
			continue;
		h = livetrace_process(l->trace[i])->header;
		if (!same_folder(l->trace[i]->path, t->path) || h->start_real_ns >= first_real)
			continue;
		first_real = h->start_real_ns;
		first_mono = h->start_mono_ns;
		same_boot = !memcmp(h->boot_id, header->boot_id, sizeof(h->boot_id));
	}
	t->start_ns = same_boot ? header->start_mono_ns - first_mono : t->start_real_ns - first_real;
}

struct found {
	const char *path;
	struct tfmt_header header;
};

static int compare_starts(const void *va, const void *vb)
{
	const struct found *a = va, *b = vb;

	return (a->header.start_real_ns > b->header.start_real_ns) - (a->header.start_real_ns < b->header.start_real_ns);
}

/* Those that can be read; one that has just been made comes with a later look. The earliest first. */
static void follow(struct live *l, const struct livepaths *paths)
{
	struct found *found = heap_alloc(paths->nr_paths, sizeof(*found));
	size_t nr = 0;

	for (size_t i = 0; i < paths->nr_paths; i++) {
		found[nr].path = paths->path[i];
		nr += !is_followed(l, paths->path[i]) && !tfmt_header_read(paths->path[i], &found[nr].header);
	}
	if (nr)
		qsort(found, nr, sizeof(*found), compare_starts);
	for (size_t i = 0; i < nr; i++) {
		struct livetrace *t = livetrace_open(found[i].path, &found[i].header, l->interval_ns);

		if (!t)
			continue;
		place(l, t, &found[i].header);
		l->trace = heap_grow(l->trace, &l->traces_room, l->nr_traces + 1, sizeof(*l->trace));
		l->trace[l->nr_traces++] = t;
	}
	free(found);
}

/* Returns 0, or -1 with a sentence in why[size]. */
static int find(struct live *l, char *why, size_t size)
{
	struct livepaths paths = { 0 };
	int ret = 0;

	if (l->recording)
		ret = livefind_recording(&paths, l->recording, why, size);
	else if (!l->pid)
		livefind_all(&paths);
	else if (!livefind_process(&paths, l->pid) && !l->nr_traces)
		snprintf(why, size, "there is no process '%d'", (int)l->pid);
	follow(l, &paths);
	livepaths_release(&paths);
	return ret;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static double until_oom(const struct liverow *r)
{
	double steps = r->growth.oom_step - r->pace.nr_steps;

	return steps > 0 && r->pace.per_second > 0 ? steps / r->pace.per_second * 1e9 : NAN;
}

static void add_row(struct live *l, struct livetrace *t, const struct replay_device *d, const struct livesteps_pace *pace)
{
	struct liverow r = { .trace = t, .process = livetrace_process(t), .device = d, .pace = *pace, .oom_ns = NAN,
			     .growth = { NAN, NAN, NAN, NAN } };

	if (d) {
		r.live = t->device[d->ordinal];
		r.allocated_bytes = d->books->allocated_bytes;
		r.reserved_bytes = d->books->reserved_bytes;
		r.used_bytes = livetrace_used_bytes(r.process->books, d->ordinal);
		if (d->capacity_bytes)
			r.share = (double)r.used_bytes / (double)d->capacity_bytes;
		r.most_share = r.share;
		if (d->capacity_bytes && r.live && r.live->since.used > r.used_bytes)
			r.most_share = (double)r.live->since.used / (double)d->capacity_bytes;
		if (r.live && !t->interval_ns)
			livesteps_growth(&r.growth, d, &r.live->rise);
		r.oom_ns = r.process->is_over ? NAN : until_oom(&r);
	}
	l->row = heap_grow(l->row, &l->rows_room, l->nr_rows + 1, sizeof(*l->row));
	l->row[l->nr_rows++] = r;
}

static void add_rows(struct live *l, struct livetrace *t)
{
	struct livesteps_pace pace;

	livesteps_pace(&pace, &t->steps, &livetrace_process(t)->lives->steps, t->now_ns);
	for (size_t i = 0; i < t->replay.nr_devices; i++)
		add_row(l, t, &t->replay.device[i], &pace);
	if (!t->replay.nr_devices)
		add_row(l, t, NULL, &pace);
}

/* What is to come first is larger; NAN comes last. */
static double key_of(const struct liverow *r, enum live_sort by)
{
	switch (by) {
	case LIVE_BY_USED:
		return (double)r->used_bytes;
	case LIVE_BY_ALLOCATED:
		return (double)r->allocated_bytes;
	case LIVE_BY_SHARE:
		return r->share;
	case LIVE_BY_GROWTH:
		return isnan(r->growth.bytes_per_step) ? -INFINITY : r->growth.bytes_per_step;
	case LIVE_BY_OOM:
		return isnan(r->oom_ns) ? -INFINITY : -r->oom_ns;
	default:
		return 0;
	}
}

static int compare_rows(const void *va, const void *vb, void *ctx)
{
	const struct liverow *a = va, *b = vb;
	double x = key_of(a, *(enum live_sort *)ctx), y = key_of(b, *(enum live_sort *)ctx);
	uint32_t pid = a->process->header->pid, other = b->process->header->pid;

	if (x != y)
		return x > y ? -1 : 1;
	if (pid != other)
		return pid < other ? -1 : 1;
	return a->device && b->device ? (int)a->device->ordinal - (int)b->device->ordinal : 0;
}

void live_sort(struct live *l)
{
	if (l->nr_rows)
		qsort_r(l->row, l->nr_rows, sizeof(*l->row), compare_rows, &l->sort);
}

void live_look(struct live *l)
{
	char why[4096];

	find(l, why, sizeof(why));
	l->nr_rows = 0;
	for (size_t i = 0; i < l->nr_traces; i++) {
		livetrace_look(l->trace[i]);
		if (livetrace_process(l->trace[i]))
			add_rows(l, l->trace[i]);
	}
	live_sort(l);
}

int live_open(struct live *l)
{
	char why[4096] = "";
	int ret = rules_load();

	if (ret)
		return ret;
	ret = find(l, why, sizeof(why));
	if (*why)
		return message_error("%s", why);
	if (!ret && l->nr_traces) {
		live_look(l);
		return CMD_FINE;
	}
	if (l->recording)
		return message_error("no trace of '%s' can be read; 'vramtrace verify' says why", l->recording);
	if (l->pid)
		return message_error("neither process '%d' nor one below it writes a recording; start it with 'vramtrace run'",
				     (int)l->pid);
	return message_error("no recording is being written that you may read; start one with 'vramtrace run', or name one");
}

bool live_is_over(const struct live *l)
{
	for (size_t i = 0; i < l->nr_traces; i++)
		if (livetrace_process(l->trace[i]) && !livetrace_process(l->trace[i])->is_over)
			return false;
	return true;
}

void live_close(struct live *l)
{
	for (size_t i = 0; i < l->nr_traces; i++)
		livetrace_close(l->trace[i]);
	free(l->trace);
	free(l->row);
	l->trace = NULL;
	l->row = NULL;
}
