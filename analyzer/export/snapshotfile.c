/* SPDX-License-Identifier: MIT */
/* What snapshots are made of. */
#include "analyzer/export/snapshotfile.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"

#define BATCH_MAX 1000 /* viewers pass a batch as arguments of one call */

static const char *const snapshot_words[NR_SNAPSHOT_WORDS] = {
	[WORD_ACTION] = "action", [WORD_ADDR] = "addr", [WORD_SIZE] = "size", [WORD_STREAM] = "stream",
	[WORD_TIME] = "time_us", [WORD_FRAMES] = "frames", [WORD_CATEGORY] = "category", [WORD_METADATA] = "user_metadata",
	[WORD_DEVICE_FREE] = "device_free", [WORD_NAME] = "name", [WORD_FILE] = "filename", [WORD_LINE] = "line",
	[WORD_TRACES] = "device_traces", [WORD_SEGMENTS] = "segments", [WORD_SETTINGS] = "allocator_settings",
	[WORD_ANNOTATIONS] = "external_annotations", [WORD_CONF] = "PYTORCH_CUDA_ALLOC_CONF",
	[WORD_EXPANDABLE] = "expandable_segments", [WORD_DEVICE] = "device", [WORD_ADDRESS] = "address",
	[WORD_TOTAL_SIZE] = "total_size", [WORD_ALLOCATED_SIZE] = "allocated_size", [WORD_ACTIVE_SIZE] = "active_size",
	[WORD_REQUESTED_SIZE] = "requested_size", [WORD_SEGMENT_TYPE] = "segment_type", [WORD_POOL_ID] = "segment_pool_id",
	[WORD_IS_EXPANDABLE] = "is_expandable", [WORD_BLOCKS] = "blocks", [WORD_STATE] = "state", [WORD_SMALL] = "small",
	[WORD_LARGE] = "large", [WORD_ALLOCATED] = "active_allocated", [WORD_PENDING] = "active_pending_free",
	[WORD_INACTIVE] = "inactive", [WORD_ALLOC] = "alloc", [WORD_FREE_REQUESTED] = "free_requested",
	[WORD_FREE_COMPLETED] = "free_completed", [WORD_SEGMENT_ALLOC] = "segment_alloc", [WORD_SEGMENT_FREE] = "segment_free",
	[WORD_SEGMENT_MAP] = "segment_map", [WORD_SEGMENT_UNMAP] = "segment_unmap", [WORD_OOM] = "oom",
};

void snapshot_word(struct snapshotfile *s, enum snapshot_word word)
{
	pickleout_shared_text(&s->pickle, &s->word[word], snapshot_words[word]);
}

void snapshot_number(struct snapshotfile *s, enum snapshot_word key, uint64_t value)
{
	snapshot_word(s, key);
	pickleout_number(&s->pickle, value);
}

void snapshot_bool(struct snapshotfile *s, enum snapshot_word key, bool value)
{
	snapshot_word(s, key);
	pickleout_op(&s->pickle, value ? PICKLE_TRUE : PICKLE_FALSE);
}

/* ---- stacks ------------------------------------------------------------------------------------ */

/* The memo's number of number `number`, 0 if it is new. */
static uint32_t *memo_of(uint32_t **array, size_t *room, uint32_t number)
{
	size_t before = *room;

	*array = heap_grow(*array, room, (size_t)number + 1, sizeof(**array));
	if (*room > before)
		memset(*array + before, 0, (*room - before) * sizeof(**array));
	return &(*array)[number];
}

static void put_frame(struct snapshotfile *s, const struct frame *f)
{
	uint32_t *memo = memo_of(&s->of_frame, &s->frames_room, f->number);

	if (*memo) {
		pickleout_get(&s->pickle, *memo);
		return;
	}
	pickleout_op(&s->pickle, PICKLE_DICT);
	*memo = pickleout_keep(&s->pickle);
	pickleout_op(&s->pickle, PICKLE_MARK);
	snapshot_word(s, WORD_NAME);
	pickleout_shared_text(&s->pickle, memo_of(&s->of_name, &s->names_room, f->name_number), f->name);
	snapshot_word(s, WORD_FILE);
	pickleout_shared_text(&s->pickle, memo_of(&s->of_file, &s->files_room, f->file_number), f->file ? f->file : "??");
	snapshot_number(s, WORD_LINE, f->line);
	pickleout_op(&s->pickle, PICKLE_SETITEMS);
}

static void put_frames(struct snapshotfile *s, uint32_t python, uint32_t native)
{
	frames_clear(&s->frames);
	frames_expand(&s->frames, &s->source, python, native);
	for (uint32_t left = s->frames.nr_frames; left;) {
		uint32_t nr = left < BATCH_MAX ? left : BATCH_MAX;

		pickleout_op(&s->pickle, PICKLE_MARK);
		for (uint32_t i = 0; i < nr; i++) /* the innermost first */
			put_frame(s, &s->frames.frame[--left]);
		pickleout_op(&s->pickle, PICKLE_APPENDS);
	}
}

void snapshot_stack(struct snapshotfile *s, uint32_t python, uint32_t native)
{
	bool is_any = python >= TFMT_STACK_FIRST || native >= TFMT_STACK_FIRST;
	uint32_t *memo = &s->no_frames;

	snapshot_word(s, WORD_FRAMES);
	if (is_any)
		memo = memo_of(&s->of_stack, &s->stacks_room, keyset_add(&s->stacks, (struct keyset_key){ { python, native } }, NULL));
	if (*memo) {
		pickleout_get(&s->pickle, *memo);
		return;
	}
	pickleout_op(&s->pickle, PICKLE_LIST);
	*memo = pickleout_keep(&s->pickle);
	if (is_any)
		put_frames(s, python, native);
}

/* ---- entries ----------------------------------------------------------------------------------- */

void snapshot_begin(struct snapshotfile *s, uint32_t nr_devices)
{
	struct pickleout *p = &s->pickle;

	s->batch_device = -1;
	pickleout_begin(p);
	pickleout_op(p, PICKLE_DICT);
	snapshot_word(s, WORD_TRACES);
	pickleout_op(p, PICKLE_LIST);
	s->outer = pickleout_keep(p);
	pickleout_op(p, PICKLE_MARK);
	for (uint32_t i = 0; i < nr_devices; i++) {
		pickleout_op(p, PICKLE_LIST);
		s->list[i] = pickleout_keep(p);
	}
	pickleout_op(p, PICKLE_APPENDS);
	pickleout_op(p, PICKLE_SETITEM);
}

static void batch_end(struct snapshotfile *s)
{
	if (s->batch_device < 0)
		return;
	pickleout_op(&s->pickle, PICKLE_APPENDS);
	pickleout_op(&s->pickle, PICKLE_SETITEM);
	s->batch_device = -1;
}

/*
 * Entries of several devices come mixed. Each batch is appended to its device's list, which is got for that; as viewers know
 * no opcode to drop it afterwards, it becomes the value of `device_traces` until snapshot_entries_end().
 */
static void batch_begin(struct snapshotfile *s, uint32_t device)
{
	snapshot_word(s, WORD_TRACES);
	pickleout_get(&s->pickle, s->list[device]);
	pickleout_op(&s->pickle, PICKLE_MARK);
	s->batch_device = (int)device;
	s->nr_in_batch = 0;
}

void snapshot_entry_begin(struct snapshotfile *s, uint32_t device, enum snapshot_word action)
{
	if (s->batch_device != (int)device || s->nr_in_batch == BATCH_MAX) {
		batch_end(s);
		batch_begin(s, device);
	}
	s->nr_in_batch++;
	pickleout_op(&s->pickle, PICKLE_DICT);
	pickleout_op(&s->pickle, PICKLE_MARK);
	snapshot_word(s, WORD_ACTION);
	snapshot_word(s, action);
}

void snapshot_entry_end(struct snapshotfile *s)
{
	pickleout_op(&s->pickle, PICKLE_SETITEMS);
}

void snapshot_entries_end(struct snapshotfile *s)
{
	batch_end(s);
	snapshot_word(s, WORD_TRACES);
	pickleout_get(&s->pickle, s->outer);
	pickleout_op(&s->pickle, PICKLE_SETITEM);
}

void snapshotfile_release(struct snapshotfile *s)
{
	keyset_release(&s->stacks);
	frames_release(&s->frames);
	free(s->of_stack);
	free(s->of_frame);
	free(s->of_name);
	free(s->of_file);
}
