/* SPDX-License-Identifier: MIT */
/*
 * The blocks that are live at one moment of a trace, by address. Blocks lie in an array, and stay where they are
 * while they live; a hash table leads to them. Their size follows the number of live blocks, never the number of
 * events.
 */
#ifndef VT_LIVEBLOCKS_H
#define VT_LIVEBLOCKS_H

#include <stdbool.h>
#include <stdint.h>

/* Addresses of different spaces do not meet: a tensor may begin where its driver block begins. */
enum block_space {
	BLOCK_TENSOR = 1,
	BLOCK_DRIVER, /* device, managed, pool, imported and graph memory: one call frees them all */
	BLOCK_PINNED,
	BLOCK_REGISTERED,
	BLOCK_ARRAY,
	BLOCK_HANDLE,  /* physical memory of a virtual memory handle */
	BLOCK_MAPPING, /* a mapped range; `handle` holds */
	BLOCK_RESERVED, /* a range of addresses */
	BLOCK_GRAPH,      /* an executable graph; its group is that of the memory it makes the driver reserve */
	BLOCK_GRAPH_POOL, /* what graphs have reserved of a device; address = the device's ordinal */
};

struct block {
	uint64_t address, size;
	uint64_t handle;     /* of a mapping: the number of what it shows; of a tensor: of its life (blocklives.h) */
	uint64_t ordinal;    /* of the event that made it; of a mapping: its handle, TFMT_NO_ORDINAL = none was known */
	uint32_t group;      /* index of the blocks alike (model.h) */
	uint32_t references; /* of a handle: creation, retentions and mappings; of imported memory: how often opened */
	uint32_t range;      /* range group (books_range.h); 0 = none */
	uint32_t context;    /* number of the context that it ends with; 0 = the primary one, or none */
	uint32_t next_unused; /* of what is not live: place + 1 of the next such one */
	uint8_t space;       /* enum block_space; 0 = not live */
};

struct blocks {
	struct block *block; /* nr_places of them, some not live */
	uint32_t nr_places, places_room, unused; /* unused: place + 1 of the first that is not live */
	uint64_t nr_blocks;
	uint64_t *entry; /* hash << 32 | place + 1; 0 = free */
	uint64_t mask;   /* number of entries - 1; entries are four times the places */
};

void blocks_release(struct blocks *b);

/* The block at an address, NULL if there is none. Valid until the next insert. */
struct block *blocks_find(const struct blocks *b, uint8_t space, uint64_t address);

/* Add a block whose address is free in its space. false when memory runs out. */
bool blocks_insert(struct blocks *b, const struct block *block);

/*
 * The block at an address; if there is none (*is_new), one that is otherwise 0 is added. NULL when memory runs out.
 * Valid until the next insert.
 */
struct block *blocks_claim(struct blocks *b, uint8_t space, uint64_t address, bool *is_new);

/* Remove a block that blocks_find() gave. */
void blocks_remove(struct blocks *b, struct block *block);

/* Remove the block at an address, and return what it was, but for its space, until the next insert. NULL: none is there. */
const struct block *blocks_take(struct blocks *b, uint8_t space, uint64_t address);

#endif
