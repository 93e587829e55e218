/* SPDX-License-Identifier: MIT */
/* The table of formats, and what is asked of a recording. */
#include "analyzer/export/export.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/export/formats.h"

const struct export_format export_formats[] = {
	{ .name = "csv",
	  .purpose = "events, blocks or series (--what) as comma-separated values, for spreadsheets",
	  .takes_what = true, .takes_at = true, .needs_lives = true, .needs_names = true,
	  .begin = csv_begin, .observe = rows_observe, .finish = rows_finish },
	{ .name = "ndjson",
	  .purpose = "the same, one JSON object a line, for scripts",
	  .takes_what = true, .takes_at = true, .needs_lives = true, .needs_names = true,
	  .begin = ndjson_begin, .observe = rows_observe, .finish = rows_finish },
	{ .name = "folded",
	  .purpose = "bytes by stack, one line each, for flamegraph.pl, inferno and Perfetto",
	  .takes_at = true,
	  .begin = weights_begin, .observe = weights_observe, .write = folded_write, .ending = "folded",
	  .finish = weights_finish },
	{ .name = "speedscope",
	  .purpose = "bytes by stack, for speedscope.app",
	  .takes_at = true,
	  .begin = weights_begin, .observe = weights_observe, .write = speedscope_write, .ending = "speedscope.json",
	  .finish = weights_finish },
	{ .name = "pprof",
	  .purpose = "bytes and blocks by stack, held and allocated in all, for pprof and its web page",
	  .is_binary = true, .takes_at = true,
	  .begin = weights_begin, .observe = weights_observe, .write = pprof_write, .ending = "pb.gz",
	  .finish = weights_finish },
	{ .name = "massif",
	  .purpose = "memory over time with trees by stack, for Valgrind's ms_print and massif-visualizer",
	  .begin = massif_begin, .observe = massif_observe, .write = massif_write, .ending = "massif.out",
	  .finish = massif_finish },
	{ .name = "perfetto",
	  .purpose = "counters, steps, phases, ranges, and memory by stack, for ui.perfetto.dev",
	  .is_binary = true, .needs_lives = true,
	  .begin = perfetto_open, .observe = perfetto_observe, .finish = perfetto_finish },
	{ .name = "sqlite",
	  .purpose = "a database of all of it, for SQL",
	  .is_binary = true, .needs_lives = true, .needs_names = true, .needs_past = true, .needs_path = true,
	  .begin = sqlite_begin, .observe = sqlite_observe, .finish = sqlite_finish },
	{ .name = "memory-viz",
	  .purpose = "a snapshot with its history, for PyTorch's viewer (pytorch.org/memory_viz) and _memory_viz.py",
	  .is_binary = true, .needs_lives = true, .needs_names = true, .needs_past = true,
	  .begin = memoryviz_begin, .observe = memoryviz_observe, .finish = memoryviz_finish },
	{ .name = NULL },
};

const struct export_format *export_format_find(const char *name)
{
	for (const struct export_format *f = export_formats; f->name; f++)
		if (!strcmp(f->name, name))
			return f;
	return NULL;
}

bool export_wants_process(const struct export *x, const struct replay_process *p)
{
	return (!x->only || x->only == p) && (x->pid < 0 || (uint64_t)x->pid == p->header->pid) &&
	       (x->rank < 0 || x->rank == p->rank);
}

bool export_wants_device(const struct export *x, const struct replay_device *d)
{
	return (x->device < 0 || (uint64_t)x->device == d->ordinal) && export_wants_process(x, d->process);
}

const char *export_program(const struct replay_process *p)
{
	const char *script = tfmt_reader_info_value(p->reader, "script");
	const char *program = script && *script ? script : tfmt_reader_info_value(p->reader, "program");

	return program ? program : "";
}

int64_t export_rank(struct export *x, const struct replay_process *p)
{
	if (x->current != p) {
		const char *rank = tfmt_reader_info_value(p->reader, "rank");

		x->current = p;
		x->current_rank = rank && *rank ? strtoll(rank, NULL, 10) : -1;
	}
	return x->current_rank;
}

bool export_wants_process_of(struct export *x, const struct replay_process *p)
{
	return (x->pid < 0 || (uint64_t)x->pid == p->header->pid) && (x->rank < 0 || x->rank == export_rank(x, p));
}

bool export_wants_event(struct export *x, const struct replay_process *p, const struct tfmt_event *ev)
{
	return (x->device < 0 || (uint64_t)x->device == ev->device) && export_wants_process_of(x, p);
}

struct replay_process *export_process(const struct export *x, const struct replay_process *p)
{
	return &x->replay->process[p - x->replay->process];
}

enum group_mark export_mark(const struct replay_device *d, enum export_at at)
{
	if (at != EXPORT_PEAK)
		return MARK_END;
	return d->has_tensors ? MARK_TENSOR_PEAK : MARK_DRIVER_PEAK;
}

size_t export_nr_devices(const struct export *x)
{
	size_t nr = 0;

	for (size_t i = 0; i < x->replay->nr_devices; i++)
		nr += export_wants_device(x, &x->replay->device[i]);
	return nr;
}

const char *export_device_title(char *buf, size_t size, const struct replay_device *d)
{
	const struct replay_process *p = d->process;
	char rank[32] = "";

	if (p->rank >= 0)
		snprintf(rank, sizeof(rank), ", rank %" PRId64, p->rank);
	snprintf(buf, size, "%s%spid %" PRIu64 "%s, GPU %u", p->program, *p->program ? ", " : "",
		 (uint64_t)p->header->pid, rank, d->ordinal);
	return buf;
}
