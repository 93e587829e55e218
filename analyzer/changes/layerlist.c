/* SPDX-License-Identifier: MIT */
/* Lists of layers, by the modules that activations were made in. */
#include "analyzer/changes/layerlist.h"

#include <stdio.h>
#include <string.h>

#define LAYERS_MAX 4096

static bool is_member(const struct layerlist *list, const struct modulepath *p)
{
	return p->indexed && p->parent == list->parent && p->by_class == list->by_class && p->name == list->name &&
	       p->call == list->call;
}

static struct layerlist *list_of(struct layerlist *list, size_t *nr, const struct modulepath *p, uint32_t depth)
{
	for (size_t i = 0; i < *nr; i++)
		if (is_member(&list[i], p))
			return &list[i];
	if (*nr == LAYERLISTS_MAX)
		return NULL;
	list[*nr] = (struct layerlist){ .parent = p->parent, .name = p->name, .by_class = p->by_class, .call = p->call, .depth = depth };
	return &list[(*nr)++];
}

size_t layerlists_find(struct layerlist *list, const struct jobpart *j, const struct modulepaths *paths)
{
	size_t nr = 0;

	for (size_t i = 0; i < j->blocks.nr_blocks; i++) {
		uint32_t path = j->blocks.block[i].module, depth = modulepaths_depth(paths, path);

		if (!jobpart_is_kept(j, i))
			continue;
		for (; path; path = paths->path[path - 1].parent, depth--) {
			const struct modulepath *p = &paths->path[path - 1];
			struct layerlist *of = NULL;

			if (p->indexed && p->index < LAYERS_MAX)
				of = list_of(list, &nr, p, depth);
			if (!of)
				continue;
			of->bytes += j->blocks.block[i].life.size;
			of->nr_layers = p->index >= of->nr_layers ? p->index + 1 : of->nr_layers;
		}
	}
	return nr;
}

void layerlist_members(const struct layerlist *list, const struct modulepaths *paths, int32_t *of)
{
	of[0] = -1;
	for (uint32_t path = 1; path <= paths->nr_paths; path++) {
		const struct modulepath *p = &paths->path[path - 1];

		of[path] = -1;
		if (is_member(list, p) && p->index < list->nr_layers)
			of[path] = (int32_t)p->index;
		else if (p->parent && p->parent < path)
			of[path] = of[p->parent];
	}
}

char *layerlist_name(char buf[static LAYERLIST_NAME_MAX], const char *name)
{
	snprintf(buf, LAYERLIST_NAME_MAX, "%s", *name ? name : "layers");
	return buf;
}
