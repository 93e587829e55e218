/* SPDX-License-Identifier: MIT */
/*
 * Arrays indexed by the ids of a trace: of stacks, code objects, threads. A recorder counts them up from 1; a trace that
 * is damaged, or made to do harm, may say any number, and must not make us allocate by it.
 */
#ifndef VT_IDTABLE_H
#define VT_IDTABLE_H

#include <stddef.h>
#include <stdint.h>

#include "tracefmt/tracefmt.h"

/*
 * Make room for row `id` in an array of *nr rows of `row_bytes` bytes; new ones are 0. Returns the array, moved or not;
 * id >= *nr afterwards says that there is no such row: far fewer ids were defined so far.
 */
void *idtable_grown(void *array, uint32_t *nr, uint32_t id, size_t row_bytes, const struct tfmt_reader *reader);

#endif
