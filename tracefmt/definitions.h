/* SPDX-License-Identifier: MIT */
/*
 * The reader's definitions: decoded once, kept until the reader is closed, found by id. Hash tables, since
 * ids from a file are not trusted to be dense. Internal to tracefmt; uses malloc.
 */
#ifndef TFMT_DEFINITIONS_H
#define TFMT_DEFINITIONS_H

#include "tracefmt/passes.h"
#include "tracefmt/tracefmt.h"

/* Pointers by id. */
struct tfmt_table {
	struct tfmt_table_entry {
		uint32_t id;
		const void *value; /* NULL: free */
	} *entry;
	uint32_t nr, mask; /* mask: entries - 1, 0 if none yet */
};

/* A growing list in order of definition. */
struct tfmt_list {
	const void **value;
	uint32_t nr;
	size_t max;
};

struct tfmt_info {
	const char *key, *value;
};

/* Of which file, and what it was. */
struct tfmt_source_entry {
	const char *file;
	struct tfmt_source source;
};

/* A node, and how many frames it and the older ones are: until the cut, and really. */
struct tfmt_frame_entry {
	struct tfmt_frame frame; /* its parent is a plain stack */
	uint32_t depth, real_depth;
	uint32_t plain;          /* as tfmt_reader_plain_stack() tells it */
	struct tfmt_call call;
};

/* What of the definitions taken in last was beyond what a reader takes. */
struct tfmt_beyond {
	uint32_t refused; /* definitions, for want of room */
	uint32_t values;  /* of INFO, cut */
	uint32_t stacks;  /* nodes that stand for themselves and all that is older */
};

static inline bool tfmt_beyond_any(const struct tfmt_beyond *b)
{
	return b->refused || b->values || b->stacks;
}

struct tfmt_definitions {
	struct tfmt_table frames, codes, shapes, threads, devices, functions, strings, instances, info_ids, module_ids;
	struct tfmt_table plain_frames; /* by a hash of what they are; empty until a frame calls an instance */
	uint32_t *plain;                /* by id of a frame below nr_plain, the plain one; 0 = not here */
	uint32_t nr_plain;
	struct tfmt_table info_keys; /* by a hash of the key */
	struct tfmt_list modules, infos, sources;
	struct tfmt_pass_list passes[TFMT_NR_DEVICES];
	bool ignores_passes; /* those that come now: the events that the reader gives tell of them, too */
	struct tfmt_arena_chunk *arena;
	uint64_t cost;       /* of all that were taken in: their bytes and TFMT_DEFINITION_COST each */
	uint64_t max_cost;   /* no more are taken in beyond it; 0: no limit */
	struct tfmt_beyond beyond;
	/* a definition of which chunks have come, in order, and more must follow */
	uint32_t partial_type, partial_id;
	uint8_t *partial;
	size_t partial_bytes, partial_whole, partial_room;
	tfmt_definition_fn *hear; /* shown each definition that was taken in; NULL: nobody */
	void *hearer;
};

void tfmt_definitions_release(struct tfmt_definitions *d);

/*
 * Take in one definition. Returns 0, TFMT_E_NOMEM, or TFMT_E_DAMAGED if the payload cannot be understood
 * (nothing is changed then). Unknown types are skipped.
 */
int tfmt_definitions_add(struct tfmt_definitions *d, uint32_t type, uint32_t id, const uint8_t *payload,
			 size_t len);

/*
 * Take in the payload of a DEFINITIONS frame that ends at this byte of the trace, as far as all of them are within what
 * TFMT_DEFINITIONS_MAX() says; d->beyond tells of the rest. Returns as tfmt_definitions_add() does.
 */
int tfmt_definitions_add_frame(struct tfmt_definitions *d, const uint8_t *payload, size_t len, uint32_t nr,
			       uint64_t trace_bytes);

/* The latest INFO of a key; NULL: there is none. */
const struct tfmt_info *tfmt_definitions_info(const struct tfmt_definitions *d, const char *key);

const void *tfmt_table_get(const struct tfmt_table *t, uint32_t id);

#endif
