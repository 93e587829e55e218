/* SPDX-License-Identifier: MIT */
/*
 * What the blocks of a part of a job would have held together at most, with edits (whatif/edits.h): by bytes alone, as an
 * allocator that needs no more than it is asked for. Single-threaded.
 */
#ifndef VT_EDITPEAK_H
#define VT_EDITPEAK_H

#include "analyzer/changes/jobpart.h"
#include "analyzer/whatif/edits.h"

/*
 * The peak, with what is not known block by block and the request that failed (its edit is that of the part's end); no smaller
 * than a peak outside of the part. The edits are closed by it. A step that is of a block which is not there then does nothing.
 */
uint64_t editpeak(const struct jobpart *j, struct edits *e);

/* The same of edits that are released after it. */
uint64_t editpeak_once(const struct jobpart *j, struct edits *e);

#endif
