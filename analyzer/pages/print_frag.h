/* SPDX-License-Identifier: MIT */
/* Fragmentation as `frag` shows it: a page per device in text, everything in JSON, the series in CSV. */
#ifndef VT_PRINT_FRAG_H
#define VT_PRINT_FRAG_H

#include "analyzer/allocator/frag.h"
#include "analyzer/ui/emit.h"

/* A device with what was found of it, ready to print. */
struct frag_view {
	const struct replay *m;
	const struct replay_device *device;
	const struct frag *frag;
	struct frag_device *d; /* NULL: its allocator did nothing */
	struct blockers blockers[NR_FRAG_MOMENTS];
	uint64_t top; /* blockers at most; 0 = all */
};

/* How many findings there are. */
unsigned frag_view_findings(const struct frag_view *v);

void print_frag_text(struct emit *e, const struct frag_view *v);

/* The members of the device's object in JSON, but for "points"; its findings, into an array that is open. */
void json_frag(struct emit *e, const struct frag_view *v);
void json_frag_findings(struct emit *e, const struct frag_view *v);

#endif
