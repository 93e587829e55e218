/* SPDX-License-Identifier: MIT */
/*
 * Small numbers for recorded blocks, as the model wants them: a block has one from its allocation to its end, which is then
 * given to another. A block that has been freed, but waits for other streams, keeps its number apart. Single-threaded.
 */
#ifndef VT_BLOCKSLOTS_H
#define VT_BLOCKSLOTS_H

#include "analyzer/ledger/books.h"

/* Zero it. */
struct blockslots {
	struct blocks *of; /* by recorded address; `handle` is the number. NULL: none so far */
	uint32_t *spare, nr;
	size_t nr_spare, spare_room;
};

void blockslots_release(struct blockslots *s);

/* A number for a block that has none. */
uint32_t blockslots_new(struct blockslots *s, uint64_t address);

/* The number that blockslots_new() would give: of nobody until then. */
uint32_t blockslots_next(const struct blockslots *s);

/* The block ends: its number, which is free for another. false: it has none. */
bool blockslots_end(struct blockslots *s, uint64_t address, uint32_t *slot);

/* The block waits, so that its address may be another's; and it ends after all. As blockslots_end(). */
bool blockslots_wait(struct blockslots *s, uint64_t address, uint32_t *slot);
bool blockslots_end_waiting(struct blockslots *s, uint64_t address, uint32_t *slot);

#endif
