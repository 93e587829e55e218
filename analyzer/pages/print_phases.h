/* SPDX-License-Identifier: MIT */
/* Steps of training and their phases: in which the memory peaks, and what each phase holds and leaves behind. */
#ifndef VT_PRINT_PHASES_H
#define VT_PRINT_PHASES_H

#include "analyzer/purpose/phasetable.h"
#include "analyzer/ui/emit.h"

/* The sentence that says in which phase and step the device's tensors peak. Returns its lines: 1, or 0 if none do. */
unsigned print_peak_phase(struct emit *e, const struct replay_device *d, const struct phasetable *t);

/* The table, one row for each phase that has allocated; on the first page without those that can tell little. Returns
 * its lines. */
unsigned print_phases(struct emit *e, const struct replay_device *d, const struct phasetable *t, bool whole);

/* As members of the device's object: peak_phase, peak_at_turn, peak_step, phases. */
void json_phases(struct emit *e, const struct replay_device *d, const struct phasetable *t);

/* An object of all categories: { "parameter": bytes, ... }. */
void json_category_sums(struct emit *e, const char *key, const struct category_sum *sum);

#endif
