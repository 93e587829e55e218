/* SPDX-License-Identifier: MIT */
/* Names of objects, from the steps that lead to them. */
#include "analyzer/names/objectname.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "analyzer/names/objectway.h"

#define KEYS_DEEP 4 /* a key is an object, whose name may have such a key itself, ... */

const char *const objectname_roots[NR_ROOTS] = {
	[ROOT_LOCAL] = "local",		[ROOT_GLOBAL] = "global",	[ROOT_CLASS] = "class",
	[ROOT_CLOSURE] = "closure",	[ROOT_DEFAULT] = "default",	[ROOT_GENERATOR] = "generator",
	[ROOT_EXCEPTION] = "exception", [ROOT_THREAD] = "thread",	[ROOT_NATIVE] = "native",
	[ROOT_UNNAMED] = "unnamed",	[ROOT_CYCLE] = "cycle",
};

const char *objectname_kind(uint8_t kind)
{
	static const char *const names[] = {
		[TFMT_KIND_OTHER] = "object",
		[TFMT_KIND_TENSOR] = "tensor",
		[TFMT_KIND_PARAMETER] = "parameter",
		[TFMT_KIND_MODULE] = "module",
		[TFMT_KIND_OPTIMIZER] = "optimizer",
		[TFMT_KIND_DICT] = "dict",
		[TFMT_KIND_LIST] = "list",
		[TFMT_KIND_TUPLE] = "tuple",
		[TFMT_KIND_SET] = "set",
		[TFMT_KIND_DEQUE] = "deque",
		[TFMT_KIND_FUNCTION] = "function",
		[TFMT_KIND_METHOD] = "method",
		[TFMT_KIND_CLASS] = "class",
		[TFMT_KIND_PYTHON_MODULE] = "python_module",
		[TFMT_KIND_GENERATOR] = "generator",
		[TFMT_KIND_EXCEPTION] = "exception",
		[TFMT_KIND_TRACEBACK] = "traceback",
		[TFMT_KIND_CELL] = "cell",
		[TFMT_KIND_THREAD] = "thread",
		[TFMT_KIND_AUTOGRAD] = "autograd",
	};

	return kind < sizeof(names) / sizeof(*names) ? names[kind] : names[TFMT_KIND_OTHER];
}

#define CHAIN "..." /* best.parent...weights: the same attribute again, however often */

/* ---- texts ------------------------------------------------------------------------------------ */

/* What is longer than OBJECTNAME_MAX is cut. */
static void append(char *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void append(char *text, const char *format, ...)
{
	size_t len = strlen(text);
	va_list args;

	va_start(args, format);
	vsnprintf(text + len, OBJECTNAME_MAX - len, format, args);
	va_end(args);
}

static void append_both(struct objectname *n, const char *before, const char *text, const char *after)
{
	append(n->text, "%s%s%s", before, text, after);
	append(n->pattern, "%s%s%s", before, text, after);
}

/*
 * A key; in the pattern '*' for numbers: the parts between dots that are numbers where it is a path ("layers.3.norm_1"), all
 * that stand apart from letters else ("layers.3.kv", "step_12", but not "conv1").
 */
static void append_key(struct objectname *n, const char *before, const char *key, const char *after, bool is_path)
{
	bool is_in_word = false;

	append(n->text, "%s%s%s", before, key, after);
	append(n->pattern, "%s", before);
	while (*key) {
		size_t digits = strspn(key, "0123456789");
		char next = key[digits];

		if (digits && !is_in_word && (is_path ? !next || next == '.' : !isalpha((unsigned char)next))) {
			append(n->pattern, "*");
			key += digits;
			continue;
		}
		is_in_word = is_path ? *key != '.' : isalpha((unsigned char)*key) || (is_in_word && digits);
		append(n->pattern, "%c", *key++);
	}
	append(n->pattern, "%s", after);
}

static void append_number(struct objectname *n, int64_t number)
{
	append(n->text, "[%" PRId64 "]", number);
	append(n->pattern, "[*]");
}

static const char *class_of(const struct tfmt_object_facts *o)
{
	return *o->class_name ? o->class_name : objectname_kind(o->kind);
}

static bool ends_in_chain(const char *text)
{
	size_t len = strlen(text), end = strlen(CHAIN);

	return len >= end && !strcmp(text + len - end, CHAIN);
}

static void append_attribute(struct objectname *n, const char *name)
{
	append_both(n, *n->text && !ends_in_chain(n->text) ? "." : "", name, "");
}

/* ---- steps ------------------------------------------------------------------------------------ */

static void find(struct objectname *n, const struct tfmt_census *c, uint32_t object, unsigned deep);

/* The name of a key, or "?". Its path of a module is the whole name's. */
static void append_object(struct objectname *n, const struct tfmt_census *c, uint32_t object, unsigned deep)
{
	struct objectname key = { .text = "?", .pattern = "?" };

	if (object && deep < KEYS_DEEP)
		find(&key, c, object, deep + 1);
	append(n->text, "%s", key.text);
	append(n->pattern, "%s", key.pattern);
	n->of_module |= key.of_module;
}

/* Is a key known by nothing else than the dict that has it? Of a weakref.WeakKeyDictionary the references are, of a registry all are. */
static bool is_only_key(const struct objectway *w, uint32_t i, const struct tfmt_census *c)
{
	struct objectway key = { .nr = 0 };

	if (i && w->step[i]->number)
		objectway_find(&key, c, (uint32_t)w->step[i]->number);
	for (uint32_t k = 0; k < key.nr; k++)
		if (key.id[k] == w->id[i - 1])
			return true;
	return false;
}

/* Of what only the holder knows how it holds it. */
static void append_member(struct objectname *n, const struct objectway *w, uint32_t i)
{
	uint8_t holder = i ? w->step[i - 1]->kind : TFMT_KIND_OTHER;
	const struct tfmt_object_facts *o = w->step[i];

	if (holder == TFMT_KIND_DEQUE || holder == TFMT_KIND_SET || (i && objectway_is_cache(w, i - 1)))
		append_both(n, "", "[*]", "");
	else if (o->kind == TFMT_KIND_AUTOGRAD && holder != TFMT_KIND_AUTOGRAD)
		append_attribute(n, "grad_fn");
	else if (o->kind == TFMT_KIND_AUTOGRAD || holder == TFMT_KIND_CELL || holder == TFMT_KIND_TRACEBACK ||
		 (o->kind == TFMT_KIND_EXCEPTION && holder == TFMT_KIND_EXCEPTION))
		return; /* as its holder */
	else if (holder == TFMT_KIND_AUTOGRAD)
		append_attribute(n, "saved");
	else if (objectway_is_hooks_of_tensor(w, i))
		append_both(n, ".<", "hooks", ">");
	else if (!i || o->kind != TFMT_KIND_OTHER || strcmp(class_of(o), class_of(w->step[i - 1])) != 0) /* of a chain the first stands for all */
		append_both(n, ".<", class_of(o), ">");
}

/* What a Python module calls itself is left out for the program's own. */
static void append_first(struct objectname *n, const struct objectway *w, uint32_t i)
{
	const struct tfmt_object_facts *o = w->step[i];

	if (o->edge == TFMT_EDGE_GLOBAL && !strcmp(o->name, "__main__"))
		return;
	append_both(n, "", *o->name ? o->name : class_of(o), "");
}

static void append_step(struct objectname *n, const struct tfmt_census *c, const struct objectway *w, uint32_t i,
			unsigned deep)
{
	const struct tfmt_object_facts *o = w->step[i];

	if (objectway_is_transparent(w, i))
		return;
	switch (o->edge) {
	case TFMT_EDGE_ATTRIBUTE:
		if (!objectway_is_of_chain(w, i))
			append_attribute(n, o->name);
		else if (!ends_in_chain(n->text))
			append_both(n, "", CHAIN, "");
		break;
	case TFMT_EDGE_KEY:
		if (i && objectway_is_transparent(w, i - 1) && !(i > 1 && objectway_is_cache(w, i - 2)))
			append_key(n, *n->text ? "." : "", o->name, "", true);
		else
			append_key(n, "['", o->name, "']", false);
		break;
	case TFMT_EDGE_NUMBER:
	case TFMT_EDGE_INDEX:
		append_number(n, o->number);
		break;
	case TFMT_EDGE_OBJECT:
		if (is_only_key(w, i, c)) {
			append_both(n, "[*]", "", "");
			break;
		}
		append_both(n, "[", "", "");
		append_object(n, c, (uint32_t)o->number, deep);
		append_both(n, "]", "", "");
		break;
	case TFMT_EDGE_MEMBER:
		append_member(n, w, i);
		break;
	case TFMT_EDGE_GRADIENT:
		append_attribute(n, "grad");
		break;
	case TFMT_EDGE_SELF:
		append_attribute(n, "__self__");
		break;
	case TFMT_EDGE_FUNCTION:
		append_attribute(n, "func");
		break;
	default:
		append_first(n, w, i);
	}
}

/* The step that a name begins with: the variable; of what a module holds, what that module itself is called. */
uint32_t objectname_first_step(const struct objectway *w)
{
	uint32_t i = w->top < w->nr ? w->top : w->start;

	while (i > w->start && w->step[i]->edge != TFMT_EDGE_ATTRIBUTE)
		i--;
	return i;
}

void objectname_add_step(struct objectname *n, const struct tfmt_census *c, const struct objectway *w, uint32_t i)
{
	append_step(n, c, w, i, 0);
}

/* "exp_avg of model.0.weight": what an optimizer keeps for a parameter, below step `state`. */
static void name_state(struct objectname *n, const struct tfmt_census *c, const struct objectway *w, uint32_t state,
		       unsigned deep)
{
	for (uint32_t i = state + 1; i < w->nr; i++) {
		if (w->step[i]->edge == TFMT_EDGE_KEY && !*n->text)
			append_key(n, "", w->step[i]->name, "", true);
		else
			append_step(n, c, w, i, deep);
	}
	append_both(n, *n->text ? " of " : "state of ", "", "");
	append_object(n, c, (uint32_t)w->step[state]->number, deep);
}

/* ---- roots ------------------------------------------------------------------------------------ */

static bool passes(const struct objectway *w, uint32_t from, uint8_t kind)
{
	for (uint32_t i = from; i + 1 < w->nr; i++)
		if (w->step[i]->kind == kind)
			return true;
	return false;
}

static bool passes_thread_local(const struct objectway *w)
{
	for (uint32_t i = w->start; i + 1 < w->nr; i++)
		if (objectway_is_thread_local(w, i))
			return true;
	return false;
}

static const char *known(const char *text)
{
	return text && *text ? text : NULL;
}

/* The frame whose variable it is. The outermost one's variables are the program's globals. */
static void place_local(struct objectname *n, const struct objectway *w, const struct tfmt_object_facts *o)
{
	uint8_t holder = w->start ? w->step[w->start - 1]->kind : TFMT_KIND_OTHER;

	n->root = holder == TFMT_KIND_GENERATOR ? ROOT_GENERATOR :
		  holder == TFMT_KIND_TRACEBACK || holder == TFMT_KIND_EXCEPTION ? ROOT_EXCEPTION : ROOT_LOCAL;
	if (n->root == ROOT_LOCAL && !strcmp(o->function, "<module>")) {
		n->root = ROOT_GLOBAL;
		return;
	}
	n->file = known(o->file);
	n->function = known(o->function);
	n->line = o->line;
}

/* The function that has a closure or default arguments. */
static void place_function(struct objectname *n, const struct objectway *w)
{
	const struct tfmt_object_facts *o = w->step[w->start];
	const struct tfmt_object_facts *holder = w->start ? w->step[w->start - 1] : o;

	n->root = o->edge == TFMT_EDGE_CELL ? ROOT_CLOSURE : ROOT_DEFAULT;
	n->file = known(o->file) ? o->file : known(holder->file);
	n->function = known(o->function) ? o->function : known(holder->function);
	n->line = o->line ? o->line : holder->line;
	if (!n->function && holder != o && holder->kind == TFMT_KIND_FUNCTION)
		n->function = known(holder->name);
}

static void place(struct objectname *n, const struct objectway *w)
{
	const struct tfmt_object_facts *begin = w->start ? w->step[w->start] : w->root;

	if (w->root->edge == TFMT_EDGE_CYCLE) {
		n->root = ROOT_CYCLE;
		return;
	}
	switch (begin->edge) {
	case TFMT_EDGE_LOCAL:
		place_local(n, w, begin);
		break;
	case TFMT_EDGE_CELL:
	case TFMT_EDGE_DEFAULT:
		place_function(n, w);
		break;
	case TFMT_EDGE_GLOBAL:
		n->root = ROOT_GLOBAL;
		break;
	default:
		n->root = ROOT_NATIVE;
	}
	if (w->root->edge == TFMT_EDGE_NATIVE && w->root->kind == TFMT_KIND_EXCEPTION) {
		n->root = ROOT_EXCEPTION; /* while it is handled, the interpreter holds it */
		return;
	}
	if (n->root == ROOT_LOCAL || n->root == ROOT_GLOBAL || n->root == ROOT_NATIVE) {
		if (passes(w, w->start, TFMT_KIND_EXCEPTION) || passes(w, w->start, TFMT_KIND_TRACEBACK))
			n->root = ROOT_EXCEPTION;
		else if (passes(w, w->start, TFMT_KIND_THREAD) || passes_thread_local(w))
			n->root = ROOT_THREAD;
		else if (n->root == ROOT_GLOBAL && passes(w, w->start, TFMT_KIND_CLASS))
			n->root = ROOT_CLASS;
	}
}

/* ---- all ---------------------------------------------------------------------------------------- */

/* An exception that is being handled; below it, a variable of a frame that it has left. */
static bool is_handled(const struct objectway *w)
{
	return w->root->edge == TFMT_EDGE_NATIVE && w->root->kind == TFMT_KIND_EXCEPTION && (w->start || w->nr == 1);
}

/* An attribute of an object that only garbage has; or of what a custom autograd.Function keeps for its backward. */
static bool is_of_attribute(const struct objectway *w)
{
	return w->nr >= 2 && w->step[1]->edge == TFMT_EDGE_ATTRIBUTE &&
	       (w->root->edge == TFMT_EDGE_CYCLE || (w->nr == 2 && w->root->kind == TFMT_KIND_AUTOGRAD));
}

/* Is it a function of a cycle, with the next object in a variable of its closure? */
static bool is_of_closure(const struct objectway *w)
{
	return w->nr >= 2 && w->root->edge == TFMT_EDGE_CYCLE && w->root->kind == TFMT_KIND_FUNCTION && w->step[1]->edge == TFMT_EDGE_CELL;
}

/* Is the root a method that C code was given, as atexit.register() is? */
static bool is_method(const struct objectway *w)
{
	return w->root->kind == TFMT_KIND_METHOD && w->nr > 1 && w->step[1]->edge == TFMT_EDGE_SELF;
}

/* Is the root one of those, or a container that only the interpreter has, or C code that fills it? */
static bool is_unnamed(const struct objectname *n, const struct objectway *w)
{
	return n->root == ROOT_NATIVE && !w->is_cut && w->root->edge == TFMT_EDGE_NATIVE &&
	       (w->root->kind == TFMT_KIND_LIST || w->root->kind == TFMT_KIND_SET || w->root->kind == TFMT_KIND_DICT || is_method(w));
}

uint32_t objectname_begin(struct objectname *n, const struct objectway *w, uint32_t first)
{
	bool has_method = is_method(w), has_steps = w->nr > 1u + has_method;

	if (first || n->root != ROOT_UNNAMED)
		return first;
	append_both(n, has_steps ? "(" : "", has_method ? "a registered method of " : "a ",
		    has_method ? class_of(w->step[1]) : objectname_kind(w->root->kind));
	append_both(n, has_method ? "" : " without a name", has_steps ? ")" : "", "");
	return 1 + has_method;
}

static void find(struct objectname *n, const struct tfmt_census *c, uint32_t object, unsigned deep)
{
	struct objectway w;
	uint32_t state;

	*n = (struct objectname){ .root = ROOT_NATIVE };
	objectway_find(&w, c, object);
	if (!w.nr)
		return;
	place(n, &w);
	n->of_module = w.top < w.nr;
	state = objectway_state(&w, c);
	if (is_unnamed(n, &w)) {
		n->root = ROOT_UNNAMED;
		n->of_method = is_method(&w);
	}
	if (n->root == ROOT_CYCLE || (n->root == ROOT_NATIVE && w.root->edge == TFMT_EDGE_NATIVE)) {
		append_both(n, n->root == ROOT_CYCLE ? "in a reference cycle (" : "held outside of Python (", class_of(w.root), "");
		if (is_of_attribute(&w))
			append_both(n, ".", w.step[1]->name, "");
		else if (is_of_closure(&w))
			append_both(n, " with ", w.step[1]->name, " in its closure");
		append_both(n, ")", "", "");
		n->of_module = false;
	} else if (w.nr == 1 && is_handled(&w)) {
		append_both(n, "the ", class_of(w.root), " that is handled");
	} else if (state) {
		name_state(n, c, &w, state, deep);
	} else {
		uint32_t i = objectname_first_step(&w);

		if (w.is_cut && !w.start)
			append_both(n, "...", "", "");
		for (i = objectname_begin(n, &w, i); i < w.nr; i++)
			append_step(n, c, &w, i, deep);
	}
}

void objectname_find(struct objectname *n, const struct tfmt_census *c, uint32_t object)
{
	find(n, c, object, 0);
}

static bool is_keeper(const struct objectway *w, uint32_t i)
{
	uint8_t kind = w->step[i]->kind;

	return !objectway_is_transparent(w, i) && kind != TFMT_KIND_PYTHON_MODULE && kind != TFMT_KIND_CELL &&
	       kind != TFMT_KIND_TRACEBACK && !(i && w->step[i - 1]->kind == TFMT_KIND_AUTOGRAD &&
						kind == TFMT_KIND_AUTOGRAD);
}

static void take_keeper(struct keeper *k, const struct tfmt_census *c, const struct objectway *w, uint32_t i)
{
	objectname_find(&k->name, c, w->id[i]);
	k->kind = w->step[i]->kind;
	k->class_name = w->step[i]->class_name;
	k->edge = w->step[i]->edge;
	k->step = w->step[i]->name;
	k->has_length = w->step[i]->length > 0;
	k->length = k->has_length ? w->step[i]->length - 1 : 0;
	k->has_bound = w->step[i]->bound > 0;
	k->bound = k->has_bound ? w->step[i]->bound - 1 : 0;
}

uint32_t objectname_keepers(struct keeper *out, uint32_t max, const struct tfmt_census *c, uint32_t object)
{
	struct objectway w;
	uint32_t nr = 0;

	objectway_find(&w, c, object);
	for (uint32_t i = w.nr ? w.nr - 1 : 0; i-- > 0 && nr < max;)
		if (is_keeper(&w, i))
			take_keeper(&out[nr++], c, &w, i);
	if (!nr && w.nr && max)
		take_keeper(&out[nr++], c, &w, w.nr - 1);
	return nr;
}

uint32_t objectname_own_dicts(struct keeper *out, uint32_t max, const struct tfmt_census *c, uint32_t object)
{
	struct objectway w;
	uint32_t nr = 0;

	objectway_find(&w, c, object);
	for (uint32_t i = w.nr; i-- > 0 && nr < max;)
		if (objectway_is_own(&w, i, "_modules") || objectway_is_own(&w, i, "_parameters"))
			take_keeper(&out[nr++], c, &w, i);
	return nr;
}

enum objectname_use objectname_use(const struct tfmt_census *c, uint32_t object)
{
	const struct tfmt_object_facts *o;
	struct objectway w;

	objectway_find(&w, c, object);
	if (!w.nr)
		return USE_UNKNOWN;
	o = w.step[w.nr - 1];
	if (o->edge == TFMT_EDGE_GRADIENT || (o->edge == TFMT_EDGE_ATTRIBUTE && !strcmp(o->name, "grad") && w.nr > 1 &&
					      (w.step[w.nr - 2]->kind == TFMT_KIND_TENSOR ||
					       w.step[w.nr - 2]->kind == TFMT_KIND_PARAMETER)))
		return USE_GRADIENT;
	if (o->kind == TFMT_KIND_PARAMETER || (w.nr > 1 && objectway_is_own(&w, w.nr - 2, "_parameters")))
		return USE_PARAMETER;
	if (w.nr > 1 && objectway_is_own(&w, w.nr - 2, "_buffers"))
		return USE_BUFFER;
	return objectway_state(&w, c) ? USE_OPTIMIZER_STATE : USE_UNKNOWN;
}
