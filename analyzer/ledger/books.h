/* SPDX-License-Identifier: MIT */
/*
 * The books of one process, kept while its events pass by once.
 *
 * The *tensor ledger* of a device holds the blocks that the framework's caching allocator handed out, the
 * *driver ledger* the memory that the process took from the driver; both are groups of blocks alike (same
 * stack, shape, entry point). Memory follows the number of live blocks and of distinct groups, never the
 * number of events.
 */
#ifndef VT_BOOKS_H
#define VT_BOOKS_H

#include "analyzer/ledger/blocks.h"
#include "analyzer/ledger/books_tracker.h"
#include "analyzer/ledger/communicators.h"
#include "analyzer/ledger/groups.h"
#include "analyzer/ledger/ranges.h"
#include "analyzer/ledger/residual.h"
#include "analyzer/ledger/unhooked.h"
#include "analyzer/ledger/valuereads.h"
#include "analyzer/stacks/mapping.h"
#include "analyzer/stacks/owner.h"
#include "tracefmt/tracefmt.h"

/* The device's totals at a mark. */
struct books_moment {
	bool reached;
	uint64_t time_ns; /* CLOCK_MONOTONIC of the traced machine */
	uint64_t allocated_bytes, reserved_bytes, driver_bytes;
};

struct device_books {
	bool present; /* some event names it */

	uint64_t tensor_allocs, tensor_frees, tensor_ooms;
	uint64_t allocated_bytes, allocated_peak_bytes;
	uint64_t requested_bytes, requested_peak_bytes;
	bool has_unshaped; /* some block's shape is unknown: what was requested is then not known exactly */
	uint64_t oom_asked_bytes; /* the latest failed request */
	uint64_t allocs_at_oom;   /* tensor_allocs at the latest failed tensor */
	bool is_beside_refused;   /* the driver's latest refusal was of others than the framework, and is a failure */
	uint64_t pool_refused_bytes;  /* what a pool has just refused the framework; 0 = nothing */
	uint32_t pool_refused_thread; /* the thread that a pool refused it on */

	uint64_t reserved_bytes, reserved_peak_bytes;
	uint64_t allocated_at_reserved_peak_bytes;
	uint64_t disagreements; /* reports that differ from the driver events since the report before */
	bool reported;          /* the framework has reported what it has reserved at least once */
	bool unconfirmed_peak; /* the reserved peak was reached by a driver event, the report is still to come
				*/

	uint64_t driver_allocs, driver_frees, driver_refusals;
	uint32_t launched_graph; /* group + 1 of the latest launched graph that holds memory */
	uint64_t driver_bytes, driver_peak_bytes;
	uint64_t refused_bytes; /* the latest refused request */

	struct residual residual; /* what is in use beside the driver ledger */
	/* Of the driver's peak: by the tensor event that follows, for which the memory was taken. */
	uint64_t allocated_at_driver_peak_bytes;
	bool driver_peak_is_new; /* that tensor event is still to come */

	/* After damage: the total may be too high, and makes no peak, until a frame's header tells it. */
	bool allocated_unsure, driver_unsure;
	bool reserved_unsure; /* the driver gave or took what may be the framework's, and it has not reported since */
	bool context_missed; /* its modelled context may be missing: what headers say of the driver includes it */

	struct told_books told; /* by the framework's allocator itself */

	struct books_moment moment[NR_MARKS];
	uint32_t mark[NR_MARKS]; /* how many of each so far */
};

/* What one thread freed last, in case the driver refuses the free. */
struct undo;

/* Events that are missing (books_damage.c). */
struct books_damage {
	bool any;
	bool is_new;   /* no event was entered since */
	bool stale;    /* the event being entered is at the address of a block that was freed unseen */
	uint64_t read; /* bytes of the trace read so far: changes with each frame */
	bool known;    /* if is_new: the reader knows what is live before the next event */
	struct tfmt_totals totals; /* what is live then */
};

/*
 * Somebody who follows tensor blocks, and is told what the books make of an event while they enter it. The books keep a
 * number of the listener's with each block; nothing else that it does comes back to them. All is said of the event that
 * books_apply() was called with, but for note_past() and what is_over tells; `device` is an ordinal, or GROUP_HOST.
 * None of these may change the books.
 */
struct books_listener {
	void *ctx; /* that all are called with */

	/*
	 * This event's block, of a group by its index, has come onto the books; with it so much is allocated on the device,
	 * 0 where that is not sure. Returns the listener's number, 0 = none.
	 */
	uint64_t (*begin_block)(void *ctx, const struct tfmt_event *ev, uint8_t device, uint32_t group,
				uint64_t allocated_bytes);

	/* The block with this number leaves the books. */
	void (*end_block)(void *ctx, uint64_t number);

	/* So much is allocated on the device, and that is sure: more than before, by bytes that are of no block. */
	void (*note_total)(void *ctx, uint8_t device, uint64_t allocated_bytes);

	/* MARK_OOM: the event is a failed request that counts. MARK_TIME: it lies before the event, or after the last. */
	void (*note_mark)(void *ctx, uint8_t device, enum group_mark mark, bool is_over);

	/* books_past(): what was entered so far was live when the recording began to be kept; the peak before. */
	void (*note_past)(void *ctx, uint8_t device, uint64_t allocated_peak_bytes);
};

struct books {
	const struct tfmt_reader *reader;
	struct mapping *mapping;
	uint64_t at_time_ns; /* MARK_TIME, CLOCK_MONOTONIC; UINT64_MAX = none */
	bool time_marked;

	struct device_books device[TFMT_NR_DEVICES + 1];
	uint64_t pinned_bytes, pinned_peak_bytes;
	uint64_t managed_bytes, managed_peak_bytes;
	uint64_t teardown_events;  /* after the end of accounting */
	uint64_t unmatched_frees;  /* of blocks whose allocation was not recorded */

	struct told_threads told_threads;
	uint8_t phase; /* the caller's, of the event being entered; it is noted in groups that are new */
	struct groups groups;
	struct ranges ranges;
	struct groups by_range; /* device memory once more, by range: see books_range.h */
	struct blocks blocks;
	const struct books_listener *listener; /* the caller's; NULL: there is none */
	struct owner_cache owners;
	struct communicators communicators; /* that were made, NCCL's */
	struct value_reads value_reads;
	struct unhooked unhooked;
	struct undo *undo; /* by thread id */
	uint32_t nr_undos;
	struct books_damage damage;
	bool past_untold;  /* nobody counted the tensors before the kept part: they come from the driver's pools */
	bool is_calm;      /* nothing is missing, no moment is waited for, and the past is entered */
	bool past_entered; /* of a flight recorder's trace: what was in effect when it begins is in the books */
};

void books_init(struct books *books, const struct tfmt_reader *reader, struct mapping *mapping);
void books_release(struct books *books);

/*
 * Enter one event. `phase` is noted in groups that are new with it (group.phase), and has no other meaning here.
 * Events of teardown count in no figure.
 */
void books_apply(struct books *books, const struct tfmt_event *ev, uint8_t phase);

/*
 * Is it one of the events that nearly all are: of a tensor, while nothing is missing and no moment is waited for? Such may
 * be entered by books_apply_plain() as well, which is quicker.
 */
static inline bool books_is_plain(const struct books *books, const struct tfmt_event *ev)
{
	bool is_tensor = ev->kind == TFMT_TENSOR_ALLOC || ev->kind == TFMT_TENSOR_FREE;

	return is_tensor && books->is_calm && !ev->before && !(ev->flags & TFMT_FLAG_TEARDOWN);
}

void books_apply_plain(struct books *books, const struct tfmt_event *ev, uint8_t phase);

/*
 * What a flight recorder dropped has come to this, after its last event (tfmt_event.before), or, without more events,
 * at the end: figures of the whole job take the place of those of the blocks that were entered. Who held memory at a
 * peak before is not known: all of it is in a group of its own (group.before). Does nothing after the first call.
 */
void books_past(struct books *books, const struct tfmt_figures *f);

/*
 * Does a call that took memory, or gave it back, stand for a tensor? PyTorch takes memory of the driver's pools only with
 * backend:cudaMallocAsync: one piece for each tensor, and nothing is reported to the profiler then. While it captures a
 * graph the pieces are the graph's.
 */
bool books_is_pooled_tensor(struct books *books, const struct tfmt_event *ev);

/*
 * The reader has reported damage: totals go on from what the next header tells, and the difference to what is known
 * block by block is in groups of its own (group.unrecorded).
 */
void books_damaged(struct books *books);

/*
 * After the last event, which was at `time_ns`: totals become what the end of the trace says, at[] of every group is
 * valid.
 */
void books_settle(struct books *books, uint64_t time_ns);

/* Who called the driver, by native stack; answers are kept. */
struct owner_answer books_owner(struct books *books, uint32_t native_stack);

/* Whose memory a group of the driver ledger is. */
enum owner books_group_owner(struct books *books, const struct group *g);

#endif
