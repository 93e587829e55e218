/* SPDX-License-Identifier: MIT */
/*
 * The ledger holds what is live at one point of the event stream: blocks of both ledgers, mappings of
 * virtual memory, reference counts of handles, and the totals that frame headers carry. Writer and reader
 * run the same ledger over the same events; FORMAT.md ("The ledger") is its specification.
 *
 * A *block* is one live allocation or mapping. The writer finds blocks by address, the reader by the
 * ordinal of the event that made them. Memory from mmap; one thread. Internal to tracefmt.
 */
#ifndef TFMT_LEDGER_H
#define TFMT_LEDGER_H

#include "tracefmt/history.h"
#include "tracefmt/index.h"
#include "tracefmt/ordinals.h"
#include "tracefmt/tracefmt.h"

/* Blocks of different groups may share an address. */
enum tfmt_group {
	TFMT_GROUP_TENSOR,
	TFMT_GROUP_DEVICE, /* device, managed, pool, IPC and graph memory: one call frees them all */
	TFMT_GROUP_PINNED,
	TFMT_GROUP_REGISTERED,
	TFMT_GROUP_HANDLE,
	TFMT_GROUP_ARRAY,
	TFMT_GROUP_RESERVED,
	TFMT_GROUP_MAPPING,
};

struct tfmt_block {
	uint64_t address, size;
	uint64_t ordinal;
	uint64_t handle, handle_ordinal; /* of a mapping: what it shows; TFMT_NO_ORDINAL = nothing that is known */
	uint32_t shape;
	uint32_t references; /* of a handle, and of memory of another process: how often it was opened */
	uint32_t context;    /* number of the one that it ends with; 0 = the primary context, or none */
	uint16_t stream;
	uint8_t group; /* enum tfmt_group */
	uint8_t device;
	uint8_t space; /* enum tfmt_space */
	bool live;
	uint32_t next_unused; /* slot + 1 */
};

/* A block that a free or an unmap ended; of a mapping also its handle as it was, if that was live. */
struct tfmt_ended {
	struct tfmt_block block, handle;
	struct tfmt_origin origin, handle_origin; /* of a ledger with a history */
};

/*
 * What a TFMT_FREE_FAILED may still undo: the latest driver free or unmap of a thread. Threads whose ids
 * are equal modulo TFMT_NR_UNDO share a place; the later event has it.
 */
struct tfmt_undo {
	uint64_t ordinal; /* of the free or unmap */
	uint32_t thread;
	uint32_t nr, room;        /* nr 0: nothing to undo */
	struct tfmt_event event;  /* the free or unmap, of a ledger with a history */
	struct tfmt_ended *ended; /* in the order in which they ended */
};
#define TFMT_NR_UNDO 256

struct tfmt_ledger {
	struct tfmt_block *block;
	uint32_t nr_slots, max_slots, unused; /* unused: slot + 1 of the first free slot */
	uint32_t max_origins; /* at least max_slots, if there is a history */
	struct tfmt_index by_address;
	struct tfmt_ordinals by_ordinal;
	bool use_ordinals;         /* by_ordinal is kept */
	bool use_tensor_addresses; /* by_address also holds the tensor group */
	struct tfmt_totals totals;
	struct tfmt_undo undo[TFMT_NR_UNDO];
	struct tfmt_history *history; /* the writer's, who may have to drop frames; else NULL */
	struct tfmt_origin *origin;   /* parallel to block[], if there is a history */
};

/* Prepare a zeroed ledger for a writer (by address) or a reader (by ordinal). Returns 0 or TFMT_E_NOMEM. */
int tfmt_ledger_init(struct tfmt_ledger *l, bool reader);
void tfmt_ledger_release(struct tfmt_ledger *l);

/* Keep a history of the (new) writer's ledger from now on, which becomes its own. Returns 0 or TFMT_E_NOMEM. */
int tfmt_ledger_keep_history(struct tfmt_ledger *l, uint8_t time_shift);

/* The event that made a block, as it was recorded. */
struct tfmt_event tfmt_block_event(const struct tfmt_block *b, const struct tfmt_origin *o);

/* The slot of a block that was live, if it still is (it, and no other under its key); else false. */
bool tfmt_ledger_is_live(const struct tfmt_ledger *l, const struct tfmt_block *b, uint32_t *slot);

/* The live handle that a mapping shows, not another one that has its number by now: its slot, or false. */
bool tfmt_ledger_handle(const struct tfmt_ledger *l, const struct tfmt_block *mapping, uint32_t *slot);

/*
 * From now on find blocks by address in a reader's ledger too, for events that come from a ring.
 * Returns 0 or TFMT_E_NOMEM.
 */
int tfmt_ledger_use_addresses(struct tfmt_ledger *l);

/*
 * Apply a raw event by address. Sets ev->ordinal and, for a free, ev->alloc_ordinal; of a matched free or
 * TFMT_FREE_FAILED also what it inherits (size, shape, stream, device, space). Returns 0 or TFMT_E_NOMEM.
 */
int tfmt_ledger_record(struct tfmt_ledger *l, struct tfmt_event *ev, uint64_t ordinal);

/* tfmt_ledger_record() of nr events, at most TFMT_WRITER_BATCH, with ordinals from this one on. */
int tfmt_ledger_record_all(struct tfmt_ledger *l, struct tfmt_event *ev, uint32_t nr, uint64_t ordinal);

/* Have the processor fetch what tfmt_ledger_record() will look up for these events: cache misses side by side. */
void tfmt_ledger_expect(const struct tfmt_ledger *l, const struct tfmt_event *ev, uint32_t nr);

/*
 * Apply a decoded event: ev->ordinal and ev->alloc_ordinal are set. A free whose block is not known gets
 * alloc_ordinal = TFMT_NO_ORDINAL, else what it inherits and its address. Returns 0 or TFMT_E_NOMEM.
 */
int tfmt_ledger_replay(struct tfmt_ledger *l, struct tfmt_event *ev);

/* tfmt_ledger_replay() of nr events. Returns how many were applied: less than nr when memory runs out. */
uint32_t tfmt_ledger_replay_all(struct tfmt_ledger *l, struct tfmt_event *ev, uint32_t nr);

/* The device is part of a tensor's key only: the driver hands out one address space for all devices. */
static inline uint32_t tfmt_block_hash(unsigned group, unsigned device, uint64_t address)
{
	uint64_t owner = group == TFMT_GROUP_TENSOR ? device << 4 : 0;

	return tfmt_hash(address ^ (owner | group) << 52);
}

/* A block becomes the one of a tensor that this event makes. */
static inline void tfmt_block_hold_tensor(struct tfmt_block *b, const struct tfmt_event *ev)
{
	b->address = ev->address;
	b->size = ev->size;
	b->ordinal = ev->ordinal;
	b->shape = ev->shape;
	b->references = 1;
	b->stream = ev->stream;
	b->group = TFMT_GROUP_TENSOR;
	b->device = ev->device;
	b->live = true;
}

/* No total goes below 0: after damage it may count less than there is. */
static inline void tfmt_total_give_back(uint64_t *total, uint64_t bytes)
{
	*total -= *total < bytes ? *total : bytes;
}

/* A block is live no more: its slot is the next to be taken. */
static inline void tfmt_block_end(struct tfmt_block *b, uint32_t slot, uint32_t *unused)
{
	b->live = false;
	b->next_unused = *unused;
	*unused = slot + 1;
}

/* A free ends a tensor's block, and inherits what its event need not tell. *allocated is the total it counts in. */
static inline void tfmt_block_end_tensor(struct tfmt_block *b, uint32_t slot, struct tfmt_event *ev,
					 uint64_t *allocated, uint32_t *unused)
{
	ev->size = b->size;
	ev->shape = b->shape;
	ev->stream = b->stream;
	tfmt_total_give_back(allocated, b->size);
	tfmt_block_end(b, slot, unused);
}

static inline bool tfmt_kind_is_free(unsigned kind)
{
	return kind == TFMT_TENSOR_FREE || kind == TFMT_DRIVER_FREE || kind == TFMT_FREE_FAILED;
}

static inline bool tfmt_kind_is_known(unsigned kind)
{
	return kind > TFMT_NONE && kind < TFMT_NR_KINDS;
}

#endif
