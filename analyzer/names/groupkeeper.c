/* SPDX-License-Identifier: MIT */
#include "analyzer/names/groupkeeper.h"

#include <string.h>

#include "analyzer/names/objectway.h"

bool groupkeeper_nearest(struct keeper *k, struct keeper *next, const struct namegroup *g)
{
	struct keeper two[2] = { 0 };
	uint32_t nr = g->is_named ? objectname_keepers(two, 2, g->named.census->census, g->named.object) : 0;

	*k = two[0];
	*next = two[1];
	return nr > 0;
}

static bool has_entries(uint8_t kind)
{
	return kind == TFMT_KIND_LIST || kind == TFMT_KIND_DEQUE || kind == TFMT_KIND_DICT || kind == TFMT_KIND_SET;
}

bool keeper_has_entries(const struct keeper *k)
{
	return has_entries(k->kind);
}

/* Is it an entry of the other one, without an object between them? */
static bool is_entry_of(const struct keeper *k, const struct keeper *of)
{
	size_t len = strlen(of->name.pattern);

	return keeper_has_entries(k) && !strncmp(k->name.pattern, of->name.pattern, len) && !strcmp(k->name.pattern + len, "[*]");
}

/* Lists in a list have as many as all of them together. */
bool groupkeeper_container(struct keeper *k, const struct namegroup *g)
{
	struct keeper all[GROUPKEEPER_MOST];
	uint32_t nr = g->blocks > 1 ? objectname_keepers(all, GROUPKEEPER_MOST, g->named.census->census, g->named.object) : 0;
	double entries = 1; /* of the container, and of those in it */

	for (uint32_t i = 0; i < nr; i++) {
		if (!keeper_has_entries(&all[i]))
			continue;
		entries = (double)all[i].length * (i && is_entry_of(&all[i - 1], &all[i]) ? entries : 1);
		if (2 * entries < (double)g->blocks || strchr(all[i].name.pattern, '*'))
			continue;
		*k = all[i];
		return true;
	}
	return false;
}

bool groupkeeper_around(struct keeper *k, const struct namegroup *g, uint8_t kind)
{
	struct keeper all[GROUPKEEPER_MOST];
	uint32_t nr = g->is_named ? objectname_keepers(all, GROUPKEEPER_MOST, g->named.census->census, g->named.object) : 0;
	bool is_after = false;

	for (uint32_t i = 0; i < nr; i++) {
		if (is_after && keeper_has_entries(&all[i]) && !strchr(all[i].name.pattern, '*')) {
			*k = all[i];
			return true;
		}
		is_after |= all[i].kind == kind;
	}
	return false;
}

static bool first_that_grew(struct keeper *k, const struct keeper *all, uint32_t nr, const struct names *names)
{
	for (uint32_t i = 0; i < nr; i++) {
		if (!keeper_has_entries(&all[i]) || names_growth_of(names, &all[i], 0) != NAMES_GREW)
			continue;
		*k = all[i];
		return true;
	}
	return false;
}

bool groupkeeper_growing(struct keeper *k, const struct namegroup *g)
{
	struct keeper all[GROUPKEEPER_MOST];
	uint32_t nr = g->is_named && g->blocks > 1 ?
			      objectname_keepers(all, GROUPKEEPER_MOST, g->named.census->census, g->named.object) : 0;

	return nr && first_that_grew(k, all, nr, g->named.census->all);
}

bool groupkeeper_growing_module(struct keeper *k, const struct namegroup *g)
{
	struct keeper all[GROUPKEEPER_MOST];
	uint32_t nr = g->is_named ? objectname_own_dicts(all, GROUPKEEPER_MOST, g->named.census->census, g->named.object) : 0;

	return nr && first_that_grew(k, all, nr, g->named.census->all);
}

/* Is the group in the container of this name? */
static bool is_in(const struct namegroup *g, const char *container)
{
	struct keeper all[GROUPKEEPER_MOST];
	uint32_t nr = g->is_named ? objectname_keepers(all, GROUPKEEPER_MOST, g->named.census->census, g->named.object) : 0;

	for (uint32_t i = 0; i < nr; i++)
		if (keeper_has_entries(&all[i]) && !strcmp(all[i].name.text, container))
			return true;
	return false;
}

static const struct namegroup *largest_named(const struct namegroups *g)
{
	const struct namegroup *largest = NULL;

	for (size_t i = 0; i < g->nr_groups; i++)
		if (g->group[i].is_named && (!largest || g->group[i].bytes > largest->bytes))
			largest = &g->group[i];
	return largest;
}

const struct namegroup *groupkeeper_most(const struct namegroups *g, uint64_t *bytes)
{
	const struct namegroup *largest = largest_named(g);
	struct keeper k;
	uint64_t all = 0, in = 0;

	if (!largest || !groupkeeper_growing(&k, largest))
		return NULL;
	for (size_t i = 0; i < g->nr_groups; i++) {
		all += g->group[i].bytes;
		in += is_in(&g->group[i], k.name.text) ? g->group[i].bytes : 0;
	}
	if (in <= all / 2)
		return NULL;
	*bytes = in;
	return largest;
}

/* Which of some keepers, by their names, leads to a group as well: the nearest of them; `nr`: none. */
static uint32_t common_keeper(const struct keeper *k, uint32_t nr, const struct namegroup *g)
{
	struct keeper all[GROUPKEEPER_MOST];
	uint32_t nr_all = g->is_named ? objectname_keepers(all, GROUPKEEPER_MOST, g->named.census->census, g->named.object) : 0;

	for (uint32_t i = 0; i < nr; i++)
		for (uint32_t j = 0; j < nr_all; j++)
			if (!strcmp(all[j].name.pattern, k[i].name.pattern))
				return i;
	return nr;
}

const struct namegroup *groupkeeper_alike(const struct namegroups *g, uint64_t *bytes, uint64_t *unseen)
{
	const struct namegroup *largest = largest_named(g);
	uint64_t all = 0, by[GROUPKEEPER_MOST + 1] = { 0 }, unseen_by[GROUPKEEPER_MOST + 1] = { 0 };
	struct keeper k[GROUPKEEPER_MOST];
	uint32_t nr, common;

	*bytes = *unseen = 0;
	if (!largest)
		return NULL;
	nr = objectname_keepers(k, GROUPKEEPER_MOST, largest->named.census->census, largest->named.object);
	for (size_t i = 0; i < g->nr_groups; i++) {
		all += g->group[i].bytes;
		common = common_keeper(k, nr, &g->group[i]);
		by[common] += g->group[i].bytes;
		unseen_by[common] += g->group[i].unseen_bytes;
	}
	/* What a nearer keeper leads to, those around it do as well. */
	for (uint32_t i = 0; i < nr; i++) {
		*bytes += by[i];
		*unseen += unseen_by[i];
		if (*bytes > all / 2)
			return largest;
	}
	return NULL;
}

bool groupkeeper_bounded(struct keeper *k, const struct namegroup *g)
{
	struct keeper next;

	if (!groupkeeper_nearest(k, &next, g))
		return false;
	return k->has_bound || (groupkeeper_container(k, g) && k->has_bound);
}

bool groupkeeper_is_full(const struct namegroup *g)
{
	struct keeper k, growing;

	if (!groupkeeper_bounded(&k, g) || !k.has_length || k.length < k.bound)
		return false;
	return !groupkeeper_growing(&growing, g) || growing.has_bound;
}

bool named_is_in_container(const struct named *named)
{
	struct objectway w;

	objectway_find(&w, named->census->census, named->object);
	for (uint32_t i = 0; i + 1 < w.nr; i++)
		if (has_entries(w.step[i]->kind) && !objectway_is_transparent(&w, i))
			return true;
	return false;
}

bool suspended_find(struct suspended *s, const struct named *named)
{
	struct objectway w;

	objectway_find(&w, named->census->census, named->object);
	for (uint32_t i = w.nr; i-- > 1;) {
		const struct tfmt_object_facts *of = w.step[i], *call = w.step[i - 1];

		if (of->edge != TFMT_EDGE_LOCAL || call->kind != TFMT_KIND_GENERATOR)
			continue;
		*s = (struct suspended){ .variable = of->name,
					 .function = of->function,
					 .is_async = !strcmp(call->class_name, "coroutine") || !strcmp(call->class_name, "async_generator") };
		return of->name && *of->name;
	}
	return false;
}

bool keeper_is_lru_cache(const struct keeper *k)
{
	return k->class_name && (!strcmp(k->class_name, "_lru_cache_wrapper") || !strcmp(k->class_name, "functools._lru_cache_wrapper"));
}

bool keeper_is_variable(const struct keeper *k)
{
	return k->kind == TFMT_KIND_TENSOR || k->kind == TFMT_KIND_PARAMETER;
}

const char *groupkeeper_name(const struct namegroup *g, const struct objectname *n)
{
	return g->blocks == 1 ? n->text : n->pattern;
}
