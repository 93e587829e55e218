/* SPDX-License-Identifier: MIT */
/*
 * Fragmentation: how much of what PyTorch has reserved is cached, how much of that is stuck between live blocks, when
 * that did harm, and which blocks were the reason.
 *
 * *Stuck* is cached memory that the allocator could not even give back: free, in segments (of expandable ones: in
 * pages) that some live block keeps. Of ordinary segments it is PyTorch's `inactive_split_bytes`. Harm is a
 * request that failed, or for which the cache was emptied (a retry), or for which a segment was taken from the
 * driver, while the request's own pool (stream, small or large blocks, a graph's private one) had as many bytes
 * free.
 */
#ifndef VT_FRAG_H
#define VT_FRAG_H

#include <assert.h>

#include "analyzer/allocator/allocator_thresholds.h"
#include "analyzer/allocator/blockers.h"
#include "analyzer/allocator/expandable.h"
#include "analyzer/allocator/segments.h"
#include "analyzer/ledger/series.h"
#include "analyzer/replay/replay.h"

/* What a device's allocator had at one moment, bytes. */
struct frag_figures {
	uint64_t time_ns; /* on the recording's clock */
	uint64_t reserved, allocated;
	uint64_t cached;    /* the rest of reserved */
	uint64_t pending;   /* of cached: freed, but maybe still in use by another stream */
	uint64_t stuck;     /* of cached: see above */
	uint64_t held;	    /* of cached: wholly free, but a CUDA graph's own */
	uint64_t empty_cache; /* of cached: what torch.cuda.empty_cache() would return */
	uint64_t split;	    /* PyTorch's inactive_split_bytes */
	uint64_t largest_free;
	uint64_t requested, known; /* bytes asked for, of so many allocated and pending ones for which it is known */
	uint64_t forced;    /* in segments that were taken while so much was stuck */
	uint64_t slack;	    /* what one segment per pool may leave unused */
	uint32_t segments;
};

enum frag_harm { FRAG_FAILED, FRAG_RETRY, FRAG_SEGMENT, NR_FRAG_HARMS };

/* All cases of one kind of harm; the figures are of the worst. */
struct frag_cases {
	uint64_t count;
	uint64_t asked;	       /* bytes of the request */
	uint64_t free_bytes;   /* in its pool */
	uint64_t largest_free; /* the largest block there */
	uint64_t time_ns;
	uint32_t python_stack, native_stack;
};

struct frag_moment {
	bool reached;
	struct frag_figures figures;
	struct blockers_moment blocks;
};

enum frag_when { FRAG_PEAK, FRAG_FAILURE, FRAG_END, NR_FRAG_MOMENTS };

/* The values of a device's series. */
enum { FRAG_RESERVED, FRAG_ALLOCATED, FRAG_CACHED, FRAG_STUCK, FRAG_LARGEST, NR_FRAG_VALUES };
static_assert(NR_FRAG_VALUES <= SERIES_VALUES, "a series has room for them");

/* Freed memory that one thread is about to empty the cache for. */
struct frag_shortage {
	uint32_t thread;
	uint32_t nr_pools;
	struct segments_pool *pool;
	uint64_t *largest;
};

struct frag_device {
	const struct replay_process *process;
	uint32_t ordinal;
	const struct device_books *books; /* its own */
	struct segments segments;
	struct expandable expandable; /* the same requests with that setting */
	uint64_t expandable_kept;     /* what it could not have given back at the latest failure in FRAG_FAILED */
	uint64_t failed_ns, failed_kept; /* the time of the latest failure at all, and those bytes at it */
	struct frag_moment moment[NR_FRAG_MOMENTS];
	struct frag_cases harm[NR_FRAG_HARMS];
	uint64_t failures;    /* requests that failed, for whatever reason */
	uint64_t disagreements; /* reports whose reserved bytes are not those of the segments known */
	bool has_failed;      /* since the cache was last emptied for a request */
	uint64_t told_address, told_bytes, completed_address; /* by the allocator, just now */
	bool was_capturing;
	uint32_t private_id;  /* of the graph being captured, of the latest one */
	bool graphs_share;    /* as struct frag_cached has it */
	struct frag_shortage *shortage; /* of few threads */
	uint32_t nr_shortages;
	size_t shortages_room;
};

struct frag {
	struct frag_device **device;
	size_t nr_devices, devices_room;
	struct series series; /* FRAG_RESERVED and so on, of all devices */
};

void frag_init(struct frag *f);
void frag_release(struct frag *f);

/* A struct replay_options observer; ctx is the struct frag. */
void frag_observe(void *ctx, const struct replay_process *process, const struct tfmt_event *ev, uint64_t time_ns);

/* After the last event: take down the end. */
void frag_finish(struct frag *f);

/* What is known of a device of the replay; NULL if its allocator did nothing. */
struct frag_device *frag_of(const struct frag *f, const struct replay_device *d);

/* What is cached, as things stand. */
struct frag_cached {
	uint64_t largest;   /* block that a request of more than TORCH_SMALL_MAX bytes could have, outside of graphs' own pools */
	uint64_t of_graphs; /* in segments that are wholly free, and private to CUDA graphs */
	bool graphs_share;  /* one graph's capture has used what another's had reserved: they have a pool in common */
};

/* For a request on a stream. */
struct frag_cached frag_cached(const struct frag *f, const struct replay_process *process, uint32_t ordinal, uint16_t stream);

/* Are its segments expandable already? Then there is no other way to compare them with. */
bool frag_is_expandable(const struct frag_device *d);

/*
 * Bytes by which segments that were taken while so much was stuck have made the reserved peak larger than it had to be.
 * What was stuck then and found use later has not; nor has what PyTorch could have given back in exchange, as it does
 * before a request fails: segments that are wholly free at the peak, such as batches of other lengths leave.
 */
uint64_t frag_forced_bytes(const struct frag_device *d);

/* Bytes by which the reserved peak would have been smaller with expandable segments. */
uint64_t frag_saved_by_growing(const struct frag_device *d);

/* Was the memory of a GPU scarce, by the reserved bytes at their peak? A capacity of 0, which is not known, is taken for scarce. */
bool frag_is_scarce(uint64_t reserved, uint64_t capacity);

/* Is this harm a finding? Of segments that were taken, if they have made the peak so much larger. */
bool frag_is_finding(const struct frag_device *d, enum frag_harm harm);

/* Was more than FRAG_STUCK_SHARE stuck at the reserved peak, beside what one segment per pool leaves unused? */
bool frag_is_stuck(const struct frag_device *d);

#endif
