/* SPDX-License-Identifier: MIT */
/* Objects on the way to tensors, with their names, to a file. */
#include "census_write.h"

#include <string.h>

#include "census_graph.h"
#include "census_kinds.h"
#include "pycontainer.h"
#include "pyframes.h"
#include "pytext.h"
#include "traverse.h"

#define NAME_MAX_CHARACTERS 64u
#define TEXT_CHARACTERS 1024u /* of files and classes */
#define STRINGS_MAX (1u << 20)
#define OBJECT_FIELDS 13
#define LEVEL 3
#define MARKED UINT32_MAX
#define NUMBERED (UINT32_MAX - 1) /* about to be */

struct text {
	uint64_t hash;
	uint32_t id;
};

/* What is being written. */
struct census_output {
	struct tfmt_writer *w;
	struct census_walk *walk;
	uint32_t *id;       /* of each node: that of its OBJECT; MARKED beforehand: it is on the way to a tensor */
	uint32_t nr_ids;
	uint32_t *chain;    /* nodes, from one up */
	uint32_t *order;    /* nodes by their new ids */
	uint32_t nr_order;
	uint32_t next;      /* node: those before it were looked at */
	struct text *text;  /* by hash */
	uint32_t nr_texts, nr_tensors;
	struct census_graph graph;
	int err;
};

static void define(struct census_output *o, uint32_t type, uint32_t id, const uint8_t *payload, const uint8_t *end)
{
	if (!o->err)
		o->err = tfmt_writer_definition(o->w, type, id, payload, (size_t)(end - payload));
}

/* ---- strings ------------------------------------------------------------------------------------------- */

static uint64_t hash_of(const uint8_t *text, size_t len)
{
	uint64_t h = 0xcbf29ce484222325ull;

	for (size_t i = 0; i < len; i++)
		h = (h ^ text[i]) * 0x100000001b3ull;
	return h | 1;
}

/* The id of a text, which is written when it first comes. Two texts of one hash of 64 bits are taken for one. */
static uint32_t string_id(struct census_output *o, const uint8_t *text, size_t len)
{
	uint64_t hash = hash_of(text, len);
	uint32_t i = (uint32_t)(hash >> 20) & (STRINGS_MAX - 1);
	uint8_t payload[4 * TEXT_CHARACTERS + 16], *p = payload;

	while (o->text[i].hash && o->text[i].hash != hash)
		i = (i + 1) & (STRINGS_MAX - 1);
	if (o->text[i].hash)
		return o->text[i].id;
	if (!len || o->nr_texts >= STRINGS_MAX / 2)
		return 0;
	o->text[i] = (struct text){ hash, ++o->nr_texts };
	p = tfmt_put_string(p, (const char *)text, len);
	define(o, TFMT_DEF_STRING, o->nr_texts, payload, p);
	return o->nr_texts;
}

static uint32_t str_id(struct census_output *o, const void *str, uint32_t most)
{
	const struct pyobjects *py = o->walk->py;
	uint8_t text[4 * TEXT_CHARACTERS];
	struct pytext t;

	if (!str || pyobject_type(str) != py->type[PYTYPE_STR])
		return 0;
	t = pytext_of(py->layout, str, most);
	return string_id(o, text, (size_t)(pytext_put(text, &t) - text));
}

static uint32_t class_id(struct census_output *o, const void *object)
{
	const char *name = py_pointer(pyobject_type(object), PY_TYPE_NAME);

	return string_id(o, (const uint8_t *)name, strnlen(name, TEXT_CHARACTERS));
}

/* ---- objects ------------------------------------------------------------------------------------------- */

static uint64_t label_of(struct census_output *o, const struct census_node *n)
{
	int64_t number;
	uint32_t key;

	switch (n->edge) {
	case TFMT_EDGE_INDEX:
		return n->number;
	case TFMT_EDGE_NUMBER:
		return pyobjects_int(o->walk->py, n->name, &number) ? ((uint64_t)number << 1) ^ (uint64_t)(number >> 63) : 0;
	case TFMT_EDGE_OBJECT:
		key = census_find(o->walk, n->name);
		return key ? o->id[key] : 0;
	case TFMT_EDGE_CYCLE:
	case TFMT_EDGE_NATIVE:
	case TFMT_EDGE_MEMBER:
		return 0;
	default:
		return str_id(o, n->name, NAME_MAX_CHARACTERS);
	}
}

/* The code of the frame that has a variable: a thread's, or one that waits in the parent. */
static const void *code_of(const struct census_output *o, const struct census_node *n)
{
	const struct pyobjects *py = o->walk->py;
	const void *frame;

	if (n->edge != TFMT_EDGE_LOCAL)
		return NULL;
	if (!n->parent)
		return o->walk->place[n->number].code;
	frame = pyobjects_frame(py, o->walk->node[n->parent].object);
	return frame ? pyframe_code(py->layout, frame) : NULL;
}

/* File, line and function of a variable's frame, and the thread; zeros for all else. */
static uint8_t *put_place(struct census_output *o, uint8_t *p, const struct census_node *n)
{
	const struct pylayout *l = o->walk->py->layout;
	const void *code = code_of(o, n);

	p = tfmt_put_varint(p, code ? str_id(o, py_pointer(code, l->code_file), TEXT_CHARACTERS) : 0);
	p = tfmt_put_varint(p, code ? (uint32_t)py_int(code, l->code_line) : 0);
	p = tfmt_put_varint(p, code ? str_id(o, py_pointer(code, l->code_name), TEXT_CHARACTERS) : 0);
	return tfmt_put_varint(p, code && !n->parent ? o->walk->place[n->number].thread : 0);
}

/* Of an attribute that the object has itself, not its class: 0 or 1; -1: it has none, or it is no bool. */
static int bool_of(const struct census_output *o, const struct census_node *n, const char *name)
{
	const void *value = pyobjects_attribute(o->walk->py, n->object, name);

	return value ? pyobjects_bool(o->walk->py, value) : -1;
}

/* Of an nn.Module: whether train() or eval() was called last. Of both, whether it was to be frozen by what does not freeze it. */
static uint64_t flags_of(const struct census_output *o, const struct census_node *n)
{
	uint64_t flags = 0;
	int is_training;

	if (n->kind == TFMT_KIND_PARAMETER)
		return (bool_of(o, n, "require_grad") ? 0 : TFMT_OBJECT_FREEZES_NOTHING) | (n->is_updated ? TFMT_OBJECT_UPDATED : 0);
	if (n->kind != TFMT_KIND_MODULE)
		return 0;
	is_training = bool_of(o, n, "training");
	if (is_training >= 0)
		flags = is_training ? TFMT_OBJECT_TRAINS : TFMT_OBJECT_EVALUATES;
	return flags | (bool_of(o, n, "requires_grad") ? 0 : TFMT_OBJECT_FREEZES_NOTHING);
}

static void put_object(struct census_output *o, uint32_t node)
{
	const struct census_node *n = &o->walk->node[node];
	uint8_t payload[OBJECT_FIELDS * 10], *p = payload;

	p = tfmt_put_varint(p, n->parent ? o->id[n->parent] : 0);
	p = tfmt_put_varint(p, n->edge);
	p = tfmt_put_varint(p, n->kind);
	p = tfmt_put_varint(p, label_of(o, n));
	p = tfmt_put_varint(p, class_id(o, n->object));
	p = tfmt_put_varint(p, pycontainer_length(o->walk->py, n->object));
	p = tfmt_put_varint(p, n->kind == TFMT_KIND_MODULE ? (uintptr_t)n->object : 0);
	p = put_place(o, p, n);
	p = tfmt_put_varint(p, flags_of(o, n));
	p = tfmt_put_varint(p, pycontainer_bound(o->walk->py, n->object));
	define(o, TFMT_DEF_OBJECT, o->id[node], payload, p);
}

static void put_tensor(struct census_output *o, uint32_t object, const void *impl, const struct census_memory *m, uint32_t holders)
{
	uint8_t payload[8 * 10], *p = payload;

	p = tfmt_put_varint(p, object);
	p = tfmt_put_varint(p, m->address);
	p = tfmt_put_varint(p, m->bytes);
	p = tfmt_put_varint(p, m->device);
	p = tfmt_put_varint(p, (m->node ? TFMT_TENSOR_HAS_NODE : 0) | (m->is_in_graph ? TFMT_TENSOR_IN_GRAPH : 0));
	p = tfmt_put_varint(p, holders);
	p = tfmt_put_varint(p, census_graph_nodes(&o->graph, m->node));
	p = tfmt_put_varint(p, census_own_bytes(&o->walk->layout, impl));
	define(o, TFMT_DEF_TENSOR, ++o->nr_tensors, payload, p);
}

/* The gradient that a tensor has, if it is no object of Python's: else the tensor has led to it. */
static void put_gradient(struct census_output *o, uint32_t parent, const void *tensor)
{
	struct census_layout *layout = &o->walk->layout;
	const void *impl = census_impl(layout, tensor);
	uint8_t payload[OBJECT_FIELDS * 10], *p = payload;
	struct census_memory m;

	impl = impl ? census_gradient(layout, impl) : NULL;
	if (!impl || census_object(layout, impl) || !census_memory(layout, impl, &m))
		return;
	p = tfmt_put_varint(p, parent);
	p = tfmt_put_varint(p, TFMT_EDGE_GRADIENT);
	p = tfmt_put_varint(p, TFMT_KIND_TENSOR);
	for (int i = 3; i < OBJECT_FIELDS; i++)
		p = tfmt_put_varint(p, 0);
	define(o, TFMT_DEF_OBJECT, ++o->nr_ids, payload, p);
	put_tensor(o, o->nr_ids, impl, &m, 0);
}

static bool is_tensor(const struct census_node *n)
{
	return n->kind == TFMT_KIND_TENSOR || n->kind == TFMT_KIND_PARAMETER;
}

static bool memory_of(struct census_output *o, const struct census_node *n, struct census_memory *m)
{
	return is_tensor(n) && census_memory(&o->walk->layout, census_impl(&o->walk->layout, n->object), m);
}

/* A node and all that leads to it; keys that are objects as well. */
static void mark(struct census_output *o, uint32_t node)
{
	while (node && !o->id[node]) {
		const struct census_node *n = &o->walk->node[node];

		o->id[node] = MARKED;
		if (n->edge == TFMT_EDGE_OBJECT)
			mark(o, census_find(o->walk, n->name));
		node = n->parent;
	}
}

/* Ids for a node and those that lead to it: what holds another, which it may have adopted, has the smaller one. */
static void number(struct census_output *o, uint32_t node)
{
	uint32_t depth = 0;

	for (; node && o->id[node] == MARKED; node = o->walk->node[node].parent) {
		o->id[node] = NUMBERED;
		o->chain[depth++] = node;
	}
	while (depth) {
		node = o->chain[--depth];
		o->id[node] = ++o->nr_ids;
		o->order[o->nr_order++] = node;
	}
}

static void mark_new(struct census_output *o)
{
	struct census_memory m;

	for (uint32_t i = o->next; i < o->walk->nr; i++) {
		const struct census_node *n = &o->walk->node[i];

		if (n->kind == TFMT_KIND_MODULE || memory_of(o, n, &m))
			mark(o, i);
	}
	o->nr_order = 0;
	for (uint32_t i = 1; i < o->walk->nr; i++)
		number(o, i);
}

int census_put(struct census_output *o)
{
	struct census_memory m;

	mark_new(o);
	for (uint32_t i = 0; i < o->nr_order && !o->err; i++)
		put_object(o, o->order[i]);
	for (uint32_t i = o->next; i < o->walk->nr && !o->err; i++) {
		const struct census_node *n = &o->walk->node[i];

		if (o->id[i] && memory_of(o, n, &m))
			put_tensor(o, o->id[i], census_impl(&o->walk->layout, n->object), &m, n->holders);
		if (o->id[i] && is_tensor(n))
			put_gradient(o, o->id[i], n->object);
	}
	o->next = o->walk->nr;
	return o->err ? o->err : tfmt_writer_flush(o->w, NULL, 0);
}

/* ---- the file ------------------------------------------------------------------------------------------ */

static int put_facts(struct tfmt_writer *w, const struct tfmt_census_facts *f)
{
	uint8_t payload[7 * 10], *p = payload;

	p = tfmt_put_varint(p, f->why);
	p = tfmt_put_varint(p, f->time_ns);
	p = tfmt_put_varint(p, f->device);
	p = tfmt_put_varint(p, f->allocated);
	p = tfmt_put_varint(p, f->flags);
	p = tfmt_put_varint(p, f->nr_objects);
	p = tfmt_put_varint(p, f->nr_tensors);
	return tfmt_writer_definition(w, TFMT_DEF_CENSUS, 1, payload, (size_t)(p - payload));
}

struct census_output *census_begin(int fd, const struct tfmt_header *header, const struct tfmt_census_facts *facts,
				   struct census_walk *walk)
{
	struct census_output *o = census_map(sizeof(*o));

	if (!o)
		return NULL;
	o->walk = walk;
	o->next = 1;
	o->id = census_map((size_t)walk->max * sizeof(*o->id));
	o->chain = census_map((size_t)walk->max * sizeof(*o->chain));
	o->order = census_map((size_t)walk->max * sizeof(*o->order));
	o->text = census_map(STRINGS_MAX * sizeof(*o->text));
	if (!o->id || !o->chain || !o->order || !o->text || tfmt_writer_open(&o->w, fd, header, LEVEL) || put_facts(o->w, facts) ||
	    tfmt_writer_flush(o->w, NULL, 0))
		return NULL;
	return o;
}

int census_finish(struct census_output *o, const struct tfmt_census_facts *facts)
{
	const struct census_walk *walk = o->walk;
	struct tfmt_census_facts f = *facts;
	struct tfmt_status ended = { .end = TFMT_END_EXIT };

	f.nr_objects = walk->nr_objects;
	f.nr_tensors = o->nr_tensors;
	f.flags = (walk->no_memory ? TFMT_CENSUS_NO_MEMORY : 0) | (walk->no_time ? TFMT_CENSUS_NO_TIME : 0) |
		  (walk->has_collector ? TFMT_CENSUS_COLLECTOR : 0) | (traverse_nr_faults() ? TFMT_CENSUS_FAULT : 0);
	if (!walk->no_memory && !walk->no_time && !traverse_nr_faults())
		f.flags |= TFMT_CENSUS_WHOLE;
	if (!o->err)
		o->err = put_facts(o->w, &f);
	if (!o->err)
		o->err = tfmt_writer_flush(o->w, NULL, 0);
	return o->err ? o->err : tfmt_writer_end(o->w, &ended);
}
