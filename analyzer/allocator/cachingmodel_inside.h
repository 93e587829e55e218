/* SPDX-License-Identifier: MIT */
/* What the files of the model (cachingmodel*.c) share: nobody else includes this. */
#ifndef VT_CACHINGMODEL_INSIDE_H
#define VT_CACHINGMODEL_INSIDE_H

#include "analyzer/allocator/cachingmodel.h"
#include "analyzer/allocator/freeblocks.h"

struct modelblock {
	uint64_t address, size;
	uint64_t age_base;   /* of a free one: how often its pool had been searched when it was freed */
	uint32_t prev, next; /* neighbours of the same segment; 0 = none */
	uint32_t list;
	uint32_t arena;      /* of expandable segments: number of its range of addresses, from 1; 0 = an ordinary segment */
	bool allocated, pending, mapped;
};

/* Small or large blocks of the common pool or of a private one, on all streams. */
struct modelpool {
	uint32_t private_id;
	bool small;
	bool ended; /* a private one that nobody uses any more */
	uint64_t searches;
};

/* The free blocks of a pool on one stream. */
struct modellist {
	uint32_t pool;
	uint16_t stream;
	struct freeblocks free;
	struct freeblocks unmapped; /* of expandable segments, by address alone: their size counts as 0 */
};

/* A range of addresses for an expandable segment. */
struct modelarena {
	uint64_t base, size;
	bool gone;
};

struct cachingmodel {
	struct allocconf conf;
	uint64_t capacity, others;
	uint64_t allowed; /* what the fraction leaves; UINT64_MAX: all */
	struct modelblock *block; /* [0] is none */
	uint32_t nr_blocks, spare_block;
	size_t blocks_room;
	struct modelpool *pool;
	uint32_t nr_pools;
	size_t pools_room;
	struct modellist *list;
	uint32_t nr_lists, latest_list;
	size_t lists_room;
	struct modelarena *arena;
	uint32_t nr_arenas;
	size_t arenas_room;
	uint32_t *slot; /* blocks handed out */
	size_t slots_room;
	uint32_t *pending; /* slots */
	size_t nr_pending, pending_room;
	uint64_t next_address;
	bool at_peak; /* the reserved peak was just reached, by the request that is being served */
	struct cachingmodel_figures figures;
};

static inline struct modelpool *pool_of(struct cachingmodel *m, const struct modelblock *b)
{
	return &m->pool[m->list[b->list].pool];
}

/* Are segments of this pool expandable? Those of graphs' pools are since 2.6. */
static inline bool pool_grows(const struct cachingmodel *m, const struct modelpool *p)
{
	return m->conf.expandable && (!p->private_id || m->conf.version >= ALLOCCONF_VERSION(2u, 6u));
}

/* cachingmodel_blocks.c: blocks, their neighbours, and the lists of free ones. */
uint32_t modelblock_new(struct cachingmodel *m, uint32_t list, uint64_t address, uint64_t size);
void modelblock_drop(struct cachingmodel *m, uint32_t n);
void modelblock_add_free(struct cachingmodel *m, uint32_t n);
void modelblock_take_free(struct cachingmodel *m, uint32_t n);
void modelblock_put_after(struct cachingmodel *m, uint32_t n, uint32_t before);
void modelblock_put_before(struct cachingmodel *m, uint32_t n, uint32_t after);

/* Make a neighbour part of block n, if both are free and are or are not mapped alike. n is in no list. */
void modelblock_merge(struct cachingmodel *m, uint32_t n, uint32_t neighbour);

/* cachingmodel_driver.c: memory from the driver and back. */

/* Memory for a rounded request: a block in no list; 0: there is none. */
uint32_t modeldriver_take(struct cachingmodel *m, uint32_t list, uint64_t size, const struct cachingmodel_request *r);

/* Enough large segments that may not be split are given back for a request of so many bytes, if there are. */
bool modeldriver_give_some(struct cachingmodel *m, uint32_t list, uint64_t size);

/* All that is wholly free is given back. */
void modeldriver_give_all(struct cachingmodel *m);

/* What has not been used for long is given back, if so much is reserved. */
void modeldriver_collect(struct cachingmodel *m);
void modeldriver_give_pool(struct cachingmodel *m, uint32_t pool);

#endif
