/* SPDX-License-Identifier: MIT */
/*
 * The settings of PyTorch's allocator, PYTORCH_CUDA_ALLOC_CONF (or PYTORCH_ALLOC_CONF), as a version of PyTorch reads
 * them: which keys there are, which values they take, and what PyTorch says of others.
 *
 * Of PyTorch 2.0 to 2.11; the key per_process_memory_fraction is the setting of that name, not what a program sets by
 * torch.cuda.set_per_process_memory_fraction().
 */
#ifndef VT_ALLOCCONF_H
#define VT_ALLOCCONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A version of PyTorch as a number to compare. */
#define ALLOCCONF_VERSION(major, minor) ((major) * 1000u + (minor))
#define ALLOCCONF_NEWEST ALLOCCONF_VERSION(2u, 11u) /* what is known of; later ones are taken for this one */
#define ALLOCCONF_OLDEST ALLOCCONF_VERSION(2u, 0u)

enum allocconf_backend {
	ALLOCCONF_NATIVE,
	ALLOCCONF_ASYNC,     /* backend:cudaMallocAsync, a memory pool of the driver */
	ALLOCCONF_UNCACHED,  /* PYTORCH_NO_CUDA_MEMORY_CACHING=1: no setting, but the same choice */
};

#define ALLOCCONF_REQUEST_MAX (1ull << 46) /* bytes: no GPU has as much; a damaged recording may ask for more */
#define ALLOCCONF_INTERVALS 16 /* of roundup_power2_divisions: below 2 MiB, then by powers of two, from 32 GiB */

struct allocconf {
	unsigned version; /* ALLOCCONF_VERSION() */
	enum allocconf_backend backend;
	bool expandable;
	uint64_t max_split_bytes;         /* UINT64_MAX: unlimited */
	uint64_t unsplit_rounding_bytes;  /* a block that may not be split may be so much larger than the request */
	uint64_t large_segment_bytes;     /* a segment for requests between small and large, a page of large expandable ones */
	uint32_t divisions[ALLOCCONF_INTERVALS];
	double gc_threshold; /* 0: off */
	double fraction;     /* of the GPU that PyTorch may have; 1: no limit */
};

/* The settings of a version when nothing is set. */
struct allocconf allocconf_default(unsigned version);

/*
 * Read settings. NULL and "" are none. Returns false after writing what PyTorch would say, without its line's end, or
 * that a key came with a later version.
 */
bool allocconf_read(struct allocconf *c, const char *text, unsigned version, char *why, size_t size);

/*
 * Read settings that a program gives while it runs, on top of those in effect: max_split_size_mb, roundup_power2_divisions and
 * garbage_collection_threshold are PyTorch's own again if the text has none, from PyTorch 2.11 on max_non_split_rounding_mb as well; all others stay as they
 * are. As allocconf_read().
 */
bool allocconf_change(struct allocconf *c, const char *text, char *why, size_t size);

/* "2.11.0+cu130" and the like as a number; 0 if it is no version. */
unsigned allocconf_version(const char *torch);

/* A request as this allocator rounds it: the least that a block for it has. */
uint64_t allocconf_rounded(const struct allocconf *c, uint64_t bytes);

/* What is taken from the driver for a rounded request, when no segment is expandable. */
uint64_t allocconf_segment(const struct allocconf *c, uint64_t rounded);

#endif
