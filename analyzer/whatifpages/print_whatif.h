/* SPDX-License-Identifier: MIT */
/* What `whatif` prints of one setting, and of a search. */
#ifndef VT_PRINT_WHATIF_H
#define VT_PRINT_WHATIF_H

#include "analyzer/changes/changes.h"
#include "analyzer/ui/emit.h"
#include "analyzer/whatif/search.h"
#include "analyzer/whatif/whatif.h"

/* One setting on one device: the first of what was tried; the second, if there is one, has the least requests. */
struct whatif_view {
	const struct replay *m;
	const struct replay_device *device;
	const struct whatif_device *d;
	const char *conf;  /* as asked for; NULL: the recorded ones */
	bool is_uncached;
	uint64_t times_given; /* whatif_times_given() */
	bool is_changed; /* other code's requests were served */
	bool has_ideal;    /* somebody who knows how long blocks live needs so many bytes for them */
	uint64_t ideal_bytes;
	const struct series *series; /* of figures over time; NULL: none */
	uint32_t nr_points;
	const struct torchengine *torch; /* what PyTorch's own allocator has served; NULL: it was not asked */
};

/* "conf", "torch" and so on of the top object; in text, the first line. */
void print_whatif_setting(struct emit *e, const struct whatif_view *v);

/* The array "changes": what other code is asked about, and how much of the job that is; in text, a line each. */
void print_whatif_changes(struct emit *e, const struct changes *c);

/* An object of the array "devices"; in text, a block. */
void print_whatif_device(struct emit *e, const struct whatif_view *v);

/*
 * The `nr` settings of a search that PyTorch takes, the best first, and what was recorded: "best" and an array "settings", in text a sentence and a
 * table of the first `top`.
 */
void print_whatif_search(struct emit *e, const struct whatif *w, const struct search_total *total, size_t nr, uint64_t top);

/*
 * GPUs by name, the smallest first, that one setting was tried on: "smallest" and an array "gpus", in text a sentence and a
 * table.
 */
void print_whatif_gpus(struct emit *e, const struct whatif *w, const char *const *name);

#endif
