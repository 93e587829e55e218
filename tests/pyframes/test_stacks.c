/* SPDX-License-Identifier: MIT */
/* Interning of frames and code objects, alone and under many threads, and the stored Python layouts. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "libinterpose/instances.h"
#include "libinterpose/interpose.h"
#include "libinterpose/pycode.h"
#include "libinterpose/pyframes.h"
#include "libinterpose/pylayout.h"
#include "libinterpose/stacktree.h"

/* ---- definitions, kept for comparison -------------------------------------------------------- */

#define IDS_MAX 200000u

struct kept {
	uint32_t len;
	uint8_t payload[120];
};

static struct kept frames[IDS_MAX], objects[IDS_MAX], modules[IDS_MAX];
static _Atomic uint32_t nr_frames, nr_objects, nr_modules;
static _Atomic bool refusing;

struct pyframes_known pyframes_known;

/* Nor is there more than one interpreter. */
bool pyframes_are_several_asked(void)
{
	return false;
}

/* Finalisation has not begun. */
bool pyframes_still_there_asked(void)
{
	return true;
}

bool ip_define(uint32_t type, uint32_t id, const void *payload, size_t len)
{
	struct kept *of = type == TFMT_DEF_CODE ? objects : type == TFMT_DEF_INSTANCE ? modules : frames, *k = &of[id];

	if (atomic_load(&refusing))
		return false;
	if (id >= IDS_MAX || k->len)
		abort(); /* defined twice */
	k->len = (uint32_t)len;
	memcpy(k->payload, payload, len < sizeof(k->payload) ? len : sizeof(k->payload));
	atomic_fetch_add(type == TFMT_DEF_CODE ? &nr_objects : type == TFMT_DEF_INSTANCE ? &nr_modules : &nr_frames, 1);
	return true;
}

static int begin(void **state)
{
	(void)state;
	memset(frames, 0, sizeof(frames));
	memset(objects, 0, sizeof(objects));
	memset(modules, 0, sizeof(modules));
	atomic_store(&nr_modules, 0);
	atomic_store(&nr_frames, 0);
	atomic_store(&nr_objects, 0);
	atomic_store(&refusing, false);
	pycode_init();
	instances_init();
	return !stacktree_init();
}

static uint64_t take_varint(const uint8_t **p)
{
	uint64_t v = 0;

	for (int shift = 0;; shift += 7) {
		uint8_t byte = *(*p)++;

		v |= (uint64_t)(byte & 127) << shift;
		if (!(byte & 128))
			return v;
	}
}

/* ---- the tree -------------------------------------------------------------------------------- */

static void test_a_node_is_defined_as_asked_for_and_once(void **state)
{
	uint32_t root = stacktree_child(STACKTREE_ROOT, TFMT_FRAME_PYTHON, 7, -1);
	uint32_t leaf = stacktree_child(root, TFMT_FRAME_NATIVE, 0x7fff12345678, 0);
	const uint8_t *p;

	(void)state;
	assert_int_equal(root, TFMT_STACK_FIRST);
	assert_int_equal(leaf, TFMT_STACK_FIRST + 1);
	assert_int_equal(stacktree_child(root, TFMT_FRAME_NATIVE, 0x7fff12345678, 0), leaf);
	assert_int_equal(atomic_load(&nr_frames), 2);

	p = frames[root].payload;
	assert_int_equal(take_varint(&p), STACKTREE_ROOT);
	assert_int_equal(take_varint(&p), TFMT_FRAME_PYTHON);
	assert_int_equal(take_varint(&p), 7);
	assert_int_equal(take_varint(&p), 1); /* -1, zigzag */
	assert_ptr_equal(p, frames[root].payload + frames[root].len);
	p = frames[leaf].payload;
	assert_int_equal(take_varint(&p), root);
	assert_int_equal(take_varint(&p), TFMT_FRAME_NATIVE);
	assert_int_equal(take_varint(&p), 0x7fff12345678);
}

static void test_nodes_differ_by_every_part(void **state)
{
	uint32_t id[6] = {
		stacktree_child(STACKTREE_ROOT, TFMT_FRAME_PYTHON, 1, 0),
		stacktree_child(STACKTREE_ROOT, TFMT_FRAME_PYTHON, 1, 1),
		stacktree_child(STACKTREE_ROOT, TFMT_FRAME_PYTHON, 2, 0),
		stacktree_child(STACKTREE_ROOT, TFMT_FRAME_NATIVE, 1, 0),
		stacktree_child(STACKTREE_ROOT, TFMT_FRAME_CUT, 1, 0),
		stacktree_child(TFMT_STACK_FIRST, TFMT_FRAME_PYTHON, 1, 0),
	};

	(void)state;
	for (int i = 0; i < 6; i++)
		for (int j = 0; j < i; j++)
			assert_int_not_equal(id[i], id[j]);
}

static void test_an_id_that_was_not_committed_is_not_published(void **state)
{
	uint32_t id;

	(void)state;
	atomic_store(&refusing, true);
	assert_int_equal(stacktree_child(STACKTREE_ROOT, TFMT_FRAME_PYTHON, 1, 1), 0);
	assert_int_equal(stacktree_child(STACKTREE_ROOT, TFMT_FRAME_PYTHON, 1, 1), 0);
	atomic_store(&refusing, false);
	id = stacktree_child(STACKTREE_ROOT, TFMT_FRAME_PYTHON, 2, 2);
	assert_int_equal(id, TFMT_STACK_FIRST);
	assert_int_equal(stacktree_child(STACKTREE_ROOT, TFMT_FRAME_PYTHON, 1, 1), TFMT_STACK_FIRST + 1);
	assert_int_equal(stacktree_child(STACKTREE_ROOT, TFMT_FRAME_PYTHON, 2, 2), id);
}

/* Frame i of stacks of 300 frames each. */
static uint32_t long_stacks(uint32_t parent, int i)
{
	return stacktree_child(i % 300 ? parent : STACKTREE_ROOT, TFMT_FRAME_PYTHON, (uint64_t)i, i);
}

static void test_the_tree_grows_and_keeps_its_ids(void **state)
{
	enum { NODES = 100000 };
	uint32_t *id = calloc(NODES, sizeof(*id)), parent = STACKTREE_ROOT;

	(void)state;
	assert_non_null(id);
	for (int i = 0; i < NODES; i++)
		parent = id[i] = long_stacks(parent, i);
	parent = STACKTREE_ROOT;
	for (int i = 0; i < NODES; i++) {
		parent = long_stacks(parent, i);
		assert_int_equal(parent, id[i]);
	}
	assert_int_equal(atomic_load(&nr_frames), NODES);
	free(id);
}

static void test_a_frame_of_python_has_its_instance(void **state)
{
	uint32_t without = stacktree_child(STACKTREE_ROOT, TFMT_FRAME_PYTHON, 7, 3);
	uint32_t with = stacktree_child(STACKTREE_ROOT, TFMT_FRAME_PYTHON_ENTRY, 7 | 300ull << 32, 3);
	const uint8_t *p = frames[with].payload;

	(void)state;
	assert_int_equal(frames[without].len, 4);
	assert_int_equal(take_varint(&p), STACKTREE_ROOT);
	assert_int_equal(take_varint(&p), TFMT_FRAME_PYTHON_ENTRY);
	assert_int_equal(take_varint(&p), 7);
	assert_int_equal(take_varint(&p), 6); /* 3, zigzag */
	assert_int_equal(take_varint(&p), 300);
	assert_ptr_equal(p, frames[with].payload + frames[with].len);
}

/* ---- objects that are called ------------------------------------------------------------------- */

struct fake_type {
	uint64_t head[3];
	const char *name;
};
struct fake_object {
	uint64_t count;
	const struct fake_type *type;
};

static uint32_t latest; /* of instances_id() */

static void test_an_object_has_one_id_and_its_class(void **state)
{
	static const struct fake_type linear = { .name = "Linear" }, conv = { .name = "Conv2d" };
	struct fake_object a = { .type = &linear }, b = { .type = &linear };
	uint32_t id = instances_id(&a, &latest);
	const uint8_t *p = modules[id].payload;

	(void)state;
	assert_int_equal(id, 1);
	assert_int_equal(take_varint(&p), (uintptr_t)&a);
	assert_int_equal(take_varint(&p), 6);
	assert_memory_equal(p, "Linear", 6);
	assert_ptr_equal(p + 6, modules[id].payload + modules[id].len);
	assert_int_equal(instances_id(&b, &latest), 2);
	assert_int_equal(instances_id(&a, &latest), 1);
	a.type = &conv; /* another object lies there */
	assert_int_equal(instances_id(&a, &latest), 3);
	a.type = &linear;
	assert_int_equal(instances_id(&a, &latest), 1);
	assert_int_equal(instances_id(NULL, &latest), 0);
	assert_int_equal(atomic_load(&nr_modules), 3);
}

static void test_of_too_many_objects_the_last_have_no_id(void **state)
{
	static const struct fake_type type = { .name = "Block" };
	struct fake_object *object = calloc(INSTANCES_MAX + 1, sizeof(*object));

	(void)state;
	assert_non_null(object);
	for (uint32_t i = 0; i <= INSTANCES_MAX; i++)
		object[i].type = &type;
	atomic_store(&refusing, true);
	assert_int_equal(instances_id(&object[0], &latest), 0);
	atomic_store(&refusing, false);
	for (uint32_t i = 0; i < INSTANCES_MAX; i++)
		assert_int_equal(instances_id(&object[i], &latest), i + 1);
	assert_int_equal(instances_id(&object[INSTANCES_MAX], &latest), 0);
	assert_int_equal(instances_id(&object[5], &latest), 6);
	free(object);
}

/* ---- code objects: memory laid out as an interpreter's -------------------------------------- */

struct fake_str {
	_Alignas(8) uint8_t bytes[160];
};

struct fake_code {
	_Alignas(8) uint8_t object[256];
	struct fake_str name, file;
	_Alignas(8) uint8_t table[128];
};

static void put64(void *base, int offset, uint64_t v)
{
	memcpy((uint8_t *)base + offset, &v, 8);
}

static void put32(void *base, int offset, uint32_t v)
{
	memcpy((uint8_t *)base + offset, &v, 4);
}

static void set_ascii(const struct pylayout *l, struct fake_str *s, const char *text)
{
	put64(s->bytes, PY_STR_LENGTH, strlen(text));
	put32(s->bytes, PY_STR_STATE, 1u << 2 | 1u << 5 | 1u << 6);
	memcpy(s->bytes + l->str_ascii, text, strlen(text) + 1);
}

/* Characters of `width` bytes each. */
static void set_wide(const struct pylayout *l, struct fake_str *s, unsigned width, const uint32_t *text,
		     unsigned n)
{
	put64(s->bytes, PY_STR_LENGTH, n);
	put32(s->bytes, PY_STR_STATE, width << 2 | 1u << 5);
	for (unsigned i = 0; i < n; i++)
		memcpy(s->bytes + l->str_wide + i * width, &text[i], width); /* little endian */
}

static void fake(const struct pylayout *l, struct fake_code *c, const char *name, const char *file,
		 uint32_t line, uint32_t version)
{
	memset(c, 0, sizeof(*c));
	set_ascii(l, &c->name, name);
	set_ascii(l, &c->file, file);
	put64(c->object, l->code_name, (uintptr_t)&c->name);
	put64(c->object, l->code_file, (uintptr_t)&c->file);
	put64(c->object, l->code_table, (uintptr_t)c->table);
	put32(c->object, l->code_line, line);
	put64(c->table, PY_OB_SIZE, 40);
	memset(c->table + PY_BYTES_DATA, 0xa5, 40);
	if (l->code_version >= 0)
		put32(c->object, l->code_version, version);
}

static void test_code_is_defined_as_it_is(void **state)
{
	static struct pycode_cache cache;

	(void)state;
	for (unsigned minor = PYLAYOUT_OLDEST; minor <= PYLAYOUT_NEWEST; minor++) {
		const struct pylayout *l = pylayout_of(minor);
		struct fake_code c;
		const uint8_t *p;

		begin(NULL);
		memset(&cache, 0, sizeof(cache));
		fake(l, &c, "f", "a.py", 300, 1);
		assert_int_equal(pycode_id(&cache, l, c.object), 1);
		p = objects[1].payload;
		assert_int_equal(take_varint(&p), l->lines);
		assert_int_equal(take_varint(&p), 300);
		assert_memory_equal(p, "\1f\4a.py", 7);
		assert_memory_equal(p + 7, c.table + PY_BYTES_DATA, 40);
		assert_int_equal(objects[1].len, 3 + 7 + 40);
	}
}

static void test_names_become_utf8(void **state)
{
	static const uint32_t latin[] = { 'f', 0xfc }, wide[] = { 0x65e5, 0xdcff };
	static const uint32_t widest[] = { 0x1f600, 'x' };
	static struct pycode_cache cache;
	const struct pylayout *l = pylayout_of(11);
	struct fake_code c;

	(void)state;
	memset(&cache, 0, sizeof(cache));
	fake(l, &c, "f", "a.py", 1, 0);
	set_wide(l, &c.name, 1, latin, 2);
	assert_int_equal(pycode_id(&cache, l, c.object), 1);
	assert_memory_equal(objects[1].payload + 2, "\3f\xc3\xbc\4a.py", 9);
	set_wide(l, &c.name, 2, wide, 2);
	assert_int_equal(pycode_id(&cache, l, c.object), 2);
	assert_memory_equal(objects[2].payload + 2, "\6\xe6\x97\xa5\xef\xbf\xbd\4a.py", 12);
	set_wide(l, &c.name, 4, widest, 2);
	assert_int_equal(pycode_id(&cache, l, c.object), 3);
	assert_memory_equal(objects[3].payload + 2, "\5\xf0\x9f\x98\x80x\4a.py", 11);
	assert_int_equal(pycode_id(&cache, l, c.object), 3);
	assert_int_equal(atomic_load(&nr_objects), 3);
}

static void test_another_object_at_the_same_address_is_seen(void **state)
{
	static struct pycode_cache cache;

	(void)state;
	for (unsigned minor = PYLAYOUT_OLDEST; minor <= PYLAYOUT_NEWEST; minor++) {
		const struct pylayout *l = pylayout_of(minor);
		struct fake_code c;

		begin(NULL);
		memset(&cache, 0, sizeof(cache));
		fake(l, &c, "f", "a.py", 1, 1);
		assert_int_equal(pycode_id(&cache, l, c.object), 1);
		fake(l, &c, "g", "a.py", 1, 2); /* only the name's characters differ before 3.12 */
		assert_int_equal(pycode_id(&cache, l, c.object), 2);
		fake(l, &c, "g", "b.py", 1, 3);
		assert_int_equal(pycode_id(&cache, l, c.object), 3);
		fake(l, &c, "g", "b.py", 2, 4);
		assert_int_equal(pycode_id(&cache, l, c.object), 4);
		fake(l, &c, "g", "b.py", 2, 0);
		c.table[PY_BYTES_DATA]++;
		assert_int_equal(pycode_id(&cache, l, c.object), 5);
		fake(l, &c, "f", "a.py", 1, 6); /* known content */
		assert_int_equal(pycode_id(&cache, l, c.object), 1);
		assert_int_equal(atomic_load(&nr_objects), 5);
	}
}

static void test_warming_up_does_not_change_an_object(void **state)
{
	static struct pycode_cache cache;
	const struct pylayout *l = pylayout_of(11);
	struct fake_code c;

	(void)state;
	memset(&cache, 0, sizeof(cache));
	fake(l, &c, "f", "a.py", 1, 0);
	assert_int_equal(pycode_id(&cache, l, c.object), 1);
	put32(c.object, 52, 0x12345678);
	c.table[PY_BYTES_DATA + 39]++; /* seen only when the object is read again */
	assert_int_equal(pycode_id(&cache, l, c.object), 1);
	put32(c.object, 56, 1);
	assert_int_equal(pycode_id(&cache, l, c.object), 2);
}

static void test_code_that_was_not_committed_has_no_id(void **state)
{
	static struct pycode_cache cache;
	const struct pylayout *l = pylayout_of(12);
	struct fake_code c;

	(void)state;
	memset(&cache, 0, sizeof(cache));
	fake(l, &c, "f", "a.py", 1, 1);
	atomic_store(&refusing, true);
	assert_int_equal(pycode_id(&cache, l, c.object), 0);
	atomic_store(&refusing, false);
	assert_int_equal(pycode_id(&cache, l, c.object), 1);
}

/* ---- many threads ---------------------------------------------------------------------------- */

enum { THREADS = 32, STACKS = 400, DEPTH = 12, CODES = 200 };
static uint32_t leaves[THREADS][STACKS], code_ids[THREADS][CODES];
static struct fake_code shared_code[CODES];

static void *intern_much(void *arg)
{
	unsigned self = (unsigned)(uintptr_t)arg;
	struct pycode_cache *cache = ip_map(sizeof(*cache));

	for (unsigned n = 0; cache && n < STACKS; n++) {
		unsigned stack = (n + self * 13) % STACKS;
		uint32_t node = STACKTREE_ROOT;

		for (unsigned d = 0; d < DEPTH; d++)
			node = stacktree_child(node, TFMT_FRAME_PYTHON, stack >> (DEPTH - d) / 2, (int32_t)d);
		leaves[self][stack] = node;
		code_ids[self][stack % CODES] =
			pycode_id(cache, pylayout_of(12), shared_code[stack % CODES].object);
	}
	ip_unmap(cache, sizeof(*cache));
	return NULL;
}

static void test_threads_agree_on_every_id(void **state)
{
	pthread_t thread[THREADS];
	char name[16];

	(void)state;
	for (unsigned i = 0; i < CODES; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		fake(pylayout_of(12), &shared_code[i], name, "a.py", i, i + 1);
	}
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, intern_much, (void *)i), 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	for (unsigned i = 1; i < THREADS; i++) {
		assert_memory_equal(leaves[i], leaves[0], sizeof(leaves[0]));
		assert_memory_equal(code_ids[i], code_ids[0], sizeof(code_ids[0]));
	}
	for (unsigned s = 0; s < STACKS; s++)
		assert_true(leaves[0][s] >= TFMT_STACK_FIRST);
	assert_int_equal(atomic_load(&nr_objects), CODES);
}

/* ---- stored layouts -------------------------------------------------------------------------- */

/* What each version's own headers, and for 3.14 its debug offsets, give: written down a second time. */
struct stored {
	unsigned minor;
	int file, name, line, table, basicsize;     /* PyCode_Type.tp_members, tp_basicsize */
	int frame, back, code, position, owner, locals; /* frame: in the thread state */
	int ascii_size;
	int finalizing; /* in _PyRuntime, after `initialized` */
};

static const struct stored stored[] = {
	{ 8, 104, 112, 40, 120, 0, 24, 24, 32, 104, -1, 360, 48, 0 },
	{ 9, 104, 112, 40, 120, 0, 24, 24, 32, 104, -1, 360, 48, 0 },
	{ 10, 104, 112, 40, 120, 0, 24, 24, 32, 96, -1, 352, 48, 0 },
	{ 11, 112, 128, 72, 136, 184, 56, 48, 32, 56, 69, 72, 48, 24 },
	{ 12, 112, 128, 68, 136, 192, 56, 8, 0, 56, 70, 72, 40, 24 },
	{ 13, 112, 128, 68, 136, 200, 72, 8, 0, 56, 70, 72, 40, 608 },
	{ 14, 112, 128, 68, 136, 208, 72, 8, 0, 56, 74, 80, 40, 784 },
};

struct image {
	_Alignas(8) uint8_t type[256], members[40 * 8], runtime[768];
};

static void add_member(struct image *m, int index, const char *name, int offset)
{
	put64(m->members, 40 * index, (uintptr_t)name);
	put64(m->members, 40 * index + 16, (uint64_t)offset);
}

/* PyCode_Type and _PyRuntime as that version has them. */
static void make_image(struct image *m, const struct stored *s)
{
	static const int runtime_13[] = { 184, 232, 240, 248, 264, 256, 280, 296, 304, 312,
					  344, 360, 520, 528, 544, 552, 560, 32 };
	static const int runtime_14[] = { 208, 256, 264, 272, 288, 280, 320, 336, 344, 352,
					  384, 408, 600, 608, 624, 632, 640, 32 };
	const int value[] = { s->frame, s->back, s->code, s->position, s->owner, s->locals, s->file, s->name, s->table,
			      s->line, s->basicsize, 8, 16, 32, 32, 16, s->ascii_size, s->finalizing };

	memset(m, 0, sizeof(*m));
	put64(m->type, 32, s->basicsize ? (uint64_t)s->basicsize : 176);
	put64(m->type, 240, (uintptr_t)m->members);
	add_member(m, 0, "co_argcount", 16);
	add_member(m, 1, "co_filename", s->file);
	add_member(m, 2, s->minor >= 11 ? "co_qualname" : "co_name", s->name);
	add_member(m, 3, "co_firstlineno", s->line);
	add_member(m, 4, s->minor >= 10 ? "co_linetable" : "co_lnotab", s->table);
	memcpy(m->runtime, "xdebugpy", 8);
	put64(m->runtime, 8, 0x03000000ull | s->minor << 16 | 0x02f0);
	for (size_t i = 0; i < sizeof(value) / sizeof(value[0]); i++)
		put64(m->runtime, s->minor == 13 ? runtime_13[i] : runtime_14[i], (uint64_t)value[i]);
}

static const char *check(struct image *m, const struct stored *s)
{
	return pylayout_check(pylayout_of(s->minor), s->minor, m->type, m->runtime);
}

static void test_layouts_are_those_stored(void **state)
{
	struct image m;

	(void)state;
	assert_null(pylayout_of(PYLAYOUT_OLDEST - 1));
	assert_null(pylayout_of(PYLAYOUT_NEWEST + 1));
	for (size_t i = 0; i < sizeof(stored) / sizeof(stored[0]); i++) {
		const struct stored *s = &stored[i];
		const struct pylayout *l = pylayout_of(s->minor);

		make_image(&m, s);
		assert_null(check(&m, s));
		assert_int_equal(l->state_frame, s->frame);
		assert_int_equal(l->frame_back, s->back);
		assert_int_equal(l->frame_code, s->code);
		assert_int_equal(l->frame_position, s->position);
		assert_int_equal(l->frame_owner, s->owner);
		assert_int_equal(l->frame_locals, s->locals);
		assert_int_equal(l->str_ascii, s->ascii_size);
		assert_int_equal(l->runtime_initialized, s->finalizing ? s->finalizing - 8 : -1);
		if (s->basicsize)
			assert_int_equal(l->code_traceable, s->basicsize - 16);
	}
}

static void test_a_layout_that_differs_is_refused(void **state)
{
	static const int members[] = { 1, 2, 3, 4 };
	struct image m;

	(void)state;
	for (size_t i = 0; i < sizeof(stored) / sizeof(stored[0]); i++) {
		const struct stored *s = &stored[i];

		for (int k = 0; k < 4; k++) {
			make_image(&m, s);
			m.members[40 * members[k] + 16] += 8;
			assert_non_null(check(&m, s));
		}
		make_image(&m, s);
		put64(m.type, 240, 0);
		assert_non_null(check(&m, s));
		if (s->minor >= 11) {
			make_image(&m, s);
			m.type[32] += 8;
			assert_non_null(check(&m, s));
		}
		if (s->minor < 13)
			continue;
		make_image(&m, s);
		put64(m.runtime, 16, 1);
		assert_string_equal(check(&m, s), "builds without the GIL cannot be read");
		make_image(&m, s);
		m.runtime[0] = 'y';
		assert_non_null(check(&m, s));
		make_image(&m, s);
		m.runtime[10]++;
		assert_non_null(check(&m, s));
		make_image(&m, s);
		m.runtime[s->minor == 13 ? 184 : 208] += 8;
		assert_non_null(check(&m, s));
		make_image(&m, s);
		m.runtime[32] += 8;
		assert_non_null(check(&m, s));
		assert_non_null(pylayout_check(pylayout_of(s->minor), s->minor, m.type, NULL));
	}
}

/* Until 3.10 frames are objects, whose type tells where the parts lie that it shows. */
static void test_frames_must_be_laid_out_as_known(void **state)
{
	uint64_t back[5] = { (uintptr_t)"f_back", 0, 24 }, code[5] = { (uintptr_t)"f_code", 0, 32 }, none[5] = { 0 };
	uint64_t members[15], type[32] = { 0 };

	(void)state;
	memcpy(&members[0], back, sizeof(back));
	memcpy(&members[5], code, sizeof(code));
	memcpy(&members[10], none, sizeof(none));
	type[30] = (uintptr_t)members;
	for (unsigned minor = PYLAYOUT_OLDEST; minor <= 10; minor++) {
		members[7] = 32;
		type[4] = (uint64_t)pylayout_of(minor)->frame_locals;
		assert_string_equal(pylayout_check_frames(pylayout_of(minor), minor, type), "its frames are laid out differently");
		type[4] += sizeof(void *);
		assert_null(pylayout_check_frames(pylayout_of(minor), minor, type));
		members[7] = 40;
		assert_string_equal(pylayout_check_frames(pylayout_of(minor), minor, type), "its frames are laid out differently");
		assert_non_null(pylayout_check_frames(pylayout_of(minor), minor, NULL));
	}
	assert_null(pylayout_check_frames(pylayout_of(11), 11, NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_frames_must_be_laid_out_as_known),
		cmocka_unit_test_setup(test_a_node_is_defined_as_asked_for_and_once, begin),
		cmocka_unit_test_setup(test_nodes_differ_by_every_part, begin),
		cmocka_unit_test_setup(test_an_id_that_was_not_committed_is_not_published, begin),
		cmocka_unit_test_setup(test_the_tree_grows_and_keeps_its_ids, begin),
		cmocka_unit_test_setup(test_a_frame_of_python_has_its_instance, begin),
		cmocka_unit_test_setup(test_an_object_has_one_id_and_its_class, begin),
		cmocka_unit_test_setup(test_of_too_many_objects_the_last_have_no_id, begin),
		cmocka_unit_test_setup(test_code_is_defined_as_it_is, begin),
		cmocka_unit_test_setup(test_names_become_utf8, begin),
		cmocka_unit_test_setup(test_another_object_at_the_same_address_is_seen, begin),
		cmocka_unit_test_setup(test_warming_up_does_not_change_an_object, begin),
		cmocka_unit_test_setup(test_code_that_was_not_committed_has_no_id, begin),
		cmocka_unit_test_setup(test_threads_agree_on_every_id, begin),
		cmocka_unit_test(test_layouts_are_those_stored),
		cmocka_unit_test(test_a_layout_that_differs_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
