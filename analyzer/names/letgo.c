/* SPDX-License-Identifier: MIT */
#include "analyzer/names/letgo.h"

#include <stdio.h>
#include <string.h>

#include "analyzer/findings/sentence.h"
#include "analyzer/names/groupkeeper.h"
#include "analyzer/names/hookname.h"
#include "analyzer/names/objectway.h"

/* As it stands in the program: no pattern, nothing that only a class is known of. */
static bool is_code(const char *name)
{
	return *name && !strpbrk(name, "<*(") && !strchr(name, ' ') && !strstr(name, "...");
}

/* What is put into a container in place of what has a grad_fn, and keeps what that was computed of. */
enum entry {
	ENTRY_PLAIN,    /* it has none */
	ENTRY_DETACHED, /* without that, the entry itself may stay */
	ENTRY_COPIED,   /* a view of a small part: a copy of that may stay */
	ENTRY_ON_HOST,  /* the entries themselves are what is to go */
};

/* Is it an attribute of each of many objects, and what is put into it can be replaced there? shelves[*].rows, of list shelves. */
static bool is_of_each(const char *name, const struct keeper *k, enum entry entry)
{
	return (entry == ENTRY_DETACHED || entry == ENTRY_COPIED) && k->edge == TFMT_EDGE_ATTRIBUTE && strstr(name, "[*]") &&
	       !strpbrk(name, "<( ") && !strstr(name, "...");
}

/* Has it as many entries from census to census? Then what it has is replaced, and grows in another way. */
static bool stays_as_long(const struct namegroup *g, const struct keeper *k)
{
	return !k->has_bound && names_growth_of(g->named.census->all, k, 0) == NAMES_STAYED;
}

/* What a container is to be given, or to be done with it. A list is most often read as a whole, once: it needs no bound. */
static struct said let_go_of_entries(const struct namegroup *g, const struct keeper *k, enum entry entry)
{
	static const char *const values[] = {
		[ENTRY_DETACHED] = "x.detach()", [ENTRY_COPIED] = "x.clone()", [ENTRY_ON_HOST] = "x.detach().cpu()"
	};
	const char *text = groupkeeper_name(g, &k->name);
	bool is_deque = k->kind == TFMT_KIND_DEQUE;
	struct fact name = fact_name("name", text), is_view = fact_flag("is_view", entry == ENTRY_COPIED);
	char dict_entry[OBJECTNAME_MAX + 8];

	if ((!is_code(text) && !is_of_each(text, k, entry)) || (entry == ENTRY_PLAIN && stays_as_long(g, k)) || hookname_is_dict(k->step))
		return SAID_NOTHING;
	if (entry == ENTRY_PLAIN && k->kind == TFMT_KIND_DICT) { /* others may be in use: sessions that still run */
		snprintf(dict_entry, sizeof(dict_entry), "%s[key]", text);
		return SAID(letgo_dict, fact_name("entry", dict_entry));
	}
	if (entry == ENTRY_PLAIN)
		return SAID(letgo_clear, name, fact_flag("is_set", k->kind == TFMT_KIND_SET), fact_flag("is_deque", is_deque && !k->has_bound),
			    fact_flag("has_maxlen", is_deque && k->has_bound));
	if (k->kind == TFMT_KIND_LIST || is_deque)
		return SAID(letgo_append, name, fact_name("value", values[entry]), fact_flag("is_number", g->named.is_number), is_view);
	return SAID(letgo_put, name, fact_name("value", values[entry]), is_view);
}

/* A sum of losses, a hidden state: what goes on from step to step, with the graph of all steps. */
static struct said let_go_of_graph(const struct namegroup *g)
{
	const char *name = g->named.name.text;

	if (g->blocks != 1 || !g->named.has_node || !is_code(name))
		return SAID_NOTHING;
	if (!strcmp(name, "x"))
		return SAID(letgo_carried, NO_FACTS);
	return SAID(letgo_put, fact_name("name", name), fact_name("value", "x.detach()"), fact_flag("is_number", g->named.is_number));
}

static enum entry entry_of(const struct namegroup *g, bool of_graph)
{
	if (g->named.has_node)
		return of_graph ? ENTRY_DETACHED : ENTRY_ON_HOST;
	return namegroup_is_of_views(g) ? ENTRY_COPIED : ENTRY_PLAIN;
}

/* Can the program's own lines name it? */
static bool is_in_reach(const struct objectname *n)
{
	return n->root == ROOT_LOCAL || n->root == ROOT_GLOBAL || n->root == ROOT_CLASS;
}

#define FINALIZER "finalize"		 /* weakref's */
#define RESULTS_OF_MAP "result_iterator" /* Executor.map() is in it until all results were taken */

/* Objects of Python's own library that keep tensors in a part of theirs which no program is to touch: what to do instead. */
static const struct owner {
	const char *class_name;
	uint8_t entry; /* kind of what it has them in, TFMT_KIND_OTHER where that tells nothing */
	enum sentence says;
	bool is_named;        /* it says the object's name, which is to be known */
	const char *function; /* whose variables have it; NULL: that tells nothing */
} owners[] = {
	{ "itertools.cycle", TFMT_KIND_LIST, SAY_letgo_cycle_iterator, true, NULL },
	{ "Queue", TFMT_KIND_DEQUE, SAY_letgo_queue, true, NULL },
	{ "LogRecord", TFMT_KIND_TUPLE, SAY_letgo_log_record, false, NULL },
	{ "MagicMock", TFMT_KIND_LIST, SAY_letgo_mock, true, NULL },
	{ "WeakKeyDictionary", TFMT_KIND_DICT, SAY_letgo_weak_keys, true, NULL },
	{ "itertools._tee", TFMT_KIND_OTHER, SAY_letgo_tee, true, NULL },
	{ "ExitStack", TFMT_KIND_DEQUE, SAY_letgo_exit_stack, true, NULL },
	{ "AsyncExitStack", TFMT_KIND_DEQUE, SAY_letgo_async_exit_stack, true, NULL },
	{ FINALIZER, TFMT_KIND_DICT, SAY_letgo_finalizer, false, NULL },
	{ "Timer", TFMT_KIND_OTHER, SAY_letgo_timer, false, NULL },
	{ "TimerHandle", TFMT_KIND_OTHER, SAY_letgo_timer_handle, false, NULL },
	{ "Future", TFMT_KIND_OTHER, SAY_letgo_results_of_map, false, RESULTS_OF_MAP },
	{ "Future", TFMT_KIND_OTHER, SAY_letgo_future, false, NULL },
	{ "_asyncio.Task", TFMT_KIND_GENERATOR, SAY_letgo_task, false, NULL },
	{ "_asyncio.Task", TFMT_KIND_OTHER, SAY_letgo_task_result, false, NULL },
};

/*
 * Is the step an object of the class, or the class itself, by its name or as that of the object before it? Those that are written in C
 * have their module's name before it.
 */
static bool is_owner(const struct objectway *w, uint32_t i, const char *class_name)
{
	if (w->step[i]->kind == TFMT_KIND_CLASS)
		return (w->step[i]->name && !strcmp(w->step[i]->name, class_name)) ||
		       (i && w->step[i]->edge == TFMT_EDGE_MEMBER && objectway_is_of_class(w, i - 1, class_name));
	return strchr(class_name, '.') ? !strcmp(w->step[i]->class_name, class_name) : objectway_is_of_class(w, i, class_name);
}

/* Which of them is the step before this one, with this as what it has them in? `function`: whose variables lead here. NULL: none. */
static const struct owner *owner_at(const struct objectway *w, uint32_t i, const char *function)
{
	for (size_t k = 0; k < sizeof(owners) / sizeof(*owners); k++)
		if ((owners[k].entry == TFMT_KIND_OTHER || w->step[i]->kind == owners[k].entry) && is_owner(w, i - 1, owners[k].class_name) &&
		    (!owners[k].function || (function && strstr(function, owners[k].function))))
			return &owners[k];
	return NULL;
}

/* The nearest of them that leads to it, and what it is called. NULL: none does. */
static const struct owner *find_owner(struct objectname *n, const struct named *named)
{
	const struct tfmt_census *c = named->census->census;
	const struct owner *o = NULL;
	struct objectway w;

	objectway_find(&w, c, named->object);
	for (uint32_t i = w.nr; i-- > 1 && !o;) {
		o = owner_at(&w, i, named->name.function);
		if (o)
			objectname_find(n, c, w.id[i - 1]);
	}
	return o && (!o->is_named || is_code(n->text)) ? o : NULL;
}

const char *letgo_waiting(const struct namegroup *g)
{
	const char *function = g->is_named ? g->named.name.function : NULL;

	if (g->is_named && objectway_through(g->named.census->census, g->named.object, "_tee"))
		return "itertools.tee()";
	/* Of Executor.map(): futures that a program has in a list of its own may be done with. */
	return function && strstr(function, RESULTS_OF_MAP) ? "an executor" : NULL;
}

bool letgo_keyed_by_tensors(struct objectname *n, const struct namegroup *g)
{
	const struct tfmt_census *c = g->is_named ? g->named.census->census : NULL;
	struct objectway w = { .nr = 0 };

	if (c)
		objectway_find(&w, c, g->named.object);
	if (!w.nr || objectway_state(&w, c))
		return false;
	for (uint32_t i = w.nr; i-- > 1;) {
		const struct tfmt_object_facts *key =
			w.step[i]->edge == TFMT_EDGE_OBJECT ? tfmt_census_object(c, (uint32_t)w.step[i]->number) : NULL;

		if (!key || key->kind != TFMT_KIND_TENSOR || w.step[i - 1]->kind != TFMT_KIND_DICT)
			continue;
		objectname_find(n, c, w.id[i - 1]);
		return true;
	}
	return false;
}

bool letgo_is_of_methods(const struct namegroup *g)
{
	return g->is_named && g->named.name.of_method;
}

struct said letgo_of_owner(const struct namegroup *g)
{
	struct objectname n;
	const struct owner *o = g->is_named ? find_owner(&n, &g->named) : NULL;

	if (o)
		return said_of(o->says, (struct fact[]){ fact_if(o->is_named, fact_name("name", n.text)) }, 1);
	return letgo_is_of_methods(g) ? SAID(letgo_method, NO_FACTS) : SAID_NOTHING;
}

const char *letgo_owner_class(const struct namegroup *g)
{
	struct objectname n;
	const struct owner *o = g->is_named ? find_owner(&n, &g->named) : NULL;

	return o ? o->class_name : NULL;
}

struct said letgo_of_finalizer(const struct named *named)
{
	struct objectname n;
	const struct owner *o = find_owner(&n, named);

	return o && o->says == SAY_letgo_finalizer ? SAID(letgo_finalizer, NO_FACTS) : SAID_NOTHING;
}

static struct said let_go_of(const struct namegroup *g, const struct keeper *k, bool of_graph)
{
	struct said of_owner = letgo_of_owner(g);
	const char *name = k->name.text;
	struct keeper container;

	if (of_owner.sentence != SAY_nothing)
		return of_owner;
	if (keeper_is_lru_cache(k))
		return is_code(name) ? SAID(letgo_lru_cache, fact_name("name", name), fact_flag("has_bound", k->has_bound),
					    fact_flag("has_none", !k->has_bound)) :
				       SAID_NOTHING;
	if (groupkeeper_growing(&container, g) && k->kind != TFMT_KIND_AUTOGRAD)
		k = &container;
	/* Each has a few of them, and is one of many in another. */
	else if (keeper_has_entries(k) && 2 * k->length < g->blocks && groupkeeper_container(&container, g))
		k = &container;
	if (keeper_has_entries(k) && namegroup_is_shared(g)) /* something else holds the same tensors */
		return SAID_NOTHING;
	if (keeper_has_entries(k))
		return let_go_of_entries(g, k, entry_of(g, of_graph));
	if (groupkeeper_container(&container, g))
		return let_go_of_entries(g, &container,
					 k->kind == TFMT_KIND_AUTOGRAD ? ENTRY_DETACHED :
					 namegroup_is_of_views(g)      ? ENTRY_COPIED :
									 ENTRY_PLAIN);
	if (of_graph)
		return let_go_of_graph(g);
	if (!keeper_is_variable(k) || g->blocks != 1 || !is_code(name))
		return SAID_NOTHING;
	if (namegroup_is_of_views(g))
		return SAID(letgo_put, fact_name("name", name), fact_name("value", "x.clone()"), fact_flag("is_view", true));
	return SAID(letgo_del, fact_name("name", name));
}

bool letgo_is_hook(struct hookname *h, const struct namegroup *g)
{
	return g->is_named && !namegroup_is_shared(g) && hookname_find(h, g->named.census->census, g->named.object);
}

/* Added to what else would let go. Of a list that several hooks have, the census tells one. */
static struct said let_go_of_hook(struct said other, const struct hookname *h, bool is_one)
{
	const char *name = is_one ? h->of.text : h->of.pattern;
	char call[OBJECTNAME_MAX + 64], text[SENTENCE_MAX];
	struct fact also = fact_if(other.sentence != SAY_nothing, fact_name("other", sentence_text(text, &other)));

	if (!*name || strpbrk(name, "<( "))
		return other;
	if (!h->call)
		return is_one ? SAID(letgo_hook_of, also, fact_name("name", name)) : SAID(letgo_hooks_of, also, fact_name("name", name));
	snprintf(call, sizeof(call), "%s.%s()", name, h->call);
	return is_one ? SAID(letgo_hook, also, fact_name("call", call)) : SAID(letgo_hooks, also, fact_name("call", call));
}

/* An exception in a container, or in a variable; else it is being handled. */
static struct said let_go_of_exception(const struct namegroup *g, const struct keeper *k)
{
	struct keeper container;

	if (groupkeeper_around(&container, g, TFMT_KIND_EXCEPTION) && is_code(groupkeeper_name(g, &container.name)))
		return SAID(letgo_exceptions, fact_name("name", groupkeeper_name(g, &container.name)));
	if (k->kind == TFMT_KIND_EXCEPTION && is_code(k->name.text))
		return SAID(letgo_del, fact_name("name", k->name.text));
	return SAID(letgo_except_block, NO_FACTS);
}

/* The ctx is the node in autograd's graph. */
const char *letgo_ctx_attribute(const struct namegroup *g)
{
	const struct tfmt_census *c = g->is_named ? g->named.census->census : NULL;
	const struct tfmt_object_facts *o = c ? tfmt_census_object(c, g->named.object) : NULL;
	const struct tfmt_object_facts *of = o ? tfmt_census_object(c, o->parent) : NULL;

	return of && of->kind == TFMT_KIND_AUTOGRAD && o->edge == TFMT_EDGE_ATTRIBUTE ? o->name : NULL;
}

/*
 * Of a parameter, or its last gradient, that no more than its state in an optimizer leads to: the dict of that. It is no model's, and
 * no gradient will come for it.
 */
static bool is_only_of_optimizer(struct keeper *state, const struct namegroup *g)
{
	struct keeper all[3];
	uint32_t nr = objectname_keepers(all, 3, g->named.census->census, g->named.object);
	uint32_t i = nr && all[0].kind == TFMT_KIND_PARAMETER;

	if (i + 1 >= nr || all[i].kind != TFMT_KIND_DICT || all[i].edge != TFMT_EDGE_ATTRIBUTE || strcmp(all[i].step, "state") != 0 ||
	    all[i + 1].kind != TFMT_KIND_OPTIMIZER)
		return false;
	*state = all[i];
	return true;
}

bool letgo_group_owner(struct objectname *n, const struct named *named)
{
	const struct tfmt_census *c = named->census->census;
	struct objectway w;

	objectway_find(&w, c, named->object);
	for (uint32_t i = w.nr; i-- > 1;) {
		if (w.step[i - 1]->kind != TFMT_KIND_OPTIMIZER || w.step[i]->edge != TFMT_EDGE_ATTRIBUTE ||
		    strcmp(w.step[i]->name, "param_groups"))
			continue;
		objectname_find(n, c, w.id[i - 1]);
		return is_code(n->text);
	}
	return false;
}

const char *letgo_chain_of_functions(const struct namegroup *g)
{
	struct objectway w = { .nr = 0 };

	if (g->is_named && g->named.name.root == ROOT_CLOSURE)
		objectway_find(&w, g->named.census->census, g->named.object);
	for (uint32_t i = 1; i < w.nr; i++) {
		const struct tfmt_object_facts *by = w.step[i - 1], *o = w.step[i];

		if (o->kind == TFMT_KIND_FUNCTION && o->edge == TFMT_EDGE_CELL && by->kind == o->kind && by->edge == o->edge &&
		    !strcmp(by->name, o->name))
			return o->name;
	}
	return NULL;
}

const char *letgo_chain_of_objects(struct objectname *first, const struct namegroup *g)
{
	struct objectway w = { .nr = 0 };

	if (g->is_named)
		objectway_find(&w, g->named.census->census, g->named.object);
	for (uint32_t i = 1; i < w.nr; i++) {
		if (w.step[i]->kind != TFMT_KIND_OTHER || !objectway_is_of_chain(&w, i))
			continue;
		if (first)
			objectname_find(first, g->named.census->census, w.id[i - 1]);
		return w.step[i]->name;
	}
	return NULL;
}

struct said letgo_said(const struct namegroup *g, bool of_graph)
{
	struct objectname optimizer, first;
	struct hookname hook;
	struct keeper k, next, state;
	const char *attribute, *variable;
	char link[OBJECTNAME_MAX + 8];
	struct said said;

	if (!groupkeeper_nearest(&k, &next, g))
		return SAID_NOTHING;
	if (namegroup_has_others(g)) /* they have other names; of several hooks all are to be removed */
		return !g->has_unhooked && letgo_is_hook(&hook, g) ? let_go_of_hook(SAID_NOTHING, &hook, false) : SAID_NOTHING;
	switch (g->named.name.root) {
	case ROOT_CYCLE:
		attribute = letgo_ctx_attribute(g);
		return attribute ? SAID(letgo_ctx, fact_name("attribute", attribute)) : SAID(letgo_cycle, NO_FACTS);
	case ROOT_EXCEPTION:
		return let_go_of_exception(g, &k);
	case ROOT_LOCAL:
	case ROOT_GLOBAL:
	case ROOT_CLASS:
	case ROOT_DEFAULT:
		break;
	case ROOT_CLOSURE:
		variable = letgo_chain_of_functions(g);
		if (!variable)
			break;
		return SAID(letgo_replaced, fact_name("variable", variable));
	default:
		return letgo_of_owner(g);
	}
	attribute = letgo_chain_of_objects(&first, g);
	if (attribute) {
		snprintf(link, sizeof(link), "%s%s", is_code(first.text) ? "" : "x.", is_code(first.text) ? first.text : attribute);
		return SAID(letgo_link, fact_name("name", link));
	}
	if (is_only_of_optimizer(&state, g) && is_code(state.name.text))
		return SAID(letgo_state, fact_name("name", state.name.text));
	if (g->named.use == USE_PARAMETER && letgo_group_owner(&optimizer, &g->named))
		return SAID(letgo_groups, fact_name("optimizer", optimizer.text));
	/* Of a model's all is needed, but for the graph of a running average. */
	if (g->named.use != USE_UNKNOWN && !(of_graph && g->named.use == USE_BUFFER))
		return SAID_NOTHING;
	if (k.kind == TFMT_KIND_TUPLE && keeper_is_lru_cache(&next)) /* what a function has returned */
		k = next;
	said = is_in_reach(&g->named.name) ? let_go_of(g, &k, of_graph) : letgo_of_owner(g);
	if (!letgo_is_hook(&hook, g))
		return said;
	return let_go_of_hook(said, &hook, g->blocks == 1 || (keeper_has_entries(&k) && 2 * k.length >= g->blocks));
}
