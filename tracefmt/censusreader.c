/* SPDX-License-Identifier: MIT */
/* Reading a census: the objects and tensors that a copy of a process has found (FORMAT.md, section 12). */
#include "tracefmt/array.h"
#include "tracefmt/reader.h"
#include "tracefmt/tracefmt.h"
#include "tracefmt/varint.h"

#include <stdlib.h>
#include <string.h>

/* An object as the file has it: strings by their ids. */
struct ids {
	uint32_t label, class_name, file, function;
};

struct tfmt_census {
	struct tfmt_reader *reader;
	struct tfmt_census_facts facts;
	bool has_facts, is_short; /* of memory */
	struct tfmt_object_facts *object; /* by id - 1 */
	struct ids *ids;
	size_t objects_room, ids_room;
	uint32_t nr_objects, nr_missing; /* nr_missing: ids up to nr_objects that nothing has been heard of */
	struct tfmt_tensor *tensor;
	size_t tensors_room;
	uint32_t nr_tensors;
};

static void hear_facts(struct tfmt_census *c, struct tfmt_cursor *p)
{
	struct tfmt_census_facts f = { .why = tfmt_varint_get32(p) };

	f.time_ns = tfmt_varint_get(p);
	f.device = tfmt_varint_get32(p);
	f.allocated = tfmt_varint_get(p);
	f.flags = tfmt_varint_get32(p);
	f.nr_objects = tfmt_varint_get(p);
	f.nr_tensors = tfmt_varint_get(p);
	if (p->bad)
		return;
	c->facts = f;
	c->has_facts = true;
}

static bool make_room(struct tfmt_census *c, uint32_t id)
{
	while (c->objects_room < id) {
		struct tfmt_object_facts *objects = tfmt_array_grow(c->object, &c->objects_room, sizeof(*objects));
		struct ids *ids = objects ? tfmt_array_grow(c->ids, &c->ids_room, sizeof(*ids)) : NULL;

		c->object = objects ? objects : c->object;
		c->ids = ids ? ids : c->ids;
		if (!ids) {
			c->is_short = true;
			return false;
		}
	}
	return true;
}

/*
 * Ids have gaps where frames are damaged. No more are believed to be missing than the file has bytes so far: what is stored
 * of an object takes several.
 */
static bool is_next(const struct tfmt_census *c, uint32_t id)
{
	return id > c->nr_objects && c->nr_missing + (uint64_t)(id - c->nr_objects - 1) <= c->reader->offset;
}

static void hear_object(struct tfmt_census *c, uint32_t id, struct tfmt_cursor *p)
{
	struct tfmt_object_facts o = { .parent = tfmt_varint_get32(p) };
	uint64_t edge = tfmt_varint_get(p), kind = tfmt_varint_get(p), label = tfmt_varint_get(p);
	struct ids ids = { 0 };

	ids.class_name = tfmt_varint_get32(p);
	o.length = tfmt_varint_get(p);
	o.address = tfmt_varint_get(p);
	ids.file = tfmt_varint_get32(p);
	o.line = tfmt_varint_get32(p);
	ids.function = tfmt_varint_get32(p);
	o.thread = tfmt_varint_get32(p);
	o.flags = p->p < p->end ? tfmt_varint_get32(p) : 0; /* older files do not have these two */
	o.bound = p->p < p->end ? tfmt_varint_get(p) : 0;
	if (p->bad || !id || o.parent >= id || !edge || edge > UINT8_MAX || kind > UINT8_MAX || !is_next(c, id) ||
	    !make_room(c, id))
		return;
	o.edge = (uint8_t)edge;
	o.kind = (uint8_t)kind;
	if (o.edge == TFMT_EDGE_NUMBER)
		o.number = tfmt_unzigzag(label);
	else if (o.edge == TFMT_EDGE_OBJECT || o.edge == TFMT_EDGE_INDEX)
		o.number = (int64_t)label;
	else
		ids.label = label <= UINT32_MAX ? (uint32_t)label : 0;
	memset(c->object + c->nr_objects, 0, (id - c->nr_objects) * sizeof(o));
	memset(c->ids + c->nr_objects, 0, (id - c->nr_objects) * sizeof(ids));
	c->nr_missing += id - c->nr_objects - 1;
	c->object[id - 1] = o;
	c->ids[id - 1] = ids;
	c->nr_objects = id;
}

static void hear_tensor(struct tfmt_census *c, struct tfmt_cursor *p)
{
	struct tfmt_tensor t = { .object = tfmt_varint_get32(p) };
	uint64_t device, flags;

	t.address = tfmt_varint_get(p);
	t.bytes = tfmt_varint_get(p);
	device = tfmt_varint_get(p);
	flags = tfmt_varint_get(p);
	t.holders = tfmt_varint_get32(p);
	t.nodes = p->p < p->end ? tfmt_varint_get32(p) : 0; /* older files do not have it, nor what follows */
	t.own_bytes = p->p < p->end ? tfmt_varint_get(p) : 0;
	if (p->bad || device > UINT8_MAX)
		return;
	t.device = (uint8_t)device;
	t.flags = (uint8_t)flags;
	if (c->nr_tensors >= c->tensors_room) {
		struct tfmt_tensor *grown = tfmt_array_grow(c->tensor, &c->tensors_room, sizeof(*grown));

		if (!grown) {
			c->is_short = true;
			return;
		}
		c->tensor = grown;
	}
	c->tensor[c->nr_tensors++] = t;
}

static void hear(void *context, uint32_t type, uint32_t id, const uint8_t *payload, size_t len)
{
	struct tfmt_cursor p = { payload, payload + len, false };

	if (type == TFMT_DEF_CENSUS)
		hear_facts(context, &p);
	else if (type == TFMT_DEF_OBJECT)
		hear_object(context, id, &p);
	else if (type == TFMT_DEF_TENSOR)
		hear_tensor(context, &p);
}

/* Is it the same attribute as its parent is of the parent's parent, of an object of the same kind? */
static bool goes_on_chain(const struct tfmt_census *c, const struct tfmt_object_facts *o)
{
	const struct tfmt_object_facts *of = o->parent ? &c->object[o->parent - 1] : NULL;

	return of && o->edge == TFMT_EDGE_ATTRIBUTE && of->edge == TFMT_EDGE_ATTRIBUTE && o->kind == of->kind &&
	       !strcmp(o->name, of->name);
}

/* All strings are known now. What names an object that is not there is dropped: the tensor, or the way to it. */
static void resolve(struct tfmt_census *c)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < c->nr_objects; i++) {
		struct tfmt_object_facts *o = &c->object[i];
		const struct ids *ids = &c->ids[i];

		o->name = tfmt_reader_string(c->reader, ids->label);
		o->class_name = tfmt_reader_string(c->reader, ids->class_name);
		o->file = tfmt_reader_string(c->reader, ids->file);
		o->function = tfmt_reader_string(c->reader, ids->function);
		if (o->parent && !c->object[o->parent - 1].edge)
			o->edge = 0;
		o->root = o->parent ? c->object[o->parent - 1].root : i + 1;
		o->chain = goes_on_chain(c, o) ? c->object[o->parent - 1].chain : i + 1;
	}
	for (uint32_t i = 0; i < c->nr_objects; i++) {
		struct tfmt_object_facts *o = &c->object[i];

		if (o->edge == TFMT_EDGE_OBJECT &&
		    ((uint64_t)o->number > UINT32_MAX || !tfmt_census_object(c, (uint32_t)o->number)))
			o->number = 0;
	}
	for (uint32_t i = 0; i < c->nr_tensors; i++)
		if (tfmt_census_object(c, c->tensor[i].object))
			c->tensor[kept++] = c->tensor[i];
	c->nr_tensors = kept;
}

int tfmt_census_open(struct tfmt_census **out, const char *path)
{
	struct tfmt_census *c = calloc(1, sizeof(*c));
	struct tfmt_event ev;
	int got, err = c ? tfmt_reader_open(&c->reader, path, NULL) : TFMT_E_NOMEM;

	*out = NULL;
	if (!err) {
		tfmt_reader_hear(c->reader, hear, c);
		while ((got = tfmt_reader_next(c->reader, &ev)) != 0)
			c->is_short |= got == TFMT_E_NOMEM;
		resolve(c);
		err = c->is_short ? TFMT_E_NOMEM : c->has_facts ? 0 : TFMT_E_EMPTY;
	}
	if (err)
		tfmt_census_close(c);
	else
		*out = c;
	return err;
}

void tfmt_census_close(struct tfmt_census *c)
{
	if (!c)
		return;
	tfmt_reader_close(c->reader);
	free(c->object);
	free(c->ids);
	free(c->tensor);
	free(c);
}

const struct tfmt_census_facts *tfmt_census_facts(const struct tfmt_census *c)
{
	return &c->facts;
}

const struct tfmt_header *tfmt_census_header(const struct tfmt_census *c)
{
	return tfmt_reader_header(c->reader);
}

uint32_t tfmt_census_nr_objects(const struct tfmt_census *c)
{
	return c->nr_objects;
}

const struct tfmt_object_facts *tfmt_census_object(const struct tfmt_census *c, uint32_t id)
{
	return id && id <= c->nr_objects && c->object[id - 1].edge ? &c->object[id - 1] : NULL;
}

uint32_t tfmt_census_nr_tensors(const struct tfmt_census *c)
{
	return c->nr_tensors;
}

const struct tfmt_tensor *tfmt_census_tensor(const struct tfmt_census *c, uint32_t index)
{
	return index < c->nr_tensors ? &c->tensor[index] : NULL;
}
