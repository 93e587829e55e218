/* SPDX-License-Identifier: MIT */
/* Blocks, or segments, by address. */
#ifndef VT_ADDRESSMAP_H
#define VT_ADDRESSMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct addressmap_entry {
	uint64_t address, size;
	uint64_t requested;
	uint32_t stack;
	uint16_t stream;
	uint8_t state;   /* enum snapshot_state */
	bool is_private; /* of a pool of its own */
	bool is_used;    /* the table's own: something is here */
};

/* Zero it before the first use. */
struct addressmap {
	struct addressmap_entry *entry; /* nr_slots of them; those that are not is_used are free */
	size_t nr, nr_slots;
};

/* The one at an address, NULL if there is none; valid until the next change. */
struct addressmap_entry *addressmap_find(const struct addressmap *m, uint64_t address);

/* It takes the place of one at its address. */
void addressmap_put(struct addressmap *m, struct addressmap_entry e);
void addressmap_remove(struct addressmap *m, uint64_t address);

/* All of them by address: addressmap's nr, to be freed. */
struct addressmap_entry *addressmap_sorted(const struct addressmap *m);
void addressmap_release(struct addressmap *m);

#endif
