/* SPDX-License-Identifier: MIT */
/* What events refer to by id: stack nodes, code objects, modules, shapes, threads, devices and so on. */
#include "tracefmt/definitions.h"
#include "tracefmt/array.h"
#include "tracefmt/index.h"
#include "tracefmt/varint.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define ARENA_CHUNK_BYTES (64u << 10)
#define NR_DIMS_MAX 64

/* ---- memory ---------------------------------------------------------------------------------- */

struct tfmt_arena_chunk {
	struct tfmt_arena_chunk *next;
	size_t used, room;
	uint64_t bytes[]; /* aligned for what is put in */
};

static void *arena_take(struct tfmt_definitions *d, size_t bytes)
{
	struct tfmt_arena_chunk *c = d->arena;
	size_t room;
	void *p;

	bytes = (bytes + 7) & ~(size_t)7;
	if (!c || c->room - c->used < bytes) {
		room = bytes > ARENA_CHUNK_BYTES ? bytes : ARENA_CHUNK_BYTES;
		c = malloc(sizeof(*c) + room);
		if (!c)
			return NULL;
		*c = (struct tfmt_arena_chunk){ .next = d->arena, .room = room };
		d->arena = c;
	}
	p = (uint8_t *)c->bytes + c->used;
	c->used += bytes;
	return p;
}

/* A terminated copy of a string in the payload; NULL without memory. A string that ends early is "". */
static const char *arena_string(struct tfmt_definitions *d, struct tfmt_cursor *c)
{
	const uint8_t *s;
	size_t len;
	char *copy;

	if (!tfmt_string_get(c, &s, &len))
		return "";
	copy = arena_take(d, len + 1);
	if (!copy)
		return NULL;
	memcpy(copy, s, len);
	copy[len] = 0;
	return copy;
}

/* ---- tables ---------------------------------------------------------------------------------- */

/*
 * Ids lie in their own order, as they mostly come without gaps, and the nodes of a stack one after another. Those that
 * meet go on by steps that differ, so that ids chosen for it make no long search.
 */
static struct tfmt_table_entry *table_slot(const struct tfmt_table *t, uint32_t id)
{
	uint32_t i = id & t->mask, step;

	if (!t->entry[i].value || t->entry[i].id == id)
		return &t->entry[i];
	step = tfmt_hash(id) | 1;
	while (t->entry[i].value && t->entry[i].id != id)
		i = (i + step) & t->mask;
	return &t->entry[i];
}

static int table_grow(struct tfmt_table *t)
{
	struct tfmt_table bigger = { .nr = t->nr, .mask = t->mask ? t->mask * 2 + 1 : 255 };
	uint32_t i;

	bigger.entry = calloc((size_t)bigger.mask + 1, sizeof(*bigger.entry));
	if (!bigger.entry)
		return TFMT_E_NOMEM;
	for (i = 0; t->entry && i <= t->mask; i++) {
		if (t->entry[i].value)
			*table_slot(&bigger, t->entry[i].id) = t->entry[i];
	}
	free(t->entry);
	*t = bigger;
	return 0;
}

/* Later definitions of an id replace earlier ones. */
static int table_set(struct tfmt_table *t, uint32_t id, const void *value)
{
	struct tfmt_table_entry *e;

	if (!t->entry || t->nr > t->mask / 2) {
		int err = table_grow(t);

		if (err)
			return err;
	}
	e = table_slot(t, id);
	if (!e->value)
		t->nr++;
	*e = (struct tfmt_table_entry){ id, value };
	return 0;
}

const void *tfmt_table_get(const struct tfmt_table *t, uint32_t id)
{
	return t->entry ? table_slot(t, id)->value : NULL;
}

static int list_add(struct tfmt_list *l, const void *value)
{
	if (l->nr == l->max) {
		const void **grown = tfmt_array_grow(l->value, &l->max, sizeof(*grown));

		if (!grown)
			return TFMT_E_NOMEM;
		l->value = grown;
	}
	l->value[l->nr++] = value;
	return 0;
}

void tfmt_definitions_release(struct tfmt_definitions *d)
{
	struct tfmt_table *table[] = { &d->frames,  &d->codes,     &d->shapes,   &d->threads,
				       &d->devices, &d->functions, &d->strings, &d->instances, &d->info_ids,
				       &d->module_ids, &d->info_keys, &d->plain_frames };
	size_t i;

	for (i = 0; i < sizeof(table) / sizeof(*table); i++)
		free(table[i]->entry);
	free(d->modules.value);
	free(d->infos.value);
	free(d->sources.value);
	for (i = 0; i < TFMT_NR_DEVICES; i++)
		free(d->passes[i].pass);
	free(d->partial);
	free(d->plain);
	while (d->arena) {
		struct tfmt_arena_chunk *next = d->arena->next;

		free(d->arena);
		d->arena = next;
	}
}

/* ---- one definition -------------------------------------------------------------------------- */

/*
 * Where a node stands among the others. Its parent has been defined before, and is not defined again, so no chain is
 * longer than it seems. The node that would make a stack too deep stands for itself and all that is older.
 */
static void place_frame(struct tfmt_definitions *d, struct tfmt_frame_entry *e)
{
	const struct tfmt_frame_entry *parent = tfmt_table_get(&d->frames, e->frame.parent);

	if (!parent)
		e->frame.parent = 0;
	e->depth = parent ? parent->depth + 1 : 1;
	e->real_depth = parent ? parent->real_depth + 1 : 1;
	if (e->depth <= TFMT_STACK_DEPTH_MAX)
		return;
	e->frame = (struct tfmt_frame){ .kind = TFMT_FRAME_CUT, .a = e->real_depth };
	e->depth = 1;
	d->beyond.stacks++;
}

static bool is_alike(const struct tfmt_frame *a, const struct tfmt_frame *b)
{
	return a->parent == b->parent && a->kind == b->kind && a->a == b->a && a->b == b->b;
}

/* The plain frame that is what `f` is; else NULL and *at = where it would be. */
static const struct tfmt_frame_entry *find_plain(const struct tfmt_definitions *d, const struct tfmt_frame *f, uint32_t *at)
{
	const uint64_t key[] = { f->a, (uint64_t)f->parent << 32 | (uint32_t)f->b, f->kind };
	const struct tfmt_frame_entry *known;

	*at = (uint32_t)XXH64(key, sizeof(key), 0);
	while ((known = tfmt_table_get(&d->plain_frames, *at)) && !is_alike(&known->frame, f))
		++*at;
	return known;
}

/* Ids mostly have no gaps: what events ask for lies in a row. An id that is far from the others is not put there. */
static int note_plain(struct tfmt_definitions *d, uint32_t id, uint32_t plain)
{
	uint32_t room = d->nr_plain ? d->nr_plain : 1024, *grown;

	if (id >= 4 * (uint64_t)d->frames.nr + 1024)
		return 0;
	while (room <= id)
		room *= 2;
	if (room > d->nr_plain) {
		grown = realloc(d->plain, room * sizeof(*grown));
		if (!grown)
			return TFMT_E_NOMEM;
		memset(grown + d->nr_plain, 0, (room - d->nr_plain) * sizeof(*grown));
		d->plain = grown;
		d->nr_plain = room;
	}
	d->plain[id] = plain;
	return 0;
}

/* Up to the first frame that calls an instance all are plain, and none was looked for. */
static int begin_plain(struct tfmt_definitions *d)
{
	uint32_t at;
	int err = 0;

	for (uint32_t i = 0; !err && d->frames.entry && i <= d->frames.mask; i++) {
		const struct tfmt_frame_entry *e = d->frames.entry[i].value;

		if (e && !find_plain(d, &e->frame, &at))
			err = table_set(&d->plain_frames, at, e);
		if (e && !err)
			err = note_plain(d, e->plain, e->plain);
	}
	return err ? err : note_plain(d, TFMT_STACK_NO_PYTHON, TFMT_STACK_NO_PYTHON);
}

/* Of the stacks that differ in nothing but the instances that their frames call, the first stands for all. */
static int find_first(struct tfmt_definitions *d, struct tfmt_frame_entry *e, uint32_t id)
{
	const struct tfmt_frame_entry *parent = tfmt_table_get(&d->frames, e->frame.parent), *first;
	uint32_t at;
	int err;

	e->plain = id;
	e->call.parent = e->frame.parent;
	if (parent)
		e->frame.parent = parent->plain;
	if (!d->plain_frames.entry && !e->call.instance)
		return 0;
	if (!d->plain_frames.entry && (err = begin_plain(d)) != 0)
		return err;
	first = find_plain(d, &e->frame, &at);
	if (first)
		e->plain = first->plain;
	err = note_plain(d, id, e->plain);
	return err || first ? err : table_set(&d->plain_frames, at, e);
}

static int add_frame(struct tfmt_definitions *d, uint32_t id, struct tfmt_cursor *c)
{
	struct tfmt_frame_entry e = { 0 }, *copy;
	int64_t b;
	int err;

	e.frame.parent = tfmt_varint_get32(c);
	e.frame.kind = tfmt_varint_get32(c);
	e.frame.a = tfmt_varint_get(c);
	b = tfmt_unzigzag(tfmt_varint_get(c));
	e.frame.b = (int32_t)b;
	if (!c->bad && c->p < c->end && (e.frame.kind == TFMT_FRAME_PYTHON || e.frame.kind == TFMT_FRAME_PYTHON_ENTRY))
		e.call.instance = tfmt_varint_get32(c);
	/* A parent that is not older could make a stack that never ends. */
	if (c->bad || e.frame.parent >= id || !e.frame.kind || e.frame.b != b)
		return TFMT_E_DAMAGED;
	if (tfmt_table_get(&d->frames, id))
		return 0;
	copy = arena_take(d, sizeof(*copy));
	if (!copy)
		return TFMT_E_NOMEM;
	place_frame(d, &e);
	*copy = e;
	err = find_first(d, copy, id);
	return err ? err : table_set(&d->frames, id, copy);
}

static int add_code(struct tfmt_definitions *d, uint32_t id, struct tfmt_cursor *c)
{
	struct tfmt_code *k = arena_take(d, sizeof(*k));
	uint8_t *table;

	if (!k)
		return TFMT_E_NOMEM;
	k->table_kind = tfmt_varint_get32(c);
	k->first_line = tfmt_varint_get32(c);
	k->name = arena_string(d, c);
	k->file = arena_string(d, c);
	if (c->bad)
		return TFMT_E_DAMAGED;
	k->table_bytes = (size_t)(c->end - c->p);
	table = arena_take(d, k->table_bytes + 1);
	if (!k->name || !k->file || !table)
		return TFMT_E_NOMEM;
	memcpy(table, c->p, k->table_bytes);
	k->table = table;
	return table_set(&d->codes, id, k);
}

static int add_module(struct tfmt_definitions *d, uint32_t id, struct tfmt_cursor *c)
{
	struct tfmt_module *before = (void *)tfmt_table_get(&d->module_ids, id);
	struct tfmt_module *m = arena_take(d, sizeof(*m));

	if (!m)
		return TFMT_E_NOMEM;
	m->start = tfmt_varint_get(c);
	m->end = tfmt_varint_get(c);
	m->offset = tfmt_varint_get(c);
	m->path = arena_string(d, c);
	m->build_id = arena_string(d, c);
	if (c->bad)
		return TFMT_E_DAMAGED;
	if (!m->path || !m->build_id)
		return TFMT_E_NOMEM;
	if (before) {
		*before = *m;
		return 0;
	}
	return table_set(&d->module_ids, id, m) ? TFMT_E_NOMEM : list_add(&d->modules, m);
}

static int add_shape(struct tfmt_definitions *d, uint32_t id, struct tfmt_cursor *c)
{
	struct tfmt_shape *s = arena_take(d, sizeof(*s));
	uint64_t *dims;
	uint32_t i;

	if (!s)
		return TFMT_E_NOMEM;
	s->element_type = tfmt_varint_get32(c);
	s->bytes = tfmt_varint_get(c);
	s->nr_dims = tfmt_varint_get32(c);
	if (c->bad || s->nr_dims > NR_DIMS_MAX)
		return TFMT_E_DAMAGED;
	dims = arena_take(d, (s->nr_dims + 1) * sizeof(*dims));
	if (!dims)
		return TFMT_E_NOMEM;
	for (i = 0; i < s->nr_dims; i++)
		dims[i] = tfmt_varint_get(c);
	s->dims = dims;
	return c->bad ? TFMT_E_DAMAGED : table_set(&d->shapes, id, s);
}

static int add_thread(struct tfmt_definitions *d, uint32_t id, struct tfmt_cursor *c)
{
	struct tfmt_thread *t = arena_take(d, sizeof(*t));

	if (!t)
		return TFMT_E_NOMEM;
	t->tid = tfmt_varint_get32(c);
	t->name = arena_string(d, c);
	if (c->bad)
		return TFMT_E_DAMAGED;
	return t->name ? table_set(&d->threads, id, t) : TFMT_E_NOMEM;
}

static int add_device(struct tfmt_definitions *d, uint32_t id, struct tfmt_cursor *c)
{
	struct tfmt_device *v = arena_take(d, sizeof(*v));
	uint32_t physical;

	if (!v)
		return TFMT_E_NOMEM;
	v->capacity_bytes = tfmt_varint_get(c);
	v->name = arena_string(d, c);
	v->uuid = arena_string(d, c);
	v->pci_bus_id = arena_string(d, c);
	v->mig = tfmt_varint_get(c) != 0;
	physical = tfmt_varint_get32(c);
	v->physical_index = (int)(physical & 0x7fffffff) - 1;
	if (c->bad)
		return TFMT_E_DAMAGED;
	return v->name && v->uuid && v->pci_bus_id ? table_set(&d->devices, id, v) : TFMT_E_NOMEM;
}

/* A definition that is one string. */
static int add_text(struct tfmt_definitions *d, struct tfmt_table *to, uint32_t id, struct tfmt_cursor *c)
{
	const char *text = arena_string(d, c);

	if (c->bad)
		return TFMT_E_DAMAGED;
	return text ? table_set(to, id, text) : TFMT_E_NOMEM;
}

static int add_function(struct tfmt_definitions *d, uint32_t id, struct tfmt_cursor *c)
{
	return add_text(d, &d->functions, id, c);
}

static int add_string(struct tfmt_definitions *d, uint32_t id, struct tfmt_cursor *c)
{
	return add_text(d, &d->strings, id, c);
}

static int add_instance(struct tfmt_definitions *d, uint32_t id, struct tfmt_cursor *c)
{
	struct tfmt_instance *in = arena_take(d, sizeof(*in));

	if (!in)
		return TFMT_E_NOMEM;
	in->address = tfmt_varint_get(c);
	in->class_name = arena_string(d, c);
	if (c->bad)
		return TFMT_E_DAMAGED;
	return in->class_name ? table_set(&d->instances, id, in) : TFMT_E_NOMEM;
}

/* A value, or its beginning; NULL without memory. */
static const char *info_value(struct tfmt_definitions *d, struct tfmt_cursor *c)
{
	const uint8_t *s;
	size_t len;
	char *copy;

	if (!tfmt_string_get(c, &s, &len))
		return "";
	if (len > TFMT_INFO_VALUE_MAX) {
		len = TFMT_INFO_VALUE_MAX;
		d->beyond.values++;
	}
	copy = arena_take(d, len + 1);
	if (!copy)
		return NULL;
	memcpy(copy, s, len);
	copy[len] = 0;
	return copy;
}

/* The info of a key; else NULL and *at = where it would be. Notes have no place: each stands for itself. */
static struct tfmt_info *find_info(const struct tfmt_definitions *d, const char *key, uint32_t *at)
{
	struct tfmt_info *f;

	*at = (uint32_t)XXH64(key, strlen(key), 0);
	while ((f = (void *)tfmt_table_get(&d->info_keys, *at)) && strcmp(f->key, key))
		++*at;
	return f;
}

const struct tfmt_info *tfmt_definitions_info(const struct tfmt_definitions *d, const char *key)
{
	uint32_t i = d->infos.nr;

	if (strcmp(key, "note"))
		return find_info(d, key, &i);
	while (i--) {
		const struct tfmt_info *f = d->infos.value[i];

		if (!strcmp(f->key, key))
			return f;
	}
	return NULL;
}

/* The last value of a key holds: the list has it where the key came first. */
static int add_info(struct tfmt_definitions *d, uint32_t id, struct tfmt_cursor *c)
{
	struct tfmt_info *f = arena_take(d, sizeof(*f)), *before, *known;
	uint32_t at = 0;
	bool is_note;

	if (!f)
		return TFMT_E_NOMEM;
	f->key = arena_string(d, c);
	f->value = info_value(d, c);
	if (c->bad)
		return TFMT_E_DAMAGED;
	if (!f->key || !f->value)
		return TFMT_E_NOMEM;
	is_note = !strcmp(f->key, "note");
	known = is_note ? NULL : find_info(d, f->key, &at);
	before = known ? known : (void *)tfmt_table_get(&d->info_ids, id);
	if (!before && d->infos.nr == TFMT_INFO_MAX) {
		d->beyond.refused++;
		return 0;
	}
	if (before)
		*before = *f;
	if (!known && !is_note && table_set(&d->info_keys, at, before ? before : f))
		return TFMT_E_NOMEM;
	if (before)
		return 0;
	return table_set(&d->info_ids, id, f) ? TFMT_E_NOMEM : list_add(&d->infos, f);
}

static int add_passes(struct tfmt_definitions *d, uint32_t id, struct tfmt_cursor *c)
{
	(void)id;
	return d->ignores_passes ? 0 : tfmt_passes_read(d->passes, c);
}

/* Of a code object that is not known, nobody knows what it is the source of. */
static int add_source(struct tfmt_definitions *d, uint32_t id, struct tfmt_cursor *c)
{
	const struct tfmt_code *code = tfmt_table_get(&d->codes, id);
	struct tfmt_source_entry *s;
	struct tfmt_source source;

	source.bytes = tfmt_varint_get(c);
	source.hash = tfmt_varint_get(c);
	if (c->bad)
		return TFMT_E_DAMAGED;
	if (!code)
		return 0;
	s = arena_take(d, sizeof(*s));
	if (!s)
		return TFMT_E_NOMEM;
	*s = (struct tfmt_source_entry){ code->file, source };
	return list_add(&d->sources, s);
}

/* Is there room for so many bytes of definitions more? */
static bool has_room(const struct tfmt_definitions *d, uint64_t bytes)
{
	return !d->max_cost || (bytes <= d->max_cost && d->cost <= d->max_cost - bytes);
}

int tfmt_definitions_add(struct tfmt_definitions *d, uint32_t type, uint32_t id, const uint8_t *payload,
			 size_t len)
{
	static int (*const add[])(struct tfmt_definitions *, uint32_t, struct tfmt_cursor *) = {
		[TFMT_DEF_FRAME] = add_frame,       [TFMT_DEF_CODE] = add_code,
		[TFMT_DEF_MODULE] = add_module,     [TFMT_DEF_SHAPE] = add_shape,
		[TFMT_DEF_THREAD] = add_thread,     [TFMT_DEF_DEVICE] = add_device,
		[TFMT_DEF_FUNCTION] = add_function, [TFMT_DEF_INFO] = add_info,
		[TFMT_DEF_STRING] = add_string,     [TFMT_DEF_PASSES] = add_passes,
		[TFMT_DEF_SOURCE] = add_source,     [TFMT_DEF_INSTANCE] = add_instance,
	};
	struct tfmt_cursor c = { payload, payload + len, false };
	int err;

	if (!has_room(d, len + TFMT_DEFINITION_COST)) {
		d->beyond.refused++;
		return 0;
	}
	d->cost += len + TFMT_DEFINITION_COST;
	err = type < sizeof(add) / sizeof(*add) && add[type] ? add[type](d, id, &c) : 0;
	if (!err && d->hear)
		d->hear(d->hearer, type, id, payload, len);
	return err;
}

/* ---- a frame of them ------------------------------------------------------------------------- */

/* A chunk of a definition that does not lie in one frame. */
static int add_chunk(struct tfmt_definitions *d, uint32_t type, uint32_t id, uint64_t offset, uint64_t whole,
		     const uint8_t *bytes, size_t len)
{
	if (offset && (type != d->partial_type || id != d->partial_id || offset != d->partial_bytes ||
		       whole != d->partial_whole))
		return 0; /* its beginning was lost with a damaged frame, or it was refused */
	if (!has_room(d, offset + len + TFMT_DEFINITION_COST)) {
		d->partial_whole = 0; /* what follows is no part of anything */
		d->beyond.refused++;
		return 0;
	}
	d->partial_type = type;
	d->partial_id = id;
	d->partial_whole = whole;
	d->partial_bytes = offset;
	if (d->partial_room < offset + len) {
		size_t room = 2 * (offset + len);
		uint8_t *grown = realloc(d->partial, room);

		if (!grown)
			return TFMT_E_NOMEM;
		d->partial = grown;
		d->partial_room = room;
	}
	if (len)
		memcpy(d->partial + offset, bytes, len);
	d->partial_bytes += len;
	if (d->partial_bytes < whole)
		return 0;
	return tfmt_definitions_add(d, type, id, d->partial, whole);
}

int tfmt_definitions_add_frame(struct tfmt_definitions *d, const uint8_t *payload, size_t len, uint32_t nr,
			       uint64_t trace_bytes)
{
	struct tfmt_cursor c = { payload, payload + len, false };
	int result = 0;

	d->beyond = (struct tfmt_beyond){ 0 };
	d->max_cost = TFMT_DEFINITIONS_MAX(trace_bytes);

	while (nr--) {
		uint32_t type = tfmt_varint_get32(&c), id = tfmt_varint_get32(&c);
		uint64_t offset = tfmt_varint_get(&c), whole = tfmt_varint_get(&c), n = tfmt_varint_get(&c);
		const uint8_t *bytes = tfmt_bytes_get(&c, n);
		int err;

		if (!bytes || offset > whole || n > whole - offset)
			return TFMT_E_DAMAGED;
		if (n == whole)
			err = tfmt_definitions_add(d, type, id, bytes, n);
		else
			err = add_chunk(d, type, id, offset, whole, bytes, n);
		if (err == TFMT_E_NOMEM)
			return err;
		if (err)
			result = err;
	}
	return result;
}
