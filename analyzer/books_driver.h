/* SPDX-License-Identifier: MIT */
/*
 * Inside the books: the changes that tensor and driver events have in common, and the functions behind
 * driver events. Only books.c and books_driver.c include this.
 */
#ifndef VT_BOOKS_DRIVER_H
#define VT_BOOKS_DRIVER_H

#include "analyzer/books.h"

/* The index of the event's device, GROUP_HOST if it names none. */
uint8_t books_device(const struct tfmt_event *ev);

/* The group an allocation belongs to, made if new; -1 when memory runs out. */
int64_t books_group(struct books *books, const struct tfmt_event *ev, bool tensor);

/*
 * A block comes onto the books, or leaves them: totals, peaks and marks. The table of blocks is the
 * caller's matter.
 */
void books_enter(struct books *books, const struct block *b, uint64_t time_ns);
void books_leave(struct books *books, const struct block *b);

/* One reference to a handle less; true if it was the last, which takes the handle's memory off the books. */
bool books_put(struct books *books, struct block *handle);

/* A range shows nothing any more; true if that was the last reference to its handle. */
bool books_unmap(struct books *books, struct block *mapping);

/* An address is handed out again without a recorded free: the old block is gone, whatever became of it. */
void books_forget_stale(struct books *books, uint8_t space, uint64_t address);

/* Reserved changes by a driver event of the framework's allocator. */
void books_reserved_add(struct device_books *d, int64_t bytes);

/*
 * Tensor events: the framework's reports, which tell what it has reserved (`reported`), or pool memory
 * that it takes from the driver for one tensor each.
 */
int books_tensor_alloc(struct books *books, const struct tfmt_event *ev, bool reported);
int books_tensor_free(struct books *books, const struct tfmt_event *ev, struct device_books *d,
		      bool reported);
int books_tensor_oom(struct books *books, const struct tfmt_event *ev, bool reported);

/* One function per kind of event; each returns 0 or TFMT_E_NOMEM. */
int books_driver_alloc(struct books *books, const struct tfmt_event *ev);
int books_driver_free(struct books *books, const struct tfmt_event *ev);
int books_driver_refused(struct books *books, const struct tfmt_event *ev);
int books_handle_retain(struct books *books, const struct tfmt_event *ev);
int books_range_map(struct books *books, const struct tfmt_event *ev);
int books_range_unmap(struct books *books, const struct tfmt_event *ev);
int books_free_failed(struct books *books, const struct tfmt_event *ev);

#endif
