/* SPDX-License-Identifier: MIT */
/* Sums of blocks by the pattern of their names. */
#include "analyzer/names/namegroups.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"

/* Names that are alike but hang elsewhere are two; where an nn.Module hangs does not matter. */
static struct namegroup *group_of(struct namegroups *g, const struct named *named, unsigned kind)
{
	const struct objectname *n = named ? &named->name : NULL;
	bool has_place = n && !n->of_module;
	struct textset_member *member;
	char key[2 * OBJECTNAME_MAX];

	if (n)
		snprintf(key, sizeof(key), "%s\n%s\n%.200s\n%.200s", n->pattern,
			 has_place ? objectname_roots[n->root] : "", has_place && n->function ? n->function : "",
			 has_place && n->file ? n->file : "");
	else
		snprintf(key, sizeof(key), "%u", kind);
	member = textset_add(&g->keys, 0, key, strlen(key));
	if (member->number > g->nr_groups) {
		g->group = heap_grow(g->group, &g->room, g->nr_groups + 1, sizeof(*g->group));
		g->group[g->nr_groups++] = (struct namegroup){ .is_named = n != NULL };
	}
	return &g->group[member->number - 1];
}

void namegroups_add(struct namegroups *g, const struct named *named, unsigned kind, uint64_t bytes, uint64_t blocks)
{
	struct namegroup *group = group_of(g, named, kind);

	if (named && (!group->blocks || bytes > group->largest_bytes)) {
		group->named = *named;
		group->largest_bytes = bytes;
	}
	if (named && named->nr_others > group->nr_others)
		group->nr_others = named->nr_others;
	group->has_unhooked |= named && named->nr_others && !named->is_all_hooked;
	group->bytes += bytes;
	group->blocks += blocks;
	group->shared += named && named->holders > 1 ? blocks : 0;
	group->renamed += named && named->nr_others ? blocks : 0;
	group->nodes += named ? named->nodes : 0;
	group->unseen_bytes += named && named->own_bytes && named->own_bytes < bytes ? bytes - named->own_bytes : 0;
	group->by_kind[kind % NAMEGROUPS_KINDS] += bytes;
	g->named_bytes += named ? bytes : 0;
}

static int by_size(const void *va, const void *vb)
{
	const struct namegroup *a = va, *b = vb;

	if (a->bytes != b->bytes)
		return a->bytes < b->bytes ? 1 : -1;
	if (a->is_named != b->is_named)
		return a->is_named ? -1 : 1;
	return a->is_named ? strcmp(a->named.name.pattern, b->named.name.pattern) :
			     (int)namegroup_kind(a) - (int)namegroup_kind(b);
}

void namegroups_sort(struct namegroups *g)
{
	if (g->nr_groups)
		qsort(g->group, g->nr_groups, sizeof(*g->group), by_size);
}

void namegroups_release(struct namegroups *g)
{
	textset_release(&g->keys);
	free(g->group);
	*g = (struct namegroups){ 0 };
}

bool namegroup_is_of_views(const struct namegroup *g)
{
	return g->unseen_bytes > g->bytes / 2;
}

bool namegroup_is_shared(const struct namegroup *g)
{
	return g->shared > g->blocks / 2;
}

bool namegroup_has_others(const struct namegroup *g)
{
	return g->renamed > g->blocks / 2;
}

const struct namegroup *namegroups_most(const struct namegroups *g)
{
	const struct namegroup *most = NULL;
	uint64_t bytes = 0;

	for (size_t i = 0; i < g->nr_groups; i++) {
		bytes += g->group[i].bytes;
		if (g->group[i].is_named && (!most || g->group[i].bytes > most->bytes))
			most = &g->group[i];
	}
	return most && most->bytes > bytes / 2 ? most : NULL;
}

const char *namegroup_text(const struct namegroup *g)
{
	if (!g->is_named)
		return NULL;
	return g->blocks == 1 ? g->named.name.text : g->named.name.pattern;
}

unsigned namegroup_kind(const struct namegroup *g)
{
	unsigned most = 0;

	for (unsigned i = 1; i < NAMEGROUPS_KINDS; i++)
		if (g->by_kind[i] > g->by_kind[most])
			most = i;
	return most;
}
