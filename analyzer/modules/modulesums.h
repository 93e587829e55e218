/* SPDX-License-Identifier: MIT */
/* Memory by module: the blocks of a moment summed over the modules they were allocated in, down to a depth. */
#ifndef VT_MODULESUMS_H
#define VT_MODULESUMS_H

#include "analyzer/purpose/category.h"

struct module_sum {
	uint32_t path; /* 0 = in no module */
	bool by_class; /* some name of it is a class's, because no census tells another */
	uint64_t bytes, blocks;
	uint64_t category[NR_CATEGORIES];
};

struct modules {
	struct module_sum *sum; /* largest first */
	size_t nr_sums;
	uint32_t nr_common; /* modules at the beginning of all paths: 1 where there is one model, which paths leave out */
};
#define MODULES_INIT { 0 }

/*
 * Sum blocks over modules at most `depth` deep, counted from the model. The categories must have been found in a
 * recording loaded with modules, whose paths these are. To be released with modules_release().
 */
void modules_find(struct modules *m, const struct categories *c, const struct modulepaths *paths, uint32_t depth);
void modules_release(struct modules *m);

#endif
