/* SPDX-License-Identifier: MIT */
#include "analyzer/names/letgo.h"

#include <stdio.h>
#include <string.h>

#include "analyzer/names/groupkeeper.h"

/* As it stands in the program: no pattern, nothing that only a class is known of. */
static bool is_code(const char *name)
{
	return *name && !strpbrk(name, "<*(") && !strchr(name, ' ');
}

/* What a container is to be given, or to be done with it. has_node: what it holds has a grad_fn. */
static const char *let_go_of_entries(char *buf, size_t size, const struct namegroup *g, const struct keeper *k, bool has_node)
{
	const char *name = groupkeeper_name(g, &k->name);

	if (!is_code(name))
		return NULL;
	if (!has_node)
		snprintf(buf, size, "%s.clear()%s", name, k->has_bound ? ", or a smaller maxlen" : "");
	else if (k->kind == TFMT_KIND_LIST || k->kind == TFMT_KIND_DEQUE)
		snprintf(buf, size, "%s.append(x.detach())%s in place of x", name,
			 g->named.is_number ? ", or x.item()," : "");
	else
		snprintf(buf, size, "x.detach() in %s in place of x", name);
	return buf;
}

/* A sum of losses, a hidden state: what goes on from step to step, with the graph of all steps. */
static const char *let_go_of_graph(char *buf, size_t size, const struct namegroup *g)
{
	if (g->blocks != 1 || !g->named.has_node || !is_code(g->named.name.text))
		return NULL;
	snprintf(buf, size, "x.detach()%s in %s in place of x", g->named.is_number ? ", or x.item()," : "", g->named.name.text);
	return buf;
}

static const char *let_go_of(char *buf, size_t size, const struct namegroup *g, const struct keeper *k, bool of_graph)
{
	struct keeper container;

	if (keeper_is_lru_cache(k)) {
		snprintf(buf, size, "%s.cache_clear()%s", k->name.text, k->has_bound ? ", or a smaller maxsize" : "");
		return is_code(k->name.text) ? buf : NULL;
	}
	if (keeper_has_entries(k) && g->named.holders > 1) /* something else holds the same tensors */
		return NULL;
	if (keeper_has_entries(k))
		return let_go_of_entries(buf, size, g, k, g->named.has_node);
	if (groupkeeper_container(&container, g))
		return let_go_of_entries(buf, size, g, &container, k->kind == TFMT_KIND_AUTOGRAD);
	if (of_graph)
		return let_go_of_graph(buf, size, g);
	if (!keeper_is_variable(k) || g->blocks != 1 || !is_code(k->name.text))
		return NULL;
	snprintf(buf, size, "del %s", k->name.text);
	return buf;
}

/* An exception in a container, or in a variable; else it is being handled. */
static const char *let_go_of_exception(char *buf, size_t size, const struct namegroup *g, const struct keeper *k,
				       const struct keeper *next)
{
	if (keeper_has_entries(next) && is_code(groupkeeper_name(g, &next->name)))
		snprintf(buf, size, "%s.clear(), or str(error) in it in place of the error", groupkeeper_name(g, &next->name));
	else if (k->kind == TFMT_KIND_EXCEPTION && is_code(k->name.text))
		snprintf(buf, size, "del %s", k->name.text);
	else
		snprintf(buf, size, "the end of the except block");
	return buf;
}

const char *letgo_text(char *buf, size_t size, const struct namegroup *g, bool of_graph)
{
	struct keeper k, next;

	if (!groupkeeper_nearest(&k, &next, g) || g->nr_others) /* it has other names */
		return NULL;
	switch (g->named.name.root) {
	case ROOT_CYCLE:
		snprintf(buf, size, "gc.collect(), or a weakref for one of the references");
		return buf;
	case ROOT_EXCEPTION:
		return let_go_of_exception(buf, size, g, &k, &next);
	case ROOT_LOCAL:
	case ROOT_GLOBAL:
	case ROOT_CLASS:
		return g->named.use == USE_UNKNOWN ? let_go_of(buf, size, g, &k, of_graph) : NULL; /* of a model's, all is needed */
	default:
		return NULL;
	}
}
