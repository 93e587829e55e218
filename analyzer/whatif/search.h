/* SPDX-License-Identifier: MIT */
/*
 * Which settings `whatif --search` tries, and which of them is best: that of the smallest reserved peak, of equal ones that
 * with the fewest calls of the driver, of equal ones the first. A driver's pool is never best, as its figure is a lower
 * bound. Which GPUs `whatif --capacity unknown` tries: the known ones, the smallest first. Single-threaded.
 */
#ifndef VT_SEARCH_H
#define VT_SEARCH_H

#include "analyzer/whatif/whatif.h"

#define SEARCH_MAX 40

/* Settings that this version of PyTorch knows; PyTorch's own first. Returns how many. Their texts stay. */
size_t search_settings(struct whatif_setting settings[static SEARCH_MAX], unsigned version);

/* One setting on each GPU that simgpu has a profile of; name[i] is the profile of settings[i]. Returns how many. */
size_t search_gpus(struct whatif_setting settings[static SEARCH_MAX], const char *name[static SEARCH_MAX],
		   const struct whatif_setting *setting);

/* Of one setting on all devices of a recording. */
struct search_total {
	size_t setting;
	uint64_t peak_reserved; /* the largest of a device */
	uint64_t driver_calls, retries; /* of all */
	bool runs_out; /* on some device */
	bool is_bound; /* it may be more */
	bool is_refused; /* a version of PyTorch that ran does not take it: it is last */
};

/* Of the nth setting. */
struct search_total search_total(const struct whatif *w, size_t n);

/* The settings in order, the best first. Returns how many there are that PyTorch takes. */
size_t search_rank(const struct whatif *w, struct search_total total[static SEARCH_MAX]);

#endif
