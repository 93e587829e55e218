/* SPDX-License-Identifier: MIT */
/* Heap profiles: a packet for each, with the texts, frames and stacks that it names. */
#include <stdlib.h>

#include "analyzer/export/perfettoheap.h"
#include "analyzer/export/weights.h"

/* Numbers of fields, as the format's description has them. */
enum { INTERNED_FUNCTION = 5, INTERNED_FRAME = 6, INTERNED_CALLSTACK = 7, INTERNED_PATH = 17, INTERNED_SOURCE = 18,
       INTERNED_MAPPING = 19 };
enum { STRING_ID = 1, STRING_TEXT = 2 };
enum { MAPPING_ID = 1, MAPPING_PATH = 7 };
enum { FRAME_ID = 1, FRAME_FUNCTION = 2, FRAME_MAPPING = 3, FRAME_ADDRESS = 4, FRAME_SOURCE = 5, FRAME_LINE = 6 };
enum { CALLSTACK_ID = 1, CALLSTACK_FRAME = 2 };
enum { PROFILE_DUMP = 5 };
enum { DUMP_PID = 1, DUMP_SAMPLE = 2, DUMP_TIME = 9, DUMP_HEAP = 11, DUMP_INTERVAL = 12 };
enum { HEAP_CALLSTACK = 1, HEAP_ALLOCATED = 2, HEAP_FREED = 3, HEAP_ALLOC_COUNT = 5, HEAP_FREE_COUNT = 6, HEAP_MAX = 8,
       HEAP_MAX_COUNT = 9 };

#define MAPPING_NONE 1 /* of frames without a file; of others the number of the file is added */

struct heap {
	struct frames frames;
	uint32_t nr_names, nr_files; /* that were written */
	struct wire interned, dump, profile, part; /* part: scratch */
};

static void put_string(struct heap *h, uint32_t field, uint64_t id, const char *text)
{
	wire_clear(&h->part);
	wire_uint(&h->part, STRING_ID, id);
	wire_text(&h->part, STRING_TEXT, text);
	wire_message(&h->interned, field, &h->part);
}

/* What Perfetto calls a mapping stands for the file: it shows that beside each function. */
static void put_mapping(struct heap *h, uint64_t id, const char *path)
{
	put_string(h, INTERNED_PATH, id, path);
	put_string(h, INTERNED_SOURCE, id, path);
	wire_clear(&h->part);
	wire_uint(&h->part, MAPPING_ID, id);
	wire_uint(&h->part, MAPPING_PATH, id);
	wire_message(&h->interned, INTERNED_MAPPING, &h->part);
}

static void put_frame(struct heap *h, const struct frame *f)
{
	uint64_t file = MAPPING_NONE + f->file_number;

	if (f->name_number > h->nr_names) {
		put_string(h, INTERNED_FUNCTION, f->name_number, f->name);
		h->nr_names = f->name_number;
	}
	if (f->file_number > h->nr_files) {
		put_mapping(h, file, f->file);
		h->nr_files = f->file_number;
	}
	wire_clear(&h->part);
	wire_uint(&h->part, FRAME_ID, f->number);
	wire_uint(&h->part, FRAME_FUNCTION, f->name_number);
	wire_uint(&h->part, FRAME_MAPPING, file);
	wire_uint(&h->part, FRAME_ADDRESS, f->number); /* frames are told apart by it */
	if (f->file)
		wire_uint(&h->part, FRAME_SOURCE, file);
	if (f->line)
		wire_uint(&h->part, FRAME_LINE, f->line);
	wire_message(&h->interned, INTERNED_FRAME, &h->part);
}

/* The row's stack, the outermost frame first. */
static void put_stack(struct heap *h, const struct export *x, const struct replay_device *d, const struct weight *w,
		      uint64_t id)
{
	weight_frames(&h->frames, x, d, w);
	for (uint32_t i = 0; i < h->frames.nr_frames; i++)
		if (h->frames.frame[i].is_new)
			put_frame(h, &h->frames.frame[i]);
	wire_clear(&h->part);
	wire_uint(&h->part, CALLSTACK_ID, id);
	for (uint32_t i = 0; i < h->frames.nr_frames; i++)
		wire_uint(&h->part, CALLSTACK_FRAME, h->frames.frame[i].number);
	wire_message(&h->interned, INTERNED_CALLSTACK, &h->part);
}

static void put_sample(struct heap *h, const struct weight *w, uint64_t id, enum export_at at)
{
	struct group_figures live = group_figures_at(w->group, MARK_END);
	uint64_t bytes = (uint64_t)w->bytes, blocks = (uint64_t)w->blocks;

	wire_clear(&h->part);
	wire_uint(&h->part, HEAP_CALLSTACK, id);
	if (at == EXPORT_PEAK) {
		wire_uint(&h->part, HEAP_MAX, bytes);
		wire_uint(&h->part, HEAP_MAX_COUNT, blocks);
	} else {
		wire_uint(&h->part, HEAP_ALLOCATED, bytes);
		wire_uint(&h->part, HEAP_FREED, bytes > live.bytes ? bytes - live.bytes : 0);
		wire_uint(&h->part, HEAP_ALLOC_COUNT, blocks);
		wire_uint(&h->part, HEAP_FREE_COUNT, blocks > live.blocks ? blocks - live.blocks : 0);
	}
	wire_message(&h->dump, DUMP_SAMPLE, &h->part);
}

/* One profile; ids of stacks go on after `nr_stacks`. Returns how many there are then. */
static uint64_t write_profile(struct perfettofile *f, struct heap *h, const struct export *x,
			      const struct replay_device *d, int32_t pid, enum export_at at, uint64_t nr_stacks)
{
	enum group_mark mark = export_mark(d, at);
	uint64_t time_ns = mark == MARK_END ? d->process->last_ns
					    : replay_time(d->process, d->books->moment[mark].time_ns);
	char name[64];
	struct weights w;

	snprintf(name, sizeof(name), at == EXPORT_PEAK ? "GPU %u at the peak" : "GPU %u", d->ordinal);
	wire_clear(&h->interned);
	wire_clear(&h->dump);
	wire_clear(&h->profile);
	if (!nr_stacks)
		put_mapping(h, MAPPING_NONE, "");
	wire_uint(&h->dump, DUMP_PID, (uint64_t)pid);
	wire_text(&h->dump, DUMP_HEAP, name);
	wire_uint(&h->dump, DUMP_INTERVAL, 1); /* nothing is left out */
	wire_uint(&h->dump, DUMP_TIME, time_ns);
	weights_find(&w, x, d, at);
	for (size_t i = 0; i < w.nr_rows; i++) {
		if (w.row[i].bytes < 0) /* of a damaged trace; the format has no such samples */
			continue;
		put_stack(h, x, d, &w.row[i], ++nr_stacks);
		put_sample(h, &w.row[i], nr_stacks, at);
	}
	weights_release(&w);
	wire_message(&h->profile, PROFILE_DUMP, &h->dump);
	perfetto_profile(f, time_ns, &h->interned, &h->profile);
	return nr_stacks;
}

void perfettoheap_write(struct perfettofile *f, const struct export *x, const struct replay_device *d, int32_t pid)
{
	struct heap h = { 0 };
	uint64_t nr_stacks;

	f->sequence = f->nr_begun + 1; /* numbers of texts, frames and stacks are this profile's own */
	nr_stacks = write_profile(f, &h, x, d, pid, EXPORT_PEAK, 0);
	write_profile(f, &h, x, d, pid, EXPORT_ALL, nr_stacks);
	frames_release(&h.frames);
	wire_release(&h.interned);
	wire_release(&h.dump);
	wire_release(&h.profile);
	wire_release(&h.part);
}
