/* SPDX-License-Identifier: MIT */
/* From roots to tensors, breadth first; see census_walk.h. */
#include "census_walk.h"

#include <string.h>
#include <sys/mman.h>

#include "census_collector.h"
#include "census_kinds.h"
#include "interpose.h"
#include "pyframes.h"
#include "pytext.h"

#define NODE_BYTES (sizeof(struct census_node) + 3 * sizeof(uint32_t)) /* with its slots and its place in a queue */
#define FIRST_SLOTS (1u << 16)
#define PLACES_MAX 8192u
#define THREADS_MAX 4096u
#define FRAMES_MAX 65536u
#define CLOCK_EVERY 1024u /* objects */
#define FETCH_AHEAD 6
#define ADOPTED_DEEP 64   /* objects on the way to a module that holds others */
#define ROOM_EVERY 4096u  /* objects */

/* ---- memory ----------------------------------------------------------------------------------------- */

void *census_map(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static inline uint32_t first_slot(const struct census_walk *w, const void *object)
{
	return (uint32_t)((uintptr_t)object * 0x9e3779b97f4a7c15ull >> 32) & w->slot_mask;
}

static inline uint32_t *slot_of(const struct census_walk *w, const void *object)
{
	uint32_t i = first_slot(w, object);

	while (w->slot[i] && w->node[w->slot[i]].object != object)
		i = (i + 1) & w->slot_mask;
	return &w->slot[i];
}

void census_need(const struct census_walk *w, uint64_t bytes)
{
	if (w->look_for_room)
		w->look_for_room(w, bytes);
}

static bool grow_slots(struct census_walk *w)
{
	uint32_t *old = w->slot, nr = w->slot_mask + 1;

	census_need(w, (uint64_t)nr * 2 * sizeof(*w->slot));
	w->slot = census_map((size_t)nr * 2 * sizeof(*w->slot));
	if (!w->slot) {
		w->slot = old;
		return false;
	}
	w->slot_mask = nr * 2 - 1;
	for (uint32_t i = 1; i < w->nr; i++)
		*slot_of(w, w->node[i].object) = i;
	munmap(old, (size_t)nr * sizeof(*old));
	return true;
}

uint32_t census_find(const struct census_walk *w, const void *object)
{
	return *slot_of(w, object);
}

static bool begin(struct census_walk *w)
{
	w->max = (uint32_t)(w->max_bytes / 5 * 4 / NODE_BYTES);
	w->later_max = (uint32_t)(w->max_bytes / 5 / sizeof(*w->later));
	w->nr = 1;
	w->slot_mask = FIRST_SLOTS - 1;
	w->node = census_map((size_t)w->max * sizeof(*w->node));
	w->slot = census_map(FIRST_SLOTS * sizeof(*w->slot));
	w->queue[0] = census_map((size_t)w->max * sizeof(uint32_t));
	w->queue[1] = census_map((size_t)w->max * sizeof(uint32_t));
	w->later = census_map((size_t)w->later_max * sizeof(*w->later));
	w->place = census_map(PLACES_MAX * sizeof(*w->place));
	w->types = census_types_new();
	return w->node && w->slot && w->queue[0] && w->queue[1] && w->later && w->place && w->types;
}

/* ---- nodes ------------------------------------------------------------------------------------------ */

static uint32_t add(struct census_walk *w, const struct census_node *n)
{
	uint32_t *slot;

	if (w->nr >= w->max || (w->nr > w->slot_mask / 2 && !grow_slots(w))) {
		w->no_memory = true;
		return 0;
	}
	slot = slot_of(w, n->object);
	if (*slot)
		return 0;
	w->node[w->nr] = *n;
	*slot = w->nr;
	if (w->nr % ROOM_EVERY == 0)
		census_need(w, 0);
	return w->nr++;
}

uint32_t census_add(struct census_walk *w, const struct census_node *n, bool is_first)
{
	uint32_t id = add(w, n);

	if (id) {
		int q = is_first ? 0 : 1;

		w->queue[q][w->queue_end[q]++] = id;
	}
	return id;
}

static void add_later(struct census_walk *w, const struct census_node *n)
{
	if (w->later_end >= w->later_max)
		w->no_memory = true;
	else
		w->later[w->later_end++] = *n;
}

static bool is_text(const struct census_walk *w, const void *name, const char *text)
{
	return name && pyobject_type(name) == w->py->type[PYTYPE_STR] && pytext_is(w->py->layout, name, text);
}

/* What an nn.Module keeps its own in: dicts by these names. */
static bool is_own(const struct census_walk *w, const void *name)
{
	return is_text(w, name, "_modules") || is_text(w, name, "_parameters") || is_text(w, name, "_buffers");
}

static bool is_own_dict(const struct census_walk *w, const struct census_node *n)
{
	return n->kind == TFMT_KIND_DICT && n->edge == TFMT_EDGE_ATTRIBUTE && n->parent &&
	       w->node[n->parent].kind == TFMT_KIND_MODULE && is_own(w, n->name);
}

/* Is it held by an nn.Module as its own, or is it one of the dicts that it keeps such things in? */
static bool comes_first(const struct census_walk *w, const struct pyedge *e)
{
	const struct census_node *parent = &w->node[w->at];

	if (e->edge == TFMT_EDGE_ATTRIBUTE)
		return parent->kind == TFMT_KIND_MODULE && is_own(w, e->name);
	return e->edge == TFMT_EDGE_KEY && is_own_dict(w, parent);
}

/* A dict's class also shows the values that its entries have shown, without their keys. */
static bool comes_last(const struct census_walk *w, const struct pyedge *e, uint8_t kind)
{
	if (kind == TFMT_KIND_CLASS || kind == TFMT_KIND_FUNCTION)
		return true;
	return e->edge == TFMT_EDGE_OBJECT || (e->edge == TFMT_EDGE_MEMBER && w->node[w->at].kind == TFMT_KIND_DICT);
}

/* A variable of a frame or a Python module: a root, as good as any other of them. */
static bool is_variable(const struct census_walk *w)
{
	return !w->at || w->node[w->at].kind == TFMT_KIND_PYTHON_MODULE;
}

static bool is_shelf(uint8_t kind)
{
	return kind == TFMT_KIND_LIST || kind == TFMT_KIND_TUPLE || kind == TFMT_KIND_DICT;
}

/* Is what `at` holds an entry of a variable that is a list, tuple or dict? */
static bool is_on_shelf(const struct census_walk *w)
{
	const struct census_node *n = &w->node[w->at];

	return w->at && is_shelf(n->kind) && (!n->parent || w->node[n->parent].kind == TFMT_KIND_PYTHON_MODULE);
}

/*
 * All that a variable has of nn.Modules, at once: a later variable of the same frame, as that of a loop over layers, may
 * be one of them, which are called by their path.
 */
static void walk_modules(struct census_walk *w, const struct census_node *variable)
{
	uint32_t at = w->at;

	if (census_add(w, variable, true))
		while (!w->no_time && w->queue_next[0] < w->queue_end[0])
			census_look(w, w->queue[0][w->queue_next[0]++]);
	w->at = at;
}

/* An nn.Module that was found as an entry of some container: a registry, a list of layers. */
static bool is_entry(const struct census_walk *w, const struct census_node *n)
{
	uint8_t parent = n->parent ? w->node[n->parent].kind : TFMT_KIND_OTHER;

	return n->kind == TFMT_KIND_MODULE && is_shelf(parent) && (n->edge == TFMT_EDGE_KEY || n->edge == TFMT_EDGE_NUMBER ||
								  n->edge == TFMT_EDGE_INDEX || n->edge == TFMT_EDGE_OBJECT);
}

/* Does the way to what is looked at now lead through this node? true if it is too long to say. */
static bool leads_through(const struct census_walk *w, uint32_t node)
{
	uint32_t at = w->at;

	for (int i = 0; i < ADOPTED_DEEP; i++, at = w->node[at].parent)
		if (!at || at == node)
			return at == node;
	return true;
}

/* Is it an entry that a module now has as its own, and no other module has had before? */
static bool is_held_first(const struct census_walk *w, const struct census_node *n, const struct pyedge *e)
{
	return is_entry(w, n) && comes_first(w, e) && !is_own_dict(w, &w->node[n->parent]);
}

/* Is it what an optimizer keeps for one parameter, an entry of its `state`? */
static bool is_state(const struct census_walk *w, uint32_t node)
{
	const struct census_node *n = &w->node[node], *all = &w->node[n->parent];

	return n->parent && n->edge == TFMT_EDGE_OBJECT && all->parent && all->edge == TFMT_EDGE_ATTRIBUTE &&
	       w->node[all->parent].kind == TFMT_KIND_OPTIMIZER && is_text(w, all->name, "state");
}

/* The parameters of an optimizer's group: param_groups[0]['params']. The dict may be the program's own, and met there first. */
static bool is_group(const struct census_walk *w, const struct census_node *n)
{
	return n->kind == TFMT_KIND_LIST && n->edge == TFMT_EDGE_KEY && is_text(w, n->name, "params");
}

/* A tensor of a checkpoint that an optimizer has taken over as it is. */
static bool is_taken_over(const struct census_walk *w, const struct census_node *n)
{
	return n->kind == TFMT_KIND_TENSOR && n->parent && !is_state(w, n->parent) && !is_own_dict(w, &w->node[n->parent]) &&
	       w->at && is_state(w, w->at);
}

/*
 * The module that holds it is met later than the container: it is called by the module's path, as all that it holds. So is
 * what an optimizer keeps for a parameter.
 */
static void adopt(struct census_walk *w, uint32_t known, const struct pyedge *e)
{
	struct census_node *n = &w->node[known];

	if (e->edge != TFMT_EDGE_KEY || !(is_held_first(w, n, e) || is_taken_over(w, n)) || leads_through(w, known))
		return;
	n->name = e->name;
	n->number = (uint32_t)e->number;
	n->parent = w->at;
	n->edge = e->edge;
}

static void meet(void *context, const struct pyedge *e)
{
	struct census_walk *w = context;
	struct census_node n = { .object = e->object, .name = e->name, .parent = w->at, .edge = e->edge };
	uint32_t known;

	__builtin_prefetch(&w->slot[first_slot(w, e->object)]);
	if (!pyobject_holds(w->py, e->object))
		return;
	known = census_find(w, e->object);
	if (known) {
		/* An attribute is met twice, by its name and by what the holder's class tells: that is one holder. */
		if ((!w->at || w->node[known].parent != w->at) && w->node[known].holders < UINT16_MAX)
			w->node[known].holders++;
		w->node[known].is_updated |= w->is_in_group;
		adopt(w, known, e);
		return;
	}
	n.holders = 1;
	n.is_updated = w->is_in_group;
	n.number = (uint32_t)e->number;
	n.kind = census_kind_of(w, pyobject_type(e->object));
	/* By its own name, later: what it leads to is mostly the rest of the world. */
	if (n.kind == TFMT_KIND_PYTHON_MODULE)
		return;
	if (comes_last(w, e, n.kind))
		add_later(w, &n);
	else if ((n.kind == TFMT_KIND_MODULE || is_shelf(n.kind)) && is_variable(w))
		walk_modules(w, &n);
	else
		census_add(w, &n, comes_first(w, e) || (n.kind == TFMT_KIND_MODULE && is_on_shelf(w)));
}

/* What autograd keeps for a tensor; where it is no object of Python's, the file has it all the same. */
static void meet_gradient(struct census_walk *w, const void *tensor)
{
	const void *impl = census_impl(&w->layout, tensor);
	const void *gradient = impl ? census_gradient(&w->layout, impl) : NULL;
	struct pyedge e = { .object = gradient ? census_object(&w->layout, gradient) : NULL, .edge = TFMT_EDGE_GRADIENT };

	if (e.object)
		meet(w, &e);
}

void census_look(struct census_walk *w, uint32_t node)
{
	const struct census_node *n = &w->node[node];

	w->at = node;
	w->nr_objects++;
	w->is_in_group = is_group(w, n);
	pyobjects_each(w->py, n->object, meet, w);
	w->is_in_group = false;
	if (n->kind == TFMT_KIND_TENSOR || n->kind == TFMT_KIND_PARAMETER)
		meet_gradient(w, n->object);
}

/* Have the processor fetch what comes later: objects lie anywhere in memory, and waiting for it is most of the walk. */
static void fetch(const struct census_walk *w, int q)
{
	uint32_t next = w->queue_next[q];

	if (next + 2 * FETCH_AHEAD < w->queue_end[q])
		__builtin_prefetch(&w->node[w->queue[q][next + 2 * FETCH_AHEAD]]);
	if (next + FETCH_AHEAD < w->queue_end[q]) {
		const char *object = w->node[w->queue[q][next + FETCH_AHEAD]].object;

		__builtin_prefetch(object - 32); /* where some keep their attributes */
		__builtin_prefetch(object + 16);
	}
}

/* The next node of the queues; 0: they are empty. */
static uint32_t next_of(struct census_walk *w)
{
	for (int q = 0; q < 2; q++)
		if (w->queue_next[q] < w->queue_end[q]) {
			fetch(w, q);
			return w->queue[q][w->queue_next[q]++];
		}
	return 0;
}

void census_beat(struct census_walk *w)
{
	if (++w->nr_beats % CLOCK_EVERY)
		return;
	w->no_time |= ip_now_ns() > w->deadline_ns;
	if (w->nr_beats % ROOM_EVERY == 0)
		census_need(w, 0);
}

/* What hangs on the roots so far, but for what comes last. */
static void run_first(struct census_walk *w)
{
	uint32_t node;

	while (!w->no_time && (node = next_of(w)) != 0) {
		census_look(w, node);
		census_beat(w);
	}
}

void census_run(struct census_walk *w)
{
	run_first(w);
	while (!w->no_time && w->later_next < w->later_end) {
		census_add(w, &w->later[w->later_next++], false);
		run_first(w);
	}
}

/* ---- roots ------------------------------------------------------------------------------------------- */

/* Python's own, and what was installed: not what somebody is writing. */
static bool is_library(const struct census_walk *w, const void *code)
{
	static const char *const parts[] = { "/site-packages/", "/dist-packages/", "/lib/python3", "<frozen " };
	const void *file = py_pointer(code, w->py->layout->code_file);
	uint8_t text[1024];
	struct pytext t;

	if (!file || pyobject_type(file) != w->py->type[PYTYPE_STR])
		return true;
	t = pytext_of(w->py->layout, file, (sizeof(text) - 1) / 4);
	*pytext_put(text, &t) = 0;
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		if (strstr((const char *)text, parts[i]))
			return true;
	return false;
}

/* A module by its dict, of which the object may not be known: its entries are roots' children at once. */
static void add_module_dict(struct census_walk *w, const void *dict)
{
	struct census_node n = { .object = dict, .edge = TFMT_EDGE_GLOBAL, .kind = TFMT_KIND_PYTHON_MODULE };
	const void *name = pyobjects_get(w->py, dict, "__name__"), *key, *value;
	ssize_t position = 0;
	uint32_t id;

	n.name = name && pyobject_type(name) == w->py->type[PYTYPE_STR] ? name : NULL;
	id = add(w, &n);
	if (!id)
		return;
	w->at = id;
	w->nr_objects++;
	while (w->py->dict_next(dict, &position, &key, &value)) {
		struct pyedge e = { .object = value, .name = key, .edge = TFMT_EDGE_ATTRIBUTE };

		if (pyobject_type(key) == w->py->type[PYTYPE_STR])
			meet(w, &e);
	}
}

static void add_frame(struct census_walk *w, const void *frame, uint32_t thread)
{
	const void *code = pyframe_code(w->py->layout, frame), *globals;
	bool is_module_level;

	globals = pyobjects_globals(w->py, frame, &is_module_level);
	if (is_module_level) {
		if (globals)
			add_module_dict(w, globals);
		return;
	}
	if (w->nr_places >= PLACES_MAX)
		return;
	w->place[w->nr_places] = (struct census_place){ .code = code, .thread = thread };
	w->at = 0;
	pyobjects_locals(w->py, frame, w->nr_places, meet, w);
	w->nr_places++;
}

/*
 * From the frames of one thread, oldest first: those of the program's own files, or those of libraries. All that the older
 * one leads to goes by it, so that a name does not change with what is being called.
 */
static void add_frames(struct census_walk *w, const void *thread, uint32_t number, bool libraries, const void **frame)
{
	const struct pylayout *l = w->py->layout;
	uint32_t nr = 0;

	for (const void *f = pyframe_newest_of(l, thread); f && nr < FRAMES_MAX; f = py_pointer(f, l->frame_back))
		frame[nr++] = f;
	while (nr-- > 0) {
		const void *code = pyframe_code(l, frame[nr]);

		if (pyframe_is_shim(l, pyframe_owner(l, frame[nr])) || !code ||
		    pyobject_type(code) != w->py->type[PYTYPE_CODE] || is_library(w, code) != libraries)
			continue;
		add_frame(w, frame[nr], number);
		run_first(w);
	}
}

/* The main thread is the oldest: the last of the list. */
static uint32_t find_threads(const struct census_walk *w, const void **thread)
{
	uint32_t nr = 0;

	for (const void *t = w->py->first_thread(w->py->main_interpreter()); t && nr < THREADS_MAX; t = w->py->next_thread(t))
		thread[nr++] = t;
	return nr;
}

static void walk_frames(struct census_walk *w, bool libraries)
{
	for (uint32_t i = 0; i < w->nr_threads; i++)
		add_frames(w, w->thread[w->nr_threads - 1 - i], i, libraries, w->frame);
	census_run(w);
}

bool census_walk_begin(struct census_walk *w)
{
	w->thread = census_map(THREADS_MAX * sizeof(*w->thread));
	w->frame = census_map(FRAMES_MAX * sizeof(*w->frame));
	if (!w->thread || !w->frame || !begin(w))
		return false;
	w->nr_threads = find_threads(w, w->thread);
	return true;
}

void census_walk_program(struct census_walk *w)
{
	walk_frames(w, false);
}

void census_walk_rest(struct census_walk *w)
{
	walk_frames(w, true);
	census_collector(w);
}
