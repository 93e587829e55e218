/* SPDX-License-Identifier: MIT */
/* What the blocks of a part of a job would have held together at most, with edits (whatif/edits.h): by bytes alone. */
#ifndef VT_EDITPEAK_H
#define VT_EDITPEAK_H

#include "analyzer/changes/jobpart.h"
#include "analyzer/whatif/edits.h"

/*
 * The peak, with what is not known block by block and the request that failed; no smaller than a peak outside of the part.
 * Of edits the steps count, not the factors. They need not be closed.
 */
uint64_t editpeak(const struct jobpart *j, const struct edits *e);

#endif
