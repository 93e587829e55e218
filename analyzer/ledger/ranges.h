/* SPDX-License-Identifier: MIT */
/*
 * ranges: the NVTX ranges that each event of a process lies in.
 *
 * A *path* is a list of ranges, outermost first: those of the process (they may end on another thread than they
 * began on), then those that the event's thread has entered. Paths are interned: one number per distinct path, 0
 * for none. PyTorch runs backward on threads of its own while the caller waits: what they do lies also in the
 * caller's ranges, as long as only one thread is in backward.
 */
#ifndef VT_RANGES_H
#define VT_RANGES_H

#include "analyzer/ledger/books.h"

struct range_node;
struct range_started;
struct range_thread;

struct ranges {
	const struct tfmt_reader *reader;
	struct ranges_figures figures;
	size_t domains_room;
	struct range_node *node; /* node i is path i + 1 */
	uint32_t nr_nodes;
	size_t nodes_room;
	uint32_t *slot; /* hash table of paths */
	uint32_t slots_room;
	struct range_thread *thread; /* by thread id */
	uint32_t nr_threads;
	struct range_started *started;
	uint32_t nr_started;
	size_t started_room;
	uint32_t caller; /* id + 1 of the one thread that waits for backward; 0 = none, or more than one */
	bool caller_known;
	uint32_t change; /* counts changes of anything that a path is made of */
};

void ranges_init(struct ranges *r, const struct tfmt_reader *reader);
void ranges_release(struct ranges *r);

/* Events are missing before the next: which ranges are open is not known any more. */
void ranges_damaged(struct ranges *r);

/* The path that an event lies in now; 0 = none. */
uint32_t ranges_path(struct ranges *r, const struct tfmt_event *ev);

/* How many ranges a path has, and its k-th, outermost first. */
uint32_t ranges_depth(const struct ranges *r, uint32_t path);
struct range ranges_of_path(const struct ranges *r, uint32_t path, uint32_t k);

/* All of them, outermost first; to be freed. NULL for path 0. */
struct range *ranges_list(const struct ranges *r, uint32_t path);

#endif
