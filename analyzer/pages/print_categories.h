/* SPDX-License-Identifier: MIT */
/* Categories, and the blocks that are of them, as tables (peak --by category, --by block). */
#ifndef VT_PRINT_CATEGORIES_H
#define VT_PRINT_CATEGORIES_H

#include "analyzer/purpose/category.h"
#include "analyzer/ui/emit.h"

/* One row for each category that has blocks, largest first; in JSON for all. */
void print_categories(struct emit *e, const struct categories *c);

/* One row for each block, largest first, at most `top` of them (0 = all). */
/* `moment` is that of the blocks: their names are of then. */
void print_blocks(struct emit *e, const struct replay_process *p, const struct categories *c, enum lives_moment moment,
		  uint64_t top);

#endif
