/* SPDX-License-Identifier: MIT */
/* What a device's tensors were for at the peak of each phase of training; needs a replay that was loaded with lives. */
#ifndef VT_PHASETABLE_H
#define VT_PHASETABLE_H

#include "analyzer/purpose/category.h"

struct phasetable_row {
	const struct lives_at *at; /* the phase's peak; NULL: it has allocated nothing */
	struct category_sum sum[NR_CATEGORIES]; /* as struct categories has it */
};

struct phasetable {
	struct phasetable_row row[NR_PHASES];
	enum phase peak; /* in which the device's own peak lies; NR_PHASES: none, or it is not known */
};

/* There is nothing to release. */
void phasetable_find(struct phasetable *t, const struct replay_device *d);

#endif
