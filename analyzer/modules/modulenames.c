/* SPDX-License-Identifier: MIT */
/* Interned paths, and their text. */
#include "analyzer/modules/modulenames.h"
#include "analyzer/ui/heap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t name_len(const struct modulepath *p)
{
	return p->by_class ? strcspn(p->name, ".") : strlen(p->name);
}

static bool same_path(const struct modulepath *a, const struct modulepath *b)
{
	return a->parent == b->parent && a->index == b->index && a->indexed == b->indexed && a->is_any == b->is_any &&
	       a->by_key == b->by_key && a->by_class == b->by_class &&
	       (a->name == b->name || !strcmp(a->name, b->name));
}

static uint32_t *path_slot(const struct modulepaths *m, const struct modulepath *p)
{
	uint64_t hash = p->parent * 0x9e3779b97f4a7c15ull ^ p->index;
	uint32_t i;

	for (const char *c = p->name; *c; c++)
		hash = (hash ^ (uint8_t)*c) * 0x100000001b3ull;
	i = (uint32_t)(hash >> 32 ^ hash) & (m->slots_room - 1);
	while (m->slot[i] && !same_path(&m->path[m->slot[i] - 1], p))
		i = (i + 1) & (m->slots_room - 1);
	return &m->slot[i];
}

static void paths_grow(struct modulepaths *m)
{
	uint32_t room = m->slots_room ? 2 * m->slots_room : 256;

	m->path = heap_need(realloc(m->path, room / 2 * sizeof(*m->path)));
	m->paths_room = room / 2;
	free(m->slot);
	m->slot = heap_alloc(room, sizeof(*m->slot));
	m->slots_room = room;
	for (uint32_t i = 0; i < m->nr_paths; i++)
		*path_slot(m, &m->path[i]) = i + 1;
}

uint32_t modulenames_child(struct modulepaths *m, const struct modulepath *p)
{
	uint32_t *slot;

	if (m->nr_paths == m->paths_room)
		paths_grow(m);
	slot = path_slot(m, p);
	if (!*slot) {
		m->path[m->nr_paths++] = *p;
		*slot = m->nr_paths;
	}
	return *slot;
}

/* ---- settled paths ----------------------------------------------------------------------------- */

/* The places whose numbers are not known, by the settled path of the owner. */
struct unnumbered {
	const struct modulecalls **place;
	uint32_t nr;
};

static uint32_t settle(struct modulepaths *m, const struct unnumbered *un, uint32_t path);

static bool is_any_of_list(struct modulepaths *m, const struct unnumbered *un, const struct modulepath *p)
{
	uint32_t depth = modulepaths_depth(m, p->parent);

	/* Owners of the same depth only: a path is settled after those that are less deep, and by nothing else. */
	for (uint32_t i = 0; i < un->nr; i++)
		if (!strcmp(un->place[i]->name, p->name) &&
		    modulepaths_depth(m, un->place[i]->key.owner_path) == depth &&
		    settle(m, un, un->place[i]->key.owner_path) == p->parent)
			return true;
	return false;
}

static uint32_t settle(struct modulepaths *m, const struct unnumbered *un, uint32_t path)
{
	struct modulepath p;

	if (!path || m->settled[path - 1])
		return path ? m->settled[path - 1] : 0;
	p = m->path[path - 1];
	p.parent = settle(m, un, p.parent);
	if (p.indexed && is_any_of_list(m, un, &p)) {
		p.indexed = false;
		p.is_any = true;
		p.index = 0;
	}
	m->settled[path - 1] = modulenames_child(m, &p);
	return m->settled[path - 1];
}

static void settle_all(struct modulepaths *m)
{
	struct unnumbered un = { .place = heap_alloc(m->calls.nr, sizeof(*un.place)) };
	uint32_t nr = m->nr_paths;

	m->settled = heap_alloc(nr, sizeof(*m->settled));
	m->nr_settled = nr;
	for (uint32_t i = 0; i < m->calls.room && nr; i++) {
		const struct modulecalls *c = &m->calls.place[i];

		if (c->key.place && c->name && !modulecalls_are_numbered(&m->calls, c))
			un.place[un.nr++] = c;
	}
	for (uint32_t path = 1; path <= m->nr_settled && un.nr; path++)
		settle(m, &un, path);
	for (uint32_t path = 1; path <= m->nr_settled && !un.nr; path++)
		m->settled[path - 1] = path;
	free(un.place);
}

uint32_t modulepaths_settled(struct modulepaths *m, uint32_t path)
{
	if (!m->settled)
		settle_all(m);
	return path && path <= m->nr_settled ? m->settled[path - 1] : path;
}

uint32_t modulepaths_depth(const struct modulepaths *m, uint32_t path)
{
	uint32_t depth = 0;

	for (; path; path = m->path[path - 1].parent)
		depth++;
	return depth;
}

uint32_t modulepaths_ancestor(const struct modulepaths *m, uint32_t path, uint32_t depth)
{
	uint32_t own = modulepaths_depth(m, path);

	for (; own > depth; own--)
		path = m->path[path - 1].parent;
	return path;
}

const char *modulepaths_text(const struct modulepaths *m, uint32_t path, uint32_t from, char *buf, size_t size)
{
	uint32_t depth = modulepaths_depth(m, path);
	size_t used = 0;

	*buf = 0;
	for (uint32_t i = from + 1; i <= depth && used < size; i++) {
		const struct modulepath *p = &m->path[modulepaths_ancestor(m, path, i) - 1];
		const char *dot = used ? "." : "";

		if (p->by_class)
			used += (size_t)snprintf(buf + used, size - used, "%s<%.*s>", dot, (int)name_len(p), p->name);
		else if (*p->name)
			used += (size_t)snprintf(buf + used, size - used, "%s%s", dot, p->name);
		if (p->is_any && used < size)
			used += (size_t)snprintf(buf + used, size - used, used ? ".*" : "*");
		if (p->indexed && used < size)
			used += (size_t)snprintf(buf + used, size - used, p->by_key ? "%s<%u>" : "%s%u",
						 used ? "." : "", p->index);
	}
	return buf;
}
