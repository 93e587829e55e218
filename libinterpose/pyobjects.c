/* SPDX-License-Identifier: MIT */
/* What each kind of CPython's objects holds. */
#include "pyobjects.h"

#include <string.h>

#include "pyarray.h"
#include "pyframes.h"
#include "pytext.h"
#include "traverse.h"
#include "tracefmt/tracefmt.h"

#define MANAGED_DICT (1ull << 4)  /* tp_flags, 3.11 and later */
#define INLINE_VALUES (1ull << 2) /* 3.13 and later */
#define FIRST_OBJECT 8            /* a pointer below that, and one that is not a multiple of it, is none */
#define LIST_ITEMS 24             /* pointer to them */
#define TYPE_ITEMSIZE 40
#define MODULE_DICT 16
#define CELL_CONTENT 16
#define METHOD_FUNCTION 16
#define METHOD_SELF 24
#define TRACEBACK_NEXT 16
#define TRACEBACK_FRAME 24
#define INT_DIGITS 24
#define MEMBER_OBJECT 6     /* PyMemberDef types */
#define MEMBER_OBJECT_EX 16
#define MEMBERS_MAX 256
#define INLINE_MAX 30u /* attributes without a dict, at most */
#define VARIABLES_MAX 65536
#define FETCH_AHEAD 4  /* items that the processor may fetch meanwhile: they lie anywhere in memory */
#define SLOT_NAME_MAX 256 /* characters of one that is not ASCII */

/* ---- types ------------------------------------------------------------------------------------------ */

static inline bool is_of(const struct pyobjects *py, const void *object, enum pytype type)
{
	return object && pyobject_type(object) == py->type[type];
}

/* The items of a tuple come after what its class calls its size: from 3.14 on that has a hash. */
static inline const void *const *items_of(const void *tuple, const void *tuple_class)
{
	return (const void *const *)((const char *)tuple + py_long(tuple_class, PY_TYPE_BASICSIZE));
}

static inline const void *item(const void *tuple, int64_t i)
{
	return items_of(tuple, pyobject_type(tuple))[i];
}

bool pytype_is(const void *type, const void *base)
{
	const void *mro = py_pointer(type, PY_TYPE_MRO);
	int64_t nr = mro ? py_long(mro, PY_OB_SIZE) : 0;

	for (int64_t i = 0; i < nr; i++)
		if (item(mro, i) == base)
			return true;
	return type == base;
}

static bool is_named(const struct pyobjects *py, const void *type, const char *module, const char *name)
{
	const void *dict, *from;

	if (!(pytype_flags(type) & PY_FLAG_HEAP) || strcmp(py_pointer(type, PY_TYPE_NAME), name) != 0)
		return false;
	dict = py_pointer(type, PY_TYPE_DICT);
	from = dict ? pyobjects_get(py, dict, "__module__") : NULL;
	return is_of(py, from, PYTYPE_STR) && pytext_is(py->layout, from, module);
}

bool pytype_is_named(const struct pyobjects *py, const void *type, const char *module, const char *name)
{
	const void *mro = py_pointer(type, PY_TYPE_MRO);
	int64_t nr = mro ? py_long(mro, PY_OB_SIZE) : 0;

	for (int64_t i = 0; i < nr; i++)
		if (is_named(py, item(mro, i), module, name))
			return true;
	return false;
}

bool pyobject_holds(const struct pyobjects *py, const void *object)
{
	const void *type = pyobject_type(object);
	int (*is_gc)(const void *);

	(void)py;
	if (!(pytype_flags(type) & PY_FLAG_GC))
		return pyarray_holds(object);
	is_gc = (int (*)(const void *))py_pointer(type, PY_TYPE_IS_GC);
	return !is_gc || is_gc(object);
}

const void *pyobjects_get(const struct pyobjects *py, const void *dict, const char *key)
{
	const void *k, *value;
	ssize_t position = 0;

	while (py->dict_next(dict, &position, &k, &value))
		if (is_of(py, k, PYTYPE_STR) && pytext_is(py->layout, k, key))
			return value;
	return NULL;
}

bool pyobjects_int(const struct pyobjects *py, const void *object, int64_t *value)
{
	int64_t size = py_long(object, PY_OB_SIZE), digits = size < 0 ? -size : size;
	bool is_negative = size < 0;

	if (py->minor >= 12) {
		digits = size >> 3;
		is_negative = (size & 3) == 2;
	}
	if (digits > 2)
		return false;
	*value = digits > 0 ? py_int(object, INT_DIGITS) : 0;
	if (digits > 1)
		*value |= (int64_t)py_int(object, INT_DIGITS + 4) << 30;
	if (is_negative)
		*value = -*value;
	return true;
}

/* ---- what each holds -------------------------------------------------------------------------------- */

/* Where edges of one object go. */
struct sink {
	const struct pyobjects *py;
	pyedge_fn *fn;
	void *context;
};

static inline void tell(const struct sink *s, const void *object, uint8_t edge, const void *name, int64_t number)
{
	struct pyedge e = { .object = object, .edge = edge, .name = name, .number = number };

	if ((uintptr_t)object >= FIRST_OBJECT && !((uintptr_t)object & (FIRST_OBJECT - 1)))
		s->fn(s->context, &e);
}

/* Entries of a dict; those with a str as their key by this edge. */
static void each_entry(const struct sink *s, const void *dict, uint8_t edge)
{
	const void *key, *value;
	ssize_t position = 0;

	while (s->py->dict_next(dict, &position, &key, &value)) {
		if (is_of(s->py, key, PYTYPE_STR))
			tell(s, value, edge, key, 0);
		else if (is_of(s->py, key, PYTYPE_INT))
			tell(s, value, TFMT_EDGE_NUMBER, key, 0);
		else
			tell(s, value, TFMT_EDGE_OBJECT, key, 0);
		if (pyobject_holds(s->py, key))
			tell(s, key, TFMT_EDGE_MEMBER, NULL, 0);
	}
}

static void each_item(const struct sink *s, const void *const *item, int64_t nr)
{
	for (int64_t i = 0; i < nr; i++) {
		if (i + FETCH_AHEAD < nr)
			__builtin_prefetch(item[i + FETCH_AHEAD]);
		tell(s, item[i], TFMT_EDGE_INDEX, NULL, i);
	}
}

static void tell_item(void *context, const void *object, int64_t index)
{
	tell(context, object, index < 0 ? TFMT_EDGE_MEMBER : TFMT_EDGE_INDEX, NULL, index < 0 ? 0 : index);
}

/* Attributes that an object keeps without a dict, beside the keys that its class has for all of them. */
static void each_value(const struct sink *s, const void *type, const char *values)
{
	const char *keys = py_pointer(type, s->py->cached_keys), *entry;
	uint64_t nr;
	size_t step;

	if (!keys)
		return;
	nr = (uint64_t)py_long(keys, 24);
	if (s->py->values && nr > *(const uint8_t *)values)
		nr = *(const uint8_t *)values; /* their capacity */
	if (nr > INLINE_MAX)
		nr = INLINE_MAX;
	step = keys[10] ? 16 : 24; /* all keys are str, or their hashes are kept */
	entry = keys + 32 + ((size_t)1 << (uint8_t)keys[9]) + (step - 16);
	for (uint64_t i = 0; i < nr; i++)
		__builtin_prefetch(py_pointer(values, s->py->values + 8 * (long)i));
	for (uint64_t i = 0; i < nr; i++) {
		const void *value = py_pointer(values, s->py->values + 8 * (long)i);

		if (value && py_pointer(entry, (long)(i * step)))
			tell(s, value, TFMT_EDGE_ATTRIBUTE, py_pointer(entry, (long)(i * step)), 0);
	}
}

/* A dict that the interpreter manages for the object, or the values in its place: 3.11 and later. */
static void each_managed(const struct sink *s, const void *object, const void *type)
{
	const char *p = object, *dict = py_pointer(p, -24), *values = NULL;

	if (s->py->minor == 11) {
		values = py_pointer(p, -32);
	} else if (s->py->minor == 12) {
		if ((uintptr_t)dict & 1) {
			values = dict + 1;
			dict = NULL;
		}
	} else if (!dict && pytype_flags(type) & INLINE_VALUES) {
		values = p + py_long(type, PY_TYPE_BASICSIZE);
		if (!values[3]) /* they are not valid */
			values = NULL;
	}
	if (dict && pytype_flags(pyobject_type(dict)) & PY_FLAG_DICT)
		each_entry(s, dict, TFMT_EDGE_ATTRIBUTE);
	else if (values)
		each_value(s, type, values);
}

/* Of an object with as many items as it needs the dict comes after them: the offset is from its end, and negative. */
static int64_t dict_offset(const void *object, const void *type)
{
	int64_t offset = py_long(type, PY_TYPE_DICTOFFSET), nr, bytes;

	if (offset >= 0)
		return offset;
	nr = py_long(object, PY_OB_SIZE);
	bytes = py_long(type, PY_TYPE_BASICSIZE) + (nr < 0 ? -nr : nr) * py_long(type, TYPE_ITEMSIZE);
	return ((bytes + 7) & ~INT64_C(7)) + offset;
}

static void each_attribute(const struct sink *s, const void *object, const void *type)
{
	int64_t offset;
	const void *dict;

	if (s->py->minor >= 11 && pytype_flags(type) & MANAGED_DICT) {
		each_managed(s, object, type);
		return;
	}
	offset = dict_offset(object, type);
	dict = offset > 0 ? py_pointer(object, offset) : NULL;
	if (dict && pytype_flags(pyobject_type(dict)) & PY_FLAG_DICT)
		each_entry(s, dict, TFMT_EDGE_ATTRIBUTE);
}

struct wanted {
	const struct pyobjects *py;
	const char *name;
	const void *value;
};

static void take_wanted(void *context, const struct pyedge *e)
{
	struct wanted *w = context;

	if (e->edge == TFMT_EDGE_ATTRIBUTE && is_of(w->py, e->name, PYTYPE_STR) && pytext_is(w->py->layout, e->name, w->name))
		w->value = e->object;
}

const void *pyobjects_attribute(const struct pyobjects *py, const void *object, const char *name)
{
	struct wanted wanted = { .py = py, .name = name };
	struct sink s = { .py = py, .fn = take_wanted, .context = &wanted };

	each_attribute(&s, object, pyobject_type(object));
	return wanted.value;
}

int pyobjects_bool(const struct pyobjects *py, const void *object)
{
	const char *class = py_pointer(pyobject_type(object), PY_TYPE_NAME);
	int64_t value;

	return class && !strcmp(class, "bool") && pyobjects_int(py, object, &value) ? value != 0 : -1;
}

/* Is a str this text in UTF-8? */
static bool is_text(const struct pyobjects *py, const void *str, const char *text)
{
	uint8_t utf8[4 * SLOT_NAME_MAX];
	struct pytext t;

	if (pytext_is(py->layout, str, text))
		return true;
	t = pytext_of(py->layout, str, SLOT_NAME_MAX);
	return !t.ascii && t.length && pytext_bytes(&t) == strlen(text) &&
	       !memcmp(utf8, text, (size_t)(pytext_put(utf8, &t) - utf8));
}

/* The name of a slot as a str, by which its class has the descriptor. */
static const void *slot_name(const struct pyobjects *py, const void *class, const char *name)
{
	const void *dict = py_pointer(class, PY_TYPE_DICT), *key, *value;
	ssize_t position = 0;

	while (dict && py->dict_next(dict, &position, &key, &value))
		if (is_of(py, key, PYTYPE_STR) && is_text(py, key, name))
			return key;
	return NULL;
}

static void each_slot_of(const struct sink *s, const void *object, const void *class)
{
	const char *m = py_pointer(class, PY_TYPE_MEMBERS);

	if (!(pytype_flags(class) & PY_FLAG_HEAP))
		return;
	for (int i = 0; m && i < MEMBERS_MAX && py_pointer(m, 0); i++, m += PY_MEMBER_BYTES) {
		int type = py_int(m, PY_MEMBER_TYPE);
		const void *held;

		if (type != MEMBER_OBJECT_EX && type != MEMBER_OBJECT)
			continue;
		held = py_pointer(object, py_long(m, PY_MEMBER_OFFSET));
		if (held && pyobject_holds(s->py, held))
			tell(s, held, TFMT_EDGE_ATTRIBUTE, slot_name(s->py, class, py_pointer(m, 0)), 0);
	}
}

static void each_slot(const struct sink *s, const void *object, const void *type)
{
	const void *mro = py_pointer(type, PY_TYPE_MRO);
	int64_t nr = mro ? py_long(mro, PY_OB_SIZE) : 0;

	for (int64_t i = 0; i < nr; i++)
		each_slot_of(s, object, item(mro, i));
}

static int visit(const void *object, void *arg)
{
	tell(arg, object, TFMT_EDGE_MEMBER, NULL, 0);
	return 0;
}

/*
 * A tuple, or one with names made in C (sys.version_info), holds its items and nothing else. The latter's own traverse
 * asks the current thread of Python's how many they are in 3.12, and here may be none.
 */
static bool is_all_items(const void *type)
{
	return (pytype_flags(type) & (PY_FLAG_TUPLE | PY_FLAG_HEAP)) == PY_FLAG_TUPLE;
}

static void each_member(const struct sink *s, const void *object, const void *type)
{
	traverse_fn *traverse = (traverse_fn *)py_pointer(type, PY_TYPE_TRAVERSE);

	if (is_all_items(type)) {
		const void *const *item = items_of(object, s->py->type[PYTYPE_TUPLE]);

		for (int64_t i = 0; i < py_long(object, PY_OB_SIZE); i++)
			tell(s, item[i], TFMT_EDGE_MEMBER, NULL, 0);
	} else if (traverse) {
		traverse_object(traverse, object, visit, (void *)s);
	}
}

/* How many a tuple has; 0: it is none. */
static int64_t nr_of(const struct pyobjects *py, const void *tuple)
{
	return is_of(py, tuple, PYTYPE_TUPLE) ? py_long(tuple, PY_OB_SIZE) : 0;
}

/* Variables of a function from outside, and what arguments are that are not given. */
static void each_of_function(const struct sink *s, const void *function)
{
	const struct pyobjects *py = s->py;
	const void *closure = py_pointer(function, py->function_closure);
	const void *defaults = py_pointer(function, py->function_closure - 16);
	const void *named_defaults = py_pointer(function, py->function_closure - 8);
	const void *code = py_pointer(function, py->function_code);
	const void *names, *free;
	int64_t nr, nr_names;

	if (!is_of(py, code, PYTYPE_CODE))
		return;
	names = py_pointer(code, py->code_names);
	free = py->code_kinds >= 0 ? names : py_pointer(code, py->code_free);
	nr = nr_of(py, closure);
	nr_names = nr_of(py, free);
	for (int64_t i = 0; i < nr; i++) {
		const void *cell = item(closure, i);
		int64_t at = nr_names - nr + i; /* they come last */

		if (is_of(py, cell, PYTYPE_CELL))
			tell(s, py_pointer(cell, CELL_CONTENT), TFMT_EDGE_CELL,
			     at >= 0 ? item(free, at) : NULL, 0);
	}
	nr = nr_of(py, defaults);
	nr_names = nr_of(py, names);
	for (int64_t i = 0; i < nr; i++) {
		int64_t at = py_int(code, py->code_arguments) - nr + i;

		tell(s, item(defaults, i), TFMT_EDGE_DEFAULT, at >= 0 && at < nr_names ? item(names, at) : NULL, 0);
	}
	if (is_of(py, named_defaults, PYTYPE_DICT))
		each_entry(s, named_defaults, TFMT_EDGE_DEFAULT);
	each_attribute(s, function, pyobject_type(function));
}

static bool is_generator(const struct pyobjects *py, const void *type)
{
	return type == py->type[PYTYPE_GENERATOR] || type == py->type[PYTYPE_COROUTINE] ||
	       type == py->type[PYTYPE_ASYNC_GENERATOR];
}

const void *pyobjects_frame(const struct pyobjects *py, const void *object)
{
	const void *type = pyobject_type(object), *frame = object;

	if (is_generator(py, type)) {
		if (py->generator_state < 0)
			return py_pointer(object, py->generator_frame);
		if (*((const int8_t *)object + py->generator_state) >= 1)
			return NULL;
		return (const char *)object + py->generator_frame;
	}
	if (type == py->type[PYTYPE_TRACEBACK])
		frame = py_pointer(object, TRACEBACK_FRAME);
	if (!is_of(py, frame, PYTYPE_FRAME))
		return NULL;
	return py->frame_object >= 0 ? py_pointer(frame, py->frame_object) : frame;
}

/* What object a word of a frame is, NULL: none. From 3.14 on its lowest bits say who counts it, or that it is a number. */
static const void *object_in(const struct pyobjects *py, const void *word)
{
	uintptr_t v = (uintptr_t)word;

	if (py->minor < 14)
		return word;
	return (v & 3) == 3 ? NULL : (const void *)(v & ~(uintptr_t)3);
}

/* The end of what a frame that does not run just now has on its stack, from `begin` on; NULL where it cannot be told. */
static const void *const *stack_end(const struct pyobjects *py, const void *frame, const void *const *begin)
{
	const void *code = pyframe_code(py->layout, frame);
	const void *const *end;

	if (py->minor <= 9 || py->minor >= 14)
		end = py_pointer(frame, py->frame_stack);
	else if (py->minor == 10)
		end = begin + py_int(frame, py->frame_stack);
	else
		end = (const void *const *)((const char *)frame + py->frame_locals) + py_int(frame, py->frame_stack);
	return end > begin && end <= begin + py_int(code, py->code_stack) ? end : NULL;
}

/* Of what waits: what it goes through in a loop, and what it waits for itself. */
static void each_on_stack(const struct sink *s, const void *frame)
{
	const struct pyobjects *py = s->py;
	const void *const *begin = (const void *const *)((const char *)frame + py->frame_locals);
	const void *code = pyframe_code(py->layout, frame);
	const void *const *end;

	if (!is_of(py, code, PYTYPE_CODE))
		return;
	begin += nr_of(py, py_pointer(code, py->code_names));
	if (py->code_kinds < 0)
		begin += nr_of(py, py_pointer(code, py->code_cells)) + nr_of(py, py_pointer(code, py->code_free));
	end = stack_end(py, frame, begin);
	for (; end && begin < end; begin++)
		tell(s, object_in(py, *begin), TFMT_EDGE_MEMBER, NULL, 0);
}

/* What only a class itself knows how to find; a class's attributes are its dict's, which its own objects do not lead to. */
static void each_of_other(const struct sink *s, const void *object, const void *type)
{
	uint64_t flags = pytype_flags(type);

	if (flags & PY_FLAG_TYPE) {
		const void *dict = py_pointer(object, PY_TYPE_DICT);

		if (is_of(s->py, dict, PYTYPE_DICT))
			each_entry(s, dict, TFMT_EDGE_ATTRIBUTE);
		return;
	}
	if (flags & PY_FLAG_DICT)
		each_entry(s, object, TFMT_EDGE_KEY);
	else if (flags & PY_FLAG_LIST)
		each_item(s, py_pointer(object, LIST_ITEMS), py_long(object, PY_OB_SIZE));
	else if (flags & PY_FLAG_TUPLE)
		each_item(s, items_of(object, s->py->type[PYTYPE_TUPLE]), py_long(object, PY_OB_SIZE));
	else if (pyarray_holds(object))
		pyarray_each(object, tell_item, (void *)s);
	each_attribute(s, object, type);
	if (flags & PY_FLAG_HEAP)
		each_slot(s, object, type);
	if (type != s->py->type[PYTYPE_DICT] && type != s->py->type[PYTYPE_LIST] && !is_all_items(type))
		each_member(s, object, type);
}

void pyobjects_each(const struct pyobjects *py, const void *object, pyedge_fn *fn, void *context)
{
	const struct sink s = { py, fn, context };
	const void *type = pyobject_type(object);

	if (type == py->type[PYTYPE_FUNCTION]) {
		each_of_function(&s, object);
	} else if (type == py->type[PYTYPE_METHOD]) {
		tell(&s, py_pointer(object, METHOD_SELF), TFMT_EDGE_SELF, NULL, 0);
		tell(&s, py_pointer(object, METHOD_FUNCTION), TFMT_EDGE_FUNCTION, NULL, 0);
	} else if (is_generator(py, type) || type == py->type[PYTYPE_TRACEBACK] || type == py->type[PYTYPE_FRAME]) {
		const void *frame = pyobjects_frame(py, object);

		if (frame) {
			pyobjects_locals(py, frame, 0, fn, context);
			each_on_stack(&s, frame);
		}
		if (type == py->type[PYTYPE_TRACEBACK])
			tell(&s, py_pointer(object, TRACEBACK_NEXT), TFMT_EDGE_MEMBER, NULL, 0);
	} else if (pytype_is(type, py->type[PYTYPE_MODULE])) {
		const void *dict = py_pointer(object, MODULE_DICT);

		if (is_of(py, dict, PYTYPE_DICT))
			each_entry(&s, dict, TFMT_EDGE_ATTRIBUTE);
	} else {
		each_of_other(&s, object, type);
	}
}

void pyobjects_traverse(const struct pyobjects *py, const void *object, pyedge_fn *fn, void *context)
{
	const struct sink s = { py, fn, context };

	each_member(&s, object, pyobject_type(object));
}

/* ---- frames -------------------------------------------------------------------------------------------- */

const void *pyobjects_globals(const struct pyobjects *py, const void *frame, bool *is_module_level)
{
	const void *globals = py_pointer(frame, py->frame_globals);

	*is_module_level = py_pointer(frame, py->frame_names) == globals;
	return is_of(py, globals, PYTYPE_DICT) ? globals : NULL;
}

/* A variable's value: of one that functions share it lies in a cell. */
static void tell_variable(const struct sink *s, const void *word, const void *name, int64_t number)
{
	const void *value = object_in(s->py, word);

	if (is_of(s->py, value, PYTYPE_CELL))
		value = py_pointer(value, CELL_CONTENT);
	tell(s, value, TFMT_EDGE_LOCAL, name, number);
}

/* The variables that one tuple of names is of, from a place on; returns the place after them. */
static const void *const *each_named(const struct sink *s, const void *names, const void *const *value, int64_t number)
{
	int64_t nr = nr_of(s->py, names);

	for (int64_t i = 0; i < nr && i < VARIABLES_MAX; i++)
		tell_variable(s, *value++, item(names, i), number);
	return value;
}

void pyobjects_locals(const struct pyobjects *py, const void *frame, int64_t number, pyedge_fn *fn, void *context)
{
	const struct sink s = { py, fn, context };
	const void *code = pyframe_code(py->layout, frame), *names = py_pointer(frame, py->frame_names), *key, *held;
	const void *const *value = (const void *const *)((const char *)frame + py->frame_locals);
	ssize_t position = 0;
	bool is_module_level;

	if (!is_of(py, code, PYTYPE_CODE))
		return;
	pyobjects_globals(py, frame, &is_module_level);
	value = each_named(&s, py_pointer(code, py->code_names), value, number);
	if (py->code_kinds < 0) {
		value = each_named(&s, py_pointer(code, py->code_cells), value, number);
		each_named(&s, py_pointer(code, py->code_free), value, number);
	}
	/* The body of a class has its names in a dict. */
	if (is_module_level || !is_of(py, names, PYTYPE_DICT))
		return;
	while (py->dict_next(names, &position, &key, &held))
		if (is_of(py, key, PYTYPE_STR))
			tell(&s, held, TFMT_EDGE_LOCAL, key, number);
}
