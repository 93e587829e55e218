/* SPDX-License-Identifier: MIT */
/* Advice about lists of layers. */
#ifndef VT_ADVICE_LISTS_H
#define VT_ADVICE_LISTS_H

#include "analyzer/advice/advice_job.h"
#include "analyzer/changes/layerspans.h"

/*
 * Advice about the list that saves most, of those whose activations take at least `bytes` and of which more layers ran
 * than are there at a time anyway. `advise` fills after_bytes and the texts for one list, or returns false.
 */
bool advice_best_list(const struct jobpart *j, struct advice *a, uint64_t bytes,
		      bool (*advise)(const struct layerspans *l, struct advice *a));

#endif
