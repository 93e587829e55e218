/* SPDX-License-Identifier: MIT */
/*
 * What the driver's hooks remember of objects between calls, in tables of fixed size: contexts, pools, and
 * graphs that allocate. Part of the recorder's state (interpose.h). A slot is taken by writing its handle,
 * which is what makes the rest of it valid; 0 is a free slot.
 */
#ifndef IP_DRIVER_STATE_H
#define IP_DRIVER_STATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "tracefmt/tracefmt.h"

#define IP_HANDLE_TAKEN 1u /* of a slot that is being filled in */

/* Contexts. Those beyond the table's room are recorded, but what is allocated in them is not known to be
 * theirs. */
#define IP_CONTEXTS_MAX 64u
struct ip_contexts {
	_Atomic uintptr_t
		primary[TFMT_NR_DEVICES]; /* 0 = not seen, IP_HANDLE_TAKEN = seen without its handle */
	_Atomic uint32_t last;            /* number of the latest that a program created */
	_Atomic bool any;                 /* the table below has been used */
	_Atomic uintptr_t handle[IP_CONTEXTS_MAX];
	uint32_t number[IP_CONTEXTS_MAX];
	uint8_t device[IP_CONTEXTS_MAX];
};

/* Where the memory of the pools lies that programs name. Beyond the table's room each allocation is asked. */
#define IP_POOLS_MAX 64u
struct ip_pools {
	_Atomic uintptr_t handle[IP_POOLS_MAX];
	_Atomic uint8_t space[IP_POOLS_MAX];
	_Atomic uint8_t device[IP_POOLS_MAX];
};

/*
 * Graphs with allocation nodes, the latest of them, and what was instantiated from such. Handles are aligned:
 * the lowest bit of one says that the graph has been instantiated, or what was instantiated launched.
 */
#define IP_GRAPHS_MAX 64u
#define IP_GRAPH_EXECS_MAX 256u
#define IP_GRAPH_USED 1u
struct ip_graphs {
	_Atomic bool any;      /* one was instantiated */
	_Atomic bool all;      /* there are more than the table holds */
	_Atomic bool captured; /* an allocation, since no capture was open */
	_Atomic uint32_t nr_graphs;
	_Atomic uintptr_t graph[IP_GRAPHS_MAX];
	_Atomic uintptr_t exec[IP_GRAPH_EXECS_MAX];
	_Atomic uint64_t devices; /* on which their nodes allocate, a bit each */
	_Atomic uint64_t reserved[TFMT_NR_DEVICES], used[TFMT_NR_DEVICES]; /* as last recorded */
	_Atomic uint64_t next_ns[TFMT_NR_DEVICES];                         /* when launches may ask again */
};

#endif
