/* SPDX-License-Identifier: MIT */
/* Walking the graphs of autograd, each node once for each tensor. */
#include "census_graph.h"

#include <string.h>
#include <sys/mman.h>

#include "traverse.h"

#define SLOTS (1u << 20)         /* half of them at most are used by one walk */
#define NODES_MAX (SLOTS / 2)
#define LOOKS_MAX (1u << 20)     /* less than a second */
#define EDGES_MAX 4096           /* of a node, that are followed */
#define NODE_WORDS 16            /* that are read of one */

/* The name of a class of torch::autograd begins so, as C++ writes it. */
static const char class_name[] = "N5torch8autograd";

/*
 * torch::autograd::Node, what its objects begin with: the table of virtual functions; then until PyTorch 2.13 a
 * std::weak_ptr to itself, from 2.14 on counts of references. Its next edges are a std::vector of pointers to nodes, each with
 * what else an edge has.
 */
static const struct form {
	unsigned edges; /* word at which the vector begins */
	unsigned edge_bytes;
	bool has_self;
} forms[] = { { 12, 24, true }, { 11, 16, false } };

struct census_graph_slot {
	const void *node;
	uint32_t walk; /* that has met it last */
};

static bool read_bytes(const void *at, void *out, size_t bytes)
{
	return at && traverse_read(out, at, bytes);
}

static uint64_t hash_of(const void *p)
{
	return (uint64_t)(uintptr_t)p * 0x9e3779b97f4a7c15ull;
}

/* ---- nodes -------------------------------------------------------------------------------------- */

/* Before a table of virtual functions lies the address of its class's description, whose second word is its name. */
static bool is_class_of_nodes(const void *table)
{
	const char *words[2], *description;
	char name[sizeof(class_name) - 1];

	return read_bytes((const char *)table - sizeof(void *), &description, sizeof(description)) &&
	       read_bytes(description, words, sizeof(words)) && read_bytes(words[1], name, sizeof(name)) &&
	       !memcmp(name, class_name, sizeof(name));
}

static bool is_table_of_nodes(struct census_graph *g, const void *table)
{
	const void **known = &g->table[hash_of(table) % CENSUS_GRAPH_CLASSES];

	if (!table)
		return false;
	if (*known != table && is_class_of_nodes(table))
		*known = table;
	return *known == table;
}

/* Read a node; its form, NULL: it is none. */
static const struct form *read_node(struct census_graph *g, const void *node, const char *word[NODE_WORDS])
{
	const struct form *form;

	if (!read_bytes(node, word, NODE_WORDS * sizeof(*word)) || !is_table_of_nodes(g, word[0]))
		return NULL;
	form = &forms[word[1] != (const char *)node];
	return form;
}

/* ---- walking ------------------------------------------------------------------------------------ */

/* Was it met by this walk? If not it is now. */
static bool is_met(struct census_graph *g, const void *node)
{
	uint64_t at = hash_of(node) >> 32;

	for (uint32_t tries = 0; tries < SLOTS; tries++, at++) {
		struct census_graph_slot *s = &g->slot[at % SLOTS];

		if (s->walk == g->walk && s->node == node)
			return true;
		if (s->walk == g->walk)
			continue;
		*s = (struct census_graph_slot){ node, g->walk };
		return false;
	}
	return true;
}

/* Put what a node leads to at the queue's end. Returns how many are in it. */
static uint32_t follow(struct census_graph *g, const struct form *form, const char *const *word, uint32_t end)
{
	const char *from = word[form->edges], *to = word[form->edges + 1];
	static char edges[EDGES_MAX * 24]; /* a copy has one thread */
	size_t bytes = (size_t)(to - from);

	if (to <= from || bytes % form->edge_bytes || bytes > sizeof(edges) || !read_bytes(from, edges, bytes))
		return end;
	for (size_t i = 0; i < bytes; i += form->edge_bytes) {
		const char *next;

		memcpy(&next, edges + i, sizeof(next));
		if (next && end < NODES_MAX && !is_met(g, next))
			g->queue[end++] = next;
	}
	return end;
}

static void *map(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static bool begin(struct census_graph *g)
{
	if (!g->queue) {
		g->slot = map(SLOTS * sizeof(*g->slot));
		g->queue = map(NODES_MAX * sizeof(*g->queue));
	}
	return g->slot && g->queue && g->nr_looks < LOOKS_MAX;
}

uint32_t census_graph_nodes(struct census_graph *g, const void *node)
{
	const char *word[NODE_WORDS];
	uint32_t nr = 0, end = 0, i;

	if (node == g->latest)
		return g->nr_latest;
	if (!node || !begin(g))
		return 0;
	g->walk++;
	is_met(g, node);
	g->queue[end++] = node;
	for (i = 0; i < end && g->nr_looks < LOOKS_MAX; i++) {
		const struct form *form = read_node(g, g->queue[i], word);

		g->nr_looks++;
		if (!form)
			continue;
		nr++;
		end = follow(g, form, word, end);
	}
	g->latest = node;
	g->nr_latest = i < end || end == NODES_MAX ? 0 : nr;
	return g->nr_latest;
}
