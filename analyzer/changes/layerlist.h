/* SPDX-License-Identifier: MIT */
/*
 * Lists of layers: what modules have in common that are called one after another at one line (layers.0, layers.1, ...).
 * Its members are the layers.
 */
#ifndef VT_LAYERLIST_H
#define VT_LAYERLIST_H

#include "analyzer/changes/jobpart.h"

#define LAYERLISTS_MAX 64
#define LAYERLIST_NAME_MAX (32 + 1)

struct layerlist {
	uint32_t parent; /* path (modulepaths.h) of their owner */
	const char *name;
	bool by_class;
	uint32_t call; /* as struct modulepath has it */
	uint32_t depth;     /* of its members */
	uint64_t bytes;     /* activations */
	uint32_t nr_layers; /* the highest index and one */
};

/* Those that activations of the window were made in, at most LAYERLISTS_MAX. Returns how many. */
size_t layerlists_find(struct layerlist *list, const struct jobpart *j, const struct modulepaths *paths);

/* By path, 0 to paths->nr_paths: the layer that it lies in, -1 = in none. */
void layerlist_members(const struct layerlist *list, const struct modulepaths *paths, int32_t *of);

/* As much of a list's name as there is room for; "layers" if it is "". Returns buf. */
char *layerlist_name(char buf[static LAYERLIST_NAME_MAX], const char *name);

#endif
