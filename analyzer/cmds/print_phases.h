/* SPDX-License-Identifier: MIT */
/* Steps of training and their phases: in which the memory peaks, and what each phase holds and leaves behind. */
#ifndef VT_PRINT_PHASES_H
#define VT_PRINT_PHASES_H

#include "analyzer/model.h"
#include "analyzer/ui/emit.h"

/* The sentence that says in which phase and step the device's tensors peak. Returns its lines: 1, or 0 if none do. */
unsigned print_peak_phase(struct emit *e, const struct model_device *d);

/*
 * The table, one row for each phase that has allocated; on the first page without those that can tell little. Returns
 * its lines, or TFMT_E_NOMEM.
 */
int print_phases(struct emit *e, const struct model_device *d, bool whole);

/* As members of the device's object: steps, peak_phase, peak_step, phases. Returns 0 or TFMT_E_NOMEM. */
int json_phases(struct emit *e, const struct model_device *d);

#endif
