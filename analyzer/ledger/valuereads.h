/* SPDX-License-Identifier: MIT */
/*
 * Where the host read values that kernels of a simulated device would have computed: counted by stack. Memory
 * follows the number of distinct stacks, not of reads.
 */
#ifndef VT_VALUEREADS_H
#define VT_VALUEREADS_H

#include "analyzer/ledger/books.h"

/* Zero before first use. */
struct value_reads {
	struct value_read *read; /* in order of first read */
	uint32_t nr_reads, room;
	uint32_t *slot; /* hash table of indices + 1 */
	uint32_t slots_room;
};

/* Enter one TFMT_VALUE_READ event. */
void value_reads_add(struct value_reads *v, const struct tfmt_event *ev);
void value_reads_release(struct value_reads *v);

#endif
