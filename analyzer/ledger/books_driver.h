/* SPDX-License-Identifier: MIT */
/*
 * Inside the books: the changes that tensor and driver events have in common, and the functions for
 * driver events. Only the books' own files include this.
 */
#ifndef VT_BOOKS_DRIVER_H
#define VT_BOOKS_DRIVER_H

#include "analyzer/ledger/books_inside.h"

/* The index of the event's device, GROUP_HOST if it names none. */
static inline uint8_t event_device(const struct tfmt_event *ev)
{
	return ev->device < TFMT_NR_DEVICES ? ev->device : GROUP_HOST;
}

/* A moment of the device has come: its totals, and from here on its groups' figures, are kept. */
void books_mark(struct device_ledger *d, enum group_mark which, uint64_t time_ns);

/* The group an allocation belongs to, made if new. */
uint32_t books_group_of(struct books *books, const struct tfmt_event *ev, bool tensor);

/* Likewise, of what is reserved for graphs that were made at the event's place. */
uint32_t books_group_graphs(struct books *books, const struct tfmt_event *ev);

/*
 * A block comes onto the books, or leaves them: totals, peaks and marks. The table of blocks is the
 * caller's matter.
 */
void books_enter(struct books *books, const struct block *b, uint64_t time_ns);
void books_leave(struct books *books, const struct block *b);

/* A total of a device changes by `bytes` that belong to no block that is known. */
void books_adjust(struct books *books, uint8_t device, bool tensor, int64_t bytes, uint64_t time_ns);

/* After damage, before and after each event that counts (books_damage.c). */
void books_damage_before(struct books *books, uint64_t time_ns);
void books_damage_after(struct books *books, const struct tfmt_event *ev);

/* After the last event of a trace that has none of teardown. */
void books_damage_settle(struct books *books, uint64_t time_ns);

/* A block that is found to have been freed unseen has left the books: the totals have known it before. */
void books_damage_stale(struct books *books, const struct block *stale);

/* A free after damage whose block is not known. */
void books_damage_unmatched(struct books *books, uint8_t device, bool tensor);

/* A range shows nothing any more: one reference less to its handle. */
void books_unmap(struct books *books, struct block *mapping);

/* An address is handed out again without a recorded free: the old block is gone, whatever became of it. */
void books_forget_stale(struct books *books, uint8_t space, uint64_t address);

/* Reserved changes by a driver event of the framework's allocator. */
void books_reserved_add(struct device_ledger *d, int64_t bytes);

/*
 * Tensor events: the framework's reports, which tell what it has reserved (`reported`), or pool memory
 * that it takes from the driver for one tensor each.
 */
void books_tensor_alloc(struct books *books, const struct tfmt_event *ev, bool reported);
void books_tensor_free(struct books *books, const struct tfmt_event *ev, struct device_ledger *d,
		      bool reported);
void books_tensor_copy(struct books *books, const struct tfmt_event *ev); /* onto what may be a tensor */
void books_tensor_oom(struct books *books, const struct tfmt_event *ev, bool reported);

/* A block comes to its group, or leaves it (bytes and blocks are negative). */
static inline void books_group_add(struct group *g, const struct device_ledger *d, uint64_t bytes, uint64_t blocks)
{
	group_keep_marks(g, d->mark);
	g->live.bytes += bytes;
	g->live.blocks += blocks;
}

/* A tensor's block, of group g and device d, comes onto the books or leaves them; as books_enter() and books_leave(). */
void books_tensor_enter(struct books *books, struct device_ledger *d, struct group *g, const struct block *b);
void books_tensor_leave(struct books *books, struct device_ledger *d, struct group *g, const struct block *b);

/* The most that tensors have held, if this is it. */
void books_tensor_peak(struct books *books, struct device_ledger *d, uint64_t time_ns);

/* One function per kind of event. */
void books_driver_alloc(struct books *books, const struct tfmt_event *ev);
void books_driver_free(struct books *books, const struct tfmt_event *ev);
void books_driver_refused(struct books *books, const struct tfmt_event *ev);
void books_handle_retain(struct books *books, const struct tfmt_event *ev);
void books_range_map(struct books *books, const struct tfmt_event *ev);
void books_range_unmap(struct books *books, const struct tfmt_event *ev);
void books_free_failed(struct books *books, const struct tfmt_event *ev);

void books_undo_release(struct books *books);

/* Graphs that hold memory, and what the driver has reserved for them (books_graph.c). */
void books_graph_new(struct books *books, const struct tfmt_event *ev);
void books_graph_gone(struct books *books, const struct tfmt_event *ev);
void books_graph_launch(struct books *books, const struct tfmt_event *ev);
void books_graph_reserved(struct books *books, const struct tfmt_event *ev);

#endif
