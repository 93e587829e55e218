/* SPDX-License-Identifier: MIT */
/* Inside the books: what they are made of. Only the ledger's own files include this. */
#ifndef VT_BOOKS_INSIDE_H
#define VT_BOOKS_INSIDE_H

#include "analyzer/ledger/blocks.h"
#include "analyzer/ledger/books_tracker.h"
#include "analyzer/ledger/communicators.h"
#include "analyzer/ledger/groups.h"
#include "analyzer/ledger/ranges.h"
#include "analyzer/ledger/residual.h"
#include "analyzer/ledger/valuereads.h"
#include "analyzer/stacks/mapping.h"

/* A device: what is handed out, and what is needed to enter the next event. */
struct device_ledger {
	uint32_t mark[NR_MARKS]; /* how many of each so far */
	bool unconfirmed_peak;   /* the reserved peak was reached by a driver event, the report is still to come */
	bool driver_peak_is_new; /* the tensor event after the driver's peak is still to come */
	uint32_t launched_graph; /* group + 1 of the latest launched graph that holds memory */
	uint64_t allocs_at_oom;  /* tensor_allocs at the latest failed tensor */
	struct device_books books;
	struct residual residual; /* what is in use beside the driver ledger */
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

struct books {
	const struct tfmt_reader *reader;
	struct mapping *mapping;
	uint64_t at_time_ns; /* MARK_TIME, CLOCK_MONOTONIC; UINT64_MAX = none */
	bool time_marked;

	struct device_ledger device[TFMT_NR_DEVICES + 1];
	struct host_books host;
	uint64_t teardown_events;  /* after the end of accounting */
	uint64_t unmatched_frees;  /* of blocks whose allocation was not recorded */

	struct told_threads told_threads;
	uint8_t phase; /* the caller's, of the event being entered; it is noted in groups that are new */
	struct groups groups;
	uint32_t *latest; /* by Python stack: index + 1 of the tensors' group that appeared last */
	uint32_t nr_latest;
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
	bool is_calm;      /* see books_is_calm() */
	bool past_entered; /* of a flight recorder's trace: what was in effect when it begins is in the books */
};

#endif
