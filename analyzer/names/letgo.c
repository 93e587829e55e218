/* SPDX-License-Identifier: MIT */
#include "analyzer/names/letgo.h"

#include <stdio.h>
#include <string.h>

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

/* What would keep a container small. A list is most often read as a whole, once. */
static const char *bound_of(const struct keeper *k)
{
	if (k->kind == TFMT_KIND_DEQUE)
		return k->has_bound ? " or a smaller maxlen" : " or a maxlen";
	return k->kind == TFMT_KIND_SET ? " or a bound" : "";
}

/* Has it as many entries from census to census? Then what it has is replaced, and grows in another way. */
static bool stays_as_long(const struct namegroup *g, const struct keeper *k)
{
	return !k->has_bound && names_growth_of(g->named.census->all, k, 0) == NAMES_STAYED;
}

/* What a container is to be given, or to be done with it. */
static const char *let_go_of_entries(char *buf, size_t size, const struct namegroup *g, const struct keeper *k, enum entry entry)
{
	static const char *const calls[] = {
		[ENTRY_DETACHED] = ".detach()", [ENTRY_COPIED] = ".clone()", [ENTRY_ON_HOST] = ".detach().cpu()"
	};
	const char *name = groupkeeper_name(g, &k->name), *why = entry == ENTRY_COPIED ? ", a view of more" : "";

	if ((!is_code(name) && !is_of_each(name, k, entry)) || (entry == ENTRY_PLAIN && stays_as_long(g, k)) || hookname_is_dict(k->step))
		return NULL;
	if (entry == ENTRY_PLAIN && k->kind == TFMT_KIND_DICT) /* others may be in use: sessions that still run */
		snprintf(buf, size, "del %s[key] after its last use, or limit its size", name);
	else if (entry == ENTRY_PLAIN)
		snprintf(buf, size, "%s.clear()%s", name, bound_of(k));
	else if (k->kind == TFMT_KIND_LIST || k->kind == TFMT_KIND_DEQUE)
		snprintf(buf, size, "%s.append(x%s)%s in place of x%s", name, calls[entry],
			 g->named.is_number ? ", or x.item()," : "", why);
	else
		snprintf(buf, size, "x%s in %s in place of x%s", calls[entry], name, why);
	return buf;
}

/* A sum of losses, a hidden state: what goes on from step to step, with the graph of all steps. */
static const char *let_go_of_graph(char *buf, size_t size, const struct namegroup *g)
{
	if (g->blocks != 1 || !g->named.has_node || !is_code(g->named.name.text))
		return NULL;
	if (!strcmp(g->named.name.text, "x"))
		snprintf(buf, size, "x = x.detach()");
	else
		snprintf(buf, size, "x.detach()%s in %s in place of x", g->named.is_number ? ", or x.item()," : "", g->named.name.text);
	return buf;
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

/*
 * Objects of Python's own library that keep tensors in a part of theirs which no program is to touch: what to do instead. The text
 * goes around the object's name, where it has one.
 */
static const struct owner {
	const char *class_name;
	uint8_t entry; /* kind of what it has them in, TFMT_KIND_OTHER where that tells nothing */
	bool is_named;
	const char *before, *after;
	const char *function; /* whose variables have it; NULL: that tells nothing */
} owners[] = {
	{ "itertools.cycle", TFMT_KIND_LIST, true, "while True: yield from x, in place of itertools.cycle(x) in ", "", NULL },
	{ "Queue", TFMT_KIND_DEQUE, true, "a maxsize, or a smaller one, for the Queue() in ", "", NULL },
	{ "LogRecord", TFMT_KIND_TUPLE, false, "str(x), or x.item() of a single number, in place of x in what is logged", "", NULL },
	{ "MagicMock", TFMT_KIND_LIST, true, "", ".reset_mock(), or a plain stub in its place: a mock keeps all that it is called with", NULL },
	{ "WeakKeyDictionary", TFMT_KIND_DICT, true, "weakref.ref(key) in place of the key in each value of ",
	  " (each keeps its own key alive)", NULL },
	{ "itertools._tee", TFMT_KIND_OTHER, true, "two iterators made from the source, instead of the two of itertools.tee() (one is ",
	  "), which keeps what the slower one has yet to read", NULL },
	{ "ExitStack", TFMT_KIND_DEQUE, true, "a with block for each, in place of enter_context() or callback() of ", ", a stack that stays open", NULL },
	{ "AsyncExitStack", TFMT_KIND_DEQUE, true, "an async with block for each, in place of ", ", a stack that stays open", NULL },
	{ FINALIZER, TFMT_KIND_DICT, false, "weakref.finalize() with a function that has no reference to the object itself", "", NULL },
	{ "Timer", TFMT_KIND_OTHER, false, "cancel() of each threading.Timer that is no longer needed, for example before a new one replaces it", "", NULL },
	{ "TimerHandle", TFMT_KIND_OTHER, false, "cancel() of the handle of call_later() or call_at(), once it is not wanted", "", NULL },
	{ "Future", TFMT_KIND_OTHER, false, "submit() of a few at a time, as map() of an executor makes all of them ahead", "", RESULTS_OF_MAP },
	{ "Future", TFMT_KIND_OTHER, false, "del each Future once its result() was read and submit() only a few ahead, or have its function return only what is used", "", NULL },
	{ "_asyncio.Task", TFMT_KIND_GENERATOR, false, "cancel() of each task that is not to go on, and an end for its loop", "", NULL },
	{ "_asyncio.Task", TFMT_KIND_OTHER, false, "no list of tasks that are done, as each keeps its result, or a coroutine that returns only what is used", "", NULL },
};

/* Of a method that C code is to call: the method has its object, and all that this has. */
#define METHOD_GIVEN                                                                                                             \
	"registering (atexit.register() or the like) a function of only the values that it needs in place of the method, or "    \
	"unregistering it once it is not wanted"

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

const char *letgo_of_owner(char *buf, size_t size, const struct namegroup *g)
{
	struct objectname n;
	const struct owner *o = g->is_named ? find_owner(&n, &g->named) : NULL;

	if (!o && !letgo_is_of_methods(g))
		return NULL;
	if (!o) {
		snprintf(buf, size, "%s", METHOD_GIVEN);
		return buf;
	}
	snprintf(buf, size, "%s%s%s", o->before, o->is_named ? n.text : "", o->after);
	return buf;
}

const char *letgo_owner_class(const struct namegroup *g)
{
	struct objectname n;
	const struct owner *o = g->is_named ? find_owner(&n, &g->named) : NULL;

	return o ? o->class_name : NULL;
}

const char *letgo_of_finalizer(const struct named *named)
{
	struct objectname n;
	const struct owner *o = find_owner(&n, named);

	return o && !strcmp(o->class_name, FINALIZER) ? o->before : NULL;
}

static const char *let_go_of(char *buf, size_t size, const struct namegroup *g, const struct keeper *k, bool of_graph)
{
	struct keeper container;

	if (letgo_of_owner(buf, size, g))
		return buf;
	if (keeper_is_lru_cache(k)) {
		snprintf(buf, size, "%s.cache_clear()%s", k->name.text, k->has_bound ? " or a smaller maxsize" : " or a maxsize");
		return is_code(k->name.text) ? buf : NULL;
	}
	if (groupkeeper_growing(&container, g) && k->kind != TFMT_KIND_AUTOGRAD)
		k = &container;
	/* Each has a few of them, and is one of many in another. */
	else if (keeper_has_entries(k) && 2 * k->length < g->blocks && groupkeeper_container(&container, g))
		k = &container;
	if (keeper_has_entries(k) && namegroup_is_shared(g)) /* something else holds the same tensors */
		return NULL;
	if (keeper_has_entries(k))
		return let_go_of_entries(buf, size, g, k, entry_of(g, of_graph));
	if (groupkeeper_container(&container, g))
		return let_go_of_entries(buf, size, g, &container,
					 k->kind == TFMT_KIND_AUTOGRAD ? ENTRY_DETACHED :
					 namegroup_is_of_views(g)      ? ENTRY_COPIED :
									 ENTRY_PLAIN);
	if (of_graph)
		return let_go_of_graph(buf, size, g);
	if (!keeper_is_variable(k) || g->blocks != 1 || !is_code(k->name.text))
		return NULL;
	if (namegroup_is_of_views(g))
		snprintf(buf, size, "x.clone() in %s in place of x, a view of more", k->name.text);
	else
		snprintf(buf, size, "del %s", k->name.text);
	return buf;
}

bool letgo_is_hook(struct hookname *h, const struct namegroup *g)
{
	return g->is_named && !namegroup_is_shared(g) && hookname_find(h, g->named.census->census, g->named.object);
}

/* Appended to what else would let go. Of a list that several hooks have, the census tells one. */
static const char *let_go_of_hook(char *buf, size_t size, const char *other, const struct hookname *h, bool is_one)
{
	const char *name = is_one ? h->of.text : h->of.pattern;
	char call[OBJECTNAME_MAX + 64];
	size_t len = other ? strlen(other) : 0;

	if (!*name || strpbrk(name, "<( "))
		return other;
	if (h->call)
		snprintf(call, sizeof(call), "%s.%s()", name, h->call);
	else
		snprintf(call, sizeof(call), "registering the hook of %s", name);
	snprintf(buf + len, size - len, "%shandle.remove(), of %s handle that %s returned%s", other ? ", or " : "",
		 is_one ? "the" : "each", call, is_one ? ", and of other hooks that hold the same" : "");
	return buf;
}

/* An exception in a container, or in a variable; else it is being handled. */
static const char *let_go_of_exception(char *buf, size_t size, const struct namegroup *g, const struct keeper *k)
{
	struct keeper container;

	if (groupkeeper_around(&container, g, TFMT_KIND_EXCEPTION) && is_code(groupkeeper_name(g, &container.name)))
		snprintf(buf, size, "%s.clear(), or str(error) in it in place of the error", groupkeeper_name(g, &container.name));
	else if (k->kind == TFMT_KIND_EXCEPTION && is_code(k->name.text))
		snprintf(buf, size, "del %s", k->name.text);
	else
		snprintf(buf, size, "the end of the except block");
	return buf;
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

const char *letgo_text(char *buf, size_t size, const struct namegroup *g, bool of_graph)
{
	struct objectname optimizer, first;
	struct hookname hook;
	struct keeper k, next, state;
	const char *text, *attribute, *variable;

	if (!groupkeeper_nearest(&k, &next, g))
		return NULL;
	if (namegroup_has_others(g)) /* they have other names; of several hooks all are to be removed */
		return !g->has_unhooked && letgo_is_hook(&hook, g) ? let_go_of_hook(buf, size, NULL, &hook, false) : NULL;
	switch (g->named.name.root) {
	case ROOT_CYCLE:
		attribute = letgo_ctx_attribute(g);
		if (attribute)
			snprintf(buf, size, "ctx.save_for_backward(...) in place of ctx.%s = ...", attribute);
		else
			snprintf(buf, size, "gc.collect(), or a weakref for one of the references");
		return buf;
	case ROOT_EXCEPTION:
		return let_go_of_exception(buf, size, g, &k);
	case ROOT_LOCAL:
	case ROOT_GLOBAL:
	case ROOT_CLASS:
	case ROOT_DEFAULT:
		break;
	case ROOT_CLOSURE:
		variable = letgo_chain_of_functions(g);
		if (!variable)
			break;
		snprintf(buf, size, "a function that does not keep the one it replaces (in its variable %s)", variable);
		return buf;
	default:
		return letgo_of_owner(buf, size, g);
	}
	attribute = letgo_chain_of_objects(&first, g);
	if (attribute) {
		snprintf(buf, size, "%s%s = None once it is not needed", is_code(first.text) ? "" : "x.", is_code(first.text) ? first.text : attribute);
		return buf;
	}
	if (is_only_of_optimizer(&state, g) && is_code(state.name.text)) {
		snprintf(buf, size, "%s.pop(x), of each x that it no longer updates", state.name.text);
		return buf;
	}
	if (g->named.use == USE_PARAMETER && letgo_group_owner(&optimizer, &g->named)) {
		snprintf(buf, size, "del of each group in %s.param_groups that no model uses, and state.pop(p) of its parameters p",
			 optimizer.text);
		return buf;
	}
	/* Of a model's all is needed, but for the graph of a running average. */
	if (g->named.use != USE_UNKNOWN && !(of_graph && g->named.use == USE_BUFFER))
		return NULL;
	if (k.kind == TFMT_KIND_TUPLE && keeper_is_lru_cache(&next)) /* what a function has returned */
		k = next;
	text = is_in_reach(&g->named.name) ? let_go_of(buf, size, g, &k, of_graph) : letgo_of_owner(buf, size, g);
	if (!letgo_is_hook(&hook, g))
		return text;
	return let_go_of_hook(buf, size, text, &hook, g->blocks == 1 || (keeper_has_entries(&k) && 2 * k.length >= g->blocks));
}
