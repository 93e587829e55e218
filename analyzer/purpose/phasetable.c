/* SPDX-License-Identifier: MIT */
/* Judging the blocks at the peak of each phase, once. */
#include "analyzer/purpose/phasetable.h"

#include <string.h>

void phasetable_find(struct phasetable *t, const struct replay_device *d)
{
	const struct lives *lives = d->process->lives;
	const struct lives_device *of_device = lives->device[d->ordinal];

	*t = (struct phasetable){ .peak = lives_peak_phase(lives, d->ordinal) };
	for (int i = 0; of_device && i < NR_PHASES; i++) {
		const struct lives_at *at = &of_device->moment[LIVES_PEAK_OF_PHASE + i];
		struct categories c;

		if (!at->reached)
			continue;
		categories_find(&c, d->process, d->ordinal, (enum lives_moment)(LIVES_PEAK_OF_PHASE + i), at->bytes);
		t->row[i].at = at;
		memcpy(t->row[i].sum, c.sum, sizeof(c.sum));
		categories_release(&c);
	}
}
