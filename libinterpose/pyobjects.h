/* SPDX-License-Identifier: MIT */
/*
 * pyobjects: what CPython's objects hold, and by which names, read from memory.
 *
 * For a copy of the process (census.h), which nobody changes and in which no thread of Python's runs: nothing here takes
 * the GIL, calls Python code, allocates or changes a reference count. What is called of the interpreter only reads:
 * PyDict_Next(), tp_traverse. All offsets are compared with the running interpreter before they are used.
 */
#ifndef IP_PYOBJECTS_H
#define IP_PYOBJECTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "pylayout.h"

/* tp_flags, the same in every version. */
#define PY_FLAG_HEAP (1ull << 9)
#define PY_FLAG_GC (1ull << 14)
#define PY_FLAG_LIST (1ull << 25)
#define PY_FLAG_TUPLE (1ull << 26)
#define PY_FLAG_DICT (1ull << 29)
#define PY_FLAG_EXCEPTION (1ull << 30)
#define PY_FLAG_TYPE (1ull << 31)

/* The interpreter's own types that matter here, by symbol. */
enum pytype {
	PYTYPE_DICT, PYTYPE_LIST, PYTYPE_TUPLE, PYTYPE_SET, PYTYPE_FROZENSET, PYTYPE_FUNCTION, PYTYPE_METHOD, PYTYPE_CELL,
	PYTYPE_MODULE, PYTYPE_TYPE, PYTYPE_CODE, PYTYPE_STR, PYTYPE_INT, PYTYPE_BYTES, PYTYPE_GENERATOR, PYTYPE_COROUTINE,
	PYTYPE_ASYNC_GENERATOR, PYTYPE_TRACEBACK, PYTYPE_FRAME,
	PYTYPE_NR
};

/* How an object holds another one. */
struct pyedge {
	const void *object;
	const void *name;   /* a str: of an attribute, a variable, a key; or a key of another type */
	int64_t number;     /* of INDEX; of LOCAL: what pyobjects_locals() was given */
	uint8_t edge;       /* enum tfmt_edge */
};
typedef void pyedge_fn(void *context, const struct pyedge *edge);

struct pyobjects {
	const struct pylayout *layout;
	unsigned minor;
	const void *type[PYTYPE_NR];
	int (*dict_next)(const void *dict, ssize_t *position, const void **key, const void **value);
	const void *(*main_interpreter)(void);
	const void *(*first_thread)(const void *interpreter);
	const void *(*next_thread)(const void *thread);
	const void *runtime; /* _PyRuntime */
	int16_t frame_locals, frame_globals, frame_names; /* of a frame: its variables, and two dicts */
	int16_t frame_stack; /* of one that waits: where its stack ends; int (entries): after its variables in 3.10, with
				them from 3.11 to 3.13; else a pointer */
	int16_t function_code, function_closure;          /* defaults lie 16 bytes before the closure */
	int16_t code_arguments, code_stack;               /* int: arguments by position, entries that its stack has at most */
	int16_t code_names;  /* names of all variables; up to 3.10 those of its own, and then: */
	int16_t code_kinds;  /* bytes: what each is; up to 3.10 -1 */
	int16_t code_cells, code_free; /* up to 3.10: names of those that others share, and of those of others */
	int16_t generator_frame, generator_state; /* state: char, below 1 while there is a frame; -1 = the frame is a pointer */
	int16_t frame_object; /* PyFrameObject: pointer to the frame; -1 = it is the frame */
	int16_t cached_keys;  /* of a type: keys of its objects' attributes; -1 = such objects have a dict */
	int16_t values;       /* in what an object has instead of a dict: the first value */
};

/*
 * Find the symbols and fill in offsets for the interpreter that pyframes has found. NULL, or why objects cannot be read.
 * From a thread of the program: reads the loader's list (objects.h).
 */
const char *pyobjects_find(struct pyobjects *py);

/* Show fn all that an object holds and that can hold something itself. */
void pyobjects_each(const struct pyobjects *py, const void *object, pyedge_fn *fn, void *context);

/* The same by the object's class alone, as the collector does it: each reference once, by MEMBER. */
void pyobjects_traverse(const struct pyobjects *py, const void *object, pyedge_fn *fn, void *context);

/*
 * Show fn the variables of a frame, as LOCAL with this number. Of a frame at module level nothing: pyobjects_globals() has
 * its dict of globals, and that is what it would be.
 */
void pyobjects_locals(const struct pyobjects *py, const void *frame, int64_t number, pyedge_fn *fn, void *context);
const void *pyobjects_globals(const struct pyobjects *py, const void *frame, bool *is_module_level);

/* The frame that a generator, a coroutine, a traceback or a frame object has, NULL if it has none (any more). */
const void *pyobjects_frame(const struct pyobjects *py, const void *object);

/* The value of a key in a dict, NULL if it has none. */
const void *pyobjects_get(const struct pyobjects *py, const void *dict, const char *key);

/* What an object itself has under the name of an attribute, not its class; NULL: nothing. */
const void *pyobjects_attribute(const struct pyobjects *py, const void *object, const char *name);

/* Is it True, or False? -1: neither. */
int pyobjects_bool(const struct pyobjects *py, const void *object);

/* An int's value; false if it takes more than 60 bits. */
bool pyobjects_int(const struct pyobjects *py, const void *object, int64_t *value);

static inline const void *pyobject_type(const void *object)
{
	return py_pointer(object, PY_OB_TYPE);
}

static inline uint64_t pytype_flags(const void *type)
{
	return (uint64_t)py_long(type, PY_TYPE_FLAGS);
}

/*
 * Can it hold something? Of a class that says so, and itself, for there are classes of which only some objects do; and
 * numpy's arrays of objects, of which the class says nothing (pyarray.h).
 */
bool pyobject_holds(const struct pyobjects *py, const void *object);

/* Is `type` this one, or one that inherits from it? */
bool pytype_is(const void *type, const void *base);

/* The same for a class that is only known by its name and the module that it is from. */
bool pytype_is_named(const struct pyobjects *py, const void *type, const char *module, const char *name);

#endif
