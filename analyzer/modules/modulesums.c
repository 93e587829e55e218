/* SPDX-License-Identifier: MIT */
/* Sums by module path. */
#include "analyzer/base/heap.h"
#include "analyzer/modules/modulesums.h"

#include <stdlib.h>

/* 1 if all blocks that are in a module are in the same outermost one, the model. */
static uint32_t common_modules(const struct categories *c, const struct modulepaths *paths)
{
	uint32_t common = 0;

	for (size_t i = 0; i < c->nr_blocks; i++) {
		uint32_t root = c->block[i].module ? modulepaths_ancestor(paths, c->block[i].module, 1) : 0;

		if (root && common && root != common)
			return 0;
		common = root ? root : common;
	}
	return common > 0;
}

static bool has_class_name(const struct modulepaths *paths, uint32_t path, uint32_t above)
{
	for (uint32_t depth = modulepaths_depth(paths, path); depth > above; depth--) {
		if (paths->path[path - 1].by_class)
			return true;
		path = paths->path[path - 1].parent;
	}
	return false;
}

static int by_bytes(const void *va, const void *vb)
{
	const struct module_sum *a = va, *b = vb;

	if (a->bytes != b->bytes)
		return a->bytes < b->bytes ? 1 : -1;
	return (a->path > b->path) - (a->path < b->path);
}

static void add(struct module_sum *s, const struct category_block *b)
{
	s->bytes += b->life.size;
	s->blocks++;
	s->category[b->category] += b->life.size;
}

void modules_find(struct modules *m, const struct categories *c, const struct modulepaths *paths, uint32_t depth)
{
	struct module_sum *sum = heap_alloc(paths->nr_paths + (size_t)1, sizeof(*sum)); /* by path */

	*m = (struct modules){ .sum = sum, .nr_common = common_modules(c, paths) };
	for (size_t i = 0; i < c->nr_blocks; i++) {
		uint32_t path = c->block[i].module ?
				    modulepaths_ancestor(paths, c->block[i].module, depth + m->nr_common) : 0;

		add(&sum[path], &c->block[i]);
		sum[path].path = path;
	}
	for (uint32_t i = 0; i <= paths->nr_paths; i++) {
		if (!sum[i].blocks)
			continue;
		sum[m->nr_sums] = sum[i];
		sum[m->nr_sums].by_class = has_class_name(paths, sum[i].path, m->nr_common);
		m->nr_sums++;
	}
	if (m->nr_sums)
		qsort(sum, m->nr_sums, sizeof(*sum), by_bytes);
}

void modules_release(struct modules *m)
{
	free(m->sum);
	*m = (struct modules)MODULES_INIT;
}
