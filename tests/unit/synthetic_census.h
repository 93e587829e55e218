/* SPDX-License-Identifier: MIT */
/* Censuses made up by a unit test, beside a trace of synthetic.h. Every failure fails the test. */
#ifndef VT_TEST_SYNTHETIC_CENSUS_H
#define VT_TEST_SYNTHETIC_CENSUS_H

#include "synthetic.h"

struct synthetic_census {
	struct synthetic s; /* its file */
	struct tfmt_census_facts facts;
	uint32_t nr_strings, nr_objects, nr_tensors;
	/* of the objects that follow */
	const char *file, *function, *class_name;
	uint32_t line;
	uint64_t length; /* entries + 1 */
	uint64_t address; /* of an nn.Module */
};

static inline void synthetic_census_facts(struct synthetic_census *c)
{
	uint8_t buf[128], *p = buf;

	p = tfmt_put_varint(p, c->facts.why);
	p = tfmt_put_varint(p, c->facts.time_ns);
	p = tfmt_put_varint(p, c->facts.device);
	p = tfmt_put_varint(p, c->facts.allocated);
	p = tfmt_put_varint(p, c->facts.flags);
	p = tfmt_put_varint(p, c->nr_objects);
	p = tfmt_put_varint(p, c->nr_tensors);
	synthetic_define(&c->s, TFMT_DEF_CENSUS, 1, buf, p);
}

/* A census of process `pid` at a time, as file `path`. */
static inline void synthetic_census_open(struct synthetic_census *c, const char *path, uint32_t pid, uint64_t time_ns)
{
	struct tfmt_header header = synthetic_header(pid);

	header.storage = TFMT_STORAGE_ANONYMOUS;
	*c = (struct synthetic_census){ .facts = { .why = TFMT_CENSUS_HIGH, .time_ns = time_ns, .device = 0 } };
	synthetic_open(&c->s, path, &header);
	synthetic_census_facts(c);
}

/* Whole, or cut where it was written so far. */
static inline void synthetic_census_close(struct synthetic_census *c, bool is_whole)
{
	c->facts.flags = TFMT_CENSUS_WHOLE | TFMT_CENSUS_COLLECTOR;
	if (is_whole)
		synthetic_census_facts(c);
	synthetic_close(&c->s, is_whole ? 0 : 256);
}

static inline uint32_t synthetic_census_string(struct synthetic_census *c, const char *text)
{
	uint8_t buf[512], *p;

	if (!text || !*text)
		return 0;
	p = tfmt_put_string(buf, text, strlen(text));
	synthetic_define(&c->s, TFMT_DEF_STRING, ++c->nr_strings, buf, p);
	return c->nr_strings;
}

static inline uint32_t synthetic_object_put(struct synthetic_census *c, uint32_t parent, uint8_t edge, uint8_t kind,
					    uint64_t label)
{
	uint32_t file = synthetic_census_string(c, c->file), function = synthetic_census_string(c, c->function);
	uint32_t class_name = synthetic_census_string(c, c->class_name);
	uint8_t buf[128], *p = buf;

	p = tfmt_put_varint(p, parent);
	p = tfmt_put_varint(p, edge);
	p = tfmt_put_varint(p, kind);
	p = tfmt_put_varint(p, label);
	p = tfmt_put_varint(p, class_name);
	p = tfmt_put_varint(p, c->length);
	p = tfmt_put_varint(p, c->address);
	p = tfmt_put_varint(p, file);
	p = tfmt_put_varint(p, c->line);
	p = tfmt_put_varint(p, function);
	p = tfmt_put_varint(p, 0);
	synthetic_define(&c->s, TFMT_DEF_OBJECT, ++c->nr_objects, buf, p);
	c->file = c->function = c->class_name = NULL;
	c->line = 0;
	c->length = c->address = 0;
	return c->nr_objects;
}

/* An object whose edge has a name, or a number. Return its id. */
static inline uint32_t synthetic_object(struct synthetic_census *c, uint32_t parent, uint8_t edge, uint8_t kind,
					const char *name)
{
	return synthetic_object_put(c, parent, edge, kind, synthetic_census_string(c, name));
}

static inline uint32_t synthetic_element(struct synthetic_census *c, uint32_t parent, uint8_t edge, uint8_t kind,
					 uint64_t number)
{
	return synthetic_object_put(c, parent, edge, kind, number);
}

/* A variable of main() at train.py:31. */
static inline uint32_t synthetic_local(struct synthetic_census *c, uint8_t kind, const char *name)
{
	c->file = "/home/u/train.py";
	c->function = "main";
	c->line = 31;
	return synthetic_object(c, 0, TFMT_EDGE_LOCAL, kind, name);
}

static inline void synthetic_tensor(struct synthetic_census *c, uint32_t object, uint64_t address, uint64_t bytes)
{
	uint8_t buf[128], *p = buf;

	p = tfmt_put_varint(p, object);
	p = tfmt_put_varint(p, address);
	p = tfmt_put_varint(p, bytes);
	p = tfmt_put_varint(p, 0);
	p = tfmt_put_varint(p, 0);
	p = tfmt_put_varint(p, 1);
	synthetic_define(&c->s, TFMT_DEF_TENSOR, ++c->nr_tensors, buf, p);
}

/* module._parameters['weight'] and the like: the module's own dict, and in it a tensor or a module. */
static inline uint32_t synthetic_own(struct synthetic_census *c, uint32_t module, const char *dict, uint8_t kind,
				     const char *name)
{
	uint32_t own = synthetic_object(c, module, TFMT_EDGE_ATTRIBUTE, TFMT_KIND_DICT, dict);

	return synthetic_object(c, own, TFMT_EDGE_KEY, kind, name);
}

#endif
