/* SPDX-License-Identifier: MIT */
/*
 * PyTorch's caching allocator on one device, as a model: given requests and frees, it cuts, keeps, gives back and takes
 * memory as DeviceCachingAllocator of c10/cuda/CUDACachingAllocator.cpp does (read: 2.4, 2.8, 2.10; compared by running:
 * 2.11), under any settings and on a GPU of any size. No memory is involved.
 *
 * A block is known by its *slot*, a small number of the caller's that is free again with the block. *Private* is the number
 * of a pool apart, of a graph or a MemPool; 0 is the common one. A request or free costs some 100 ns; memory follows the
 * number of live and free blocks. Single-threaded.
 */
#ifndef VT_CACHINGMODEL_H
#define VT_CACHINGMODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/allocator/allocconf.h"

#define CACHINGMODEL_COMMON 0u

struct cachingmodel_request {
	uint64_t bytes;     /* as asked for */
	uint32_t slot;
	uint32_t private_id;
	uint16_t stream;
	bool capturing;     /* a graph is being captured: the cache may not be emptied for it */
	uint64_t segment;   /* where the driver put a segment taken now; 0: somewhere */
	uint64_t segment_bytes; /* how large that one was; used only if this one is as large */
};

struct cachingmodel_figures {
	uint64_t reserved, allocated; /* bytes */
	uint64_t peak_reserved, peak_allocated;
	uint64_t allocated_at_peak;   /* when peak_reserved was reached first */
	uint64_t takes, gives;        /* calls by which the driver gave or took back memory: a call for each page of expandable segments */
	uint64_t retries;             /* requests for which the cache was emptied */
};

struct cachingmodel;

/*
 * A model without any memory. capacity: bytes of the GPU, 0 = endless. To be given to cachingmodel_close(). Running out of
 * the analyzer's memory ends the process (base/heap.h).
 */
struct cachingmodel *cachingmodel_open(const struct allocconf *conf, uint64_t capacity);
void cachingmodel_close(struct cachingmodel *m); /* NULL: there is nothing to close */

/* Other settings from now on, as a program gives them that runs: what is there stays as it is. */
void cachingmodel_set_conf(struct cachingmodel *m, const struct allocconf *conf);

/* How much of the GPU others than this allocator have from now on, bytes. */
void cachingmodel_set_others(struct cachingmodel *m, uint64_t bytes);

/* Hand out a block; false: there is no memory for it, and nothing has been handed out. The slot is free before. */
bool cachingmodel_alloc(struct cachingmodel *m, const struct cachingmodel_request *r);

/*
 * The block of a slot is freed. pending: another stream may still use it; it is then no longer allocated, and free when
 * cachingmodel_complete() says so, or the cache is emptied. A slot without a block: nothing.
 */
void cachingmodel_free(struct cachingmodel *m, uint32_t slot, bool pending);
void cachingmodel_complete(struct cachingmodel *m, uint32_t slot);

/* torch.cuda.empty_cache(). */
void cachingmodel_empty_cache(struct cachingmodel *m);

/* Nobody uses a private pool any more: its memory may be given back, and is, as the cache has just been emptied. */
void cachingmodel_end_private(struct cachingmodel *m, uint32_t private_id);

/* Would a request be served from what is cached, as things stand? */
bool cachingmodel_is_cached(const struct cachingmodel *m, const struct cachingmodel_request *r);

/* Bytes that emptying the cache would give back, but for what waits for other streams. */
uint64_t cachingmodel_whole(const struct cachingmodel *m);

/* Valid until the next call. */
const struct cachingmodel_figures *cachingmodel_figures(const struct cachingmodel *m);

#endif
