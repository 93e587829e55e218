/* SPDX-License-Identifier: MIT */
/*
 * A snapshot as torch.cuda.memory._snapshot() gives it, pickled: its parts, one after the other. What occurs often (keys,
 * words, stacks) is written once.
 */
#ifndef VT_SNAPSHOTFILE_H
#define VT_SNAPSHOTFILE_H

#include "analyzer/export/pickleout.h"
#include "analyzer/export/segmentlist.h"
#include "analyzer/export/stackframes.h"
#include "tracefmt/tracefmt.h"

/* Keys of dictionaries and words that are values, in the order of snapshot_words[]. */
enum snapshot_word {
	WORD_ACTION, WORD_ADDR, WORD_SIZE, WORD_STREAM, WORD_TIME, WORD_FRAMES, WORD_CATEGORY, WORD_METADATA, WORD_DEVICE_FREE,
	WORD_NAME, WORD_FILE, WORD_LINE,
	WORD_TRACES, WORD_SEGMENTS, WORD_SETTINGS, WORD_ANNOTATIONS, WORD_CONF, WORD_EXPANDABLE,
	WORD_DEVICE, WORD_ADDRESS, WORD_TOTAL_SIZE, WORD_ALLOCATED_SIZE, WORD_ACTIVE_SIZE, WORD_REQUESTED_SIZE,
	WORD_SEGMENT_TYPE, WORD_POOL_ID, WORD_IS_EXPANDABLE, WORD_BLOCKS, WORD_STATE,
	WORD_SMALL, WORD_LARGE, WORD_ALLOCATED, WORD_PENDING, WORD_INACTIVE,
	WORD_ALLOC, WORD_FREE_REQUESTED, WORD_FREE_COMPLETED, WORD_SEGMENT_ALLOC, WORD_SEGMENT_FREE, WORD_SEGMENT_MAP,
	WORD_SEGMENT_UNMAP, WORD_OOM,
	NR_SNAPSHOT_WORDS
};

/* Zero but for pickle.out and source before first use. */
struct snapshotfile {
	struct pickleout pickle;
	struct stack_source source; /* of stacks */

	/* private: numbers in the pickle's memo */
	uint32_t word[NR_SNAPSHOT_WORDS];
	uint32_t outer, list[TFMT_NR_DEVICES]; /* device_traces, and each device's */
	uint32_t no_frames;
	struct keyset stacks;
	struct frames frames;
	uint32_t *of_stack, *of_frame, *of_name, *of_file;
	size_t stacks_room, frames_room, names_room, files_room;
	int batch_device; /* of the batch of entries that is open; -1 = none is */
	unsigned nr_in_batch;
};

/* Begin, with a list of entries for each device below nr_devices. */
void snapshot_begin(struct snapshotfile *s, uint32_t nr_devices);

/* An entry of a device's trace: begin, pairs of a key and a value, end. */
void snapshot_entry_begin(struct snapshotfile *s, uint32_t device, enum snapshot_word action);
void snapshot_entry_end(struct snapshotfile *s);

/* The rest comes after all entries. */
void snapshot_entries_end(struct snapshotfile *s);

/* Pairs of a key and a value. */
void snapshot_word(struct snapshotfile *s, enum snapshot_word word); /* one of them */
void snapshot_number(struct snapshotfile *s, enum snapshot_word key, uint64_t value);
void snapshot_bool(struct snapshotfile *s, enum snapshot_word key, bool value);
void snapshot_stack(struct snapshotfile *s, uint32_t python, uint32_t native); /* `frames` */

void snapshotfile_release(struct snapshotfile *s);

#endif
