/* SPDX-License-Identifier: MIT */
/*
 * A memory snapshot of PyTorch in memory: what torch.cuda.memory._dump_snapshot() has pickled, of all versions since 2.0.
 *
 * *Segments* and their blocks are the allocator's at the end; *entries* are what it did before, the latest of each device
 * that its ring still had. Times are microseconds of the time of day, 0 where the snapshot has none.
 */
#ifndef VT_SNAPSHOT_H
#define VT_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/imports/framestacks.h"
#include "tracefmt/tracefmt.h"

#define NS_PER_US 1000

struct snapshot_entry {
	uint64_t address;    /* of an OOM: what the driver had free */
	uint64_t size;       /* as asked for; of segments their own */
	uint64_t time_us;
	uint32_t stack;      /* number of a pair + 1, 0 = none */
	uint32_t label;      /* number of a text (user_metadata), 0 = none */
	uint16_t stream;     /* 0: the default one; others are numbered as they come */
	uint8_t action;      /* enum tfmt_allocator_action */
	bool is_private : 1; /* of a pool of its own, as CUDA graphs have */
	bool is_last : 1;    /* filled in by snapshotplay: its block is among those of the end */
};

enum snapshot_state { SNAPSHOT_FREE, SNAPSHOT_ALLOCATED, SNAPSHOT_PENDING };

struct snapshot_block {
	uint64_t address, size;
	uint64_t requested; /* 0 = not known */
	uint32_t stack;
	uint8_t state; /* enum snapshot_state */
};

struct snapshot_segment {
	uint64_t address, size;
	size_t first_block, nr_blocks;
	uint32_t stack;
	uint16_t stream;
	uint8_t device;
	bool is_small, is_expandable, is_private;
};

struct snapshot_annotation {
	uint64_t time_us;
	uint32_t name;  /* number of a text */
	uint8_t device;
	bool is_end;
};

struct snapshot_device {
	struct snapshot_entry *entry;
	size_t nr_entries;
};

/* What decides how large a block becomes. */
struct snapshot_settings {
	char *conf; /* PYTORCH_CUDA_ALLOC_CONF, NULL = the snapshot does not tell */
	bool expandable_segments;
	uint64_t max_split_size;       /* UINT64_MAX: no limit */
	uint32_t roundup_divisions[16]; /* of sizes up to 1 MiB, 2 MiB, 4 MiB, ... */
};

struct snapshot {
	struct framestacks stacks;
	struct snapshot_segment *segment;
	size_t nr_segments, segments_room;
	struct snapshot_block *block;
	size_t nr_blocks, blocks_room;
	struct snapshot_device device[TFMT_NR_DEVICES];
	struct snapshot_device host;           /* page-locked memory of the host */
	struct snapshot_segment *host_segment;
	size_t nr_host_segments, host_segments_room;
	bool has_host; /* that was recorded */
	uint32_t nr_devices; /* the highest that something is known of + 1 */
	struct snapshot_annotation *annotation;
	size_t nr_annotations, annotations_room;
	struct snapshot_settings settings;
	struct keyset streams;
	const char *origin; /* what it is, if it is none of PyTorch's snapshots; static */
	bool has_times;
	bool has_stacks; /* some entry has one */
	char why[4864]; /* why it could not be read */
};

/*
 * Read one. Returns 0, or -1 with s->why, a sentence about `path` for the user. snapshot_release() is needed either way.
 */
int snapshot_read(struct snapshot *s, const char *path);
void snapshot_release(struct snapshot *s);

/* Does the file begin as a pickle does? Of anything that is no regular file: no. */
bool snapshot_is_pickle(const char *path);

#endif
