/* SPDX-License-Identifier: MIT */
/* The running interpreter's types, functions and offsets, looked up and compared with its own tables. */
#include "pyobjects.h"

#include <string.h>

#include "objects.h"
#include "pyframes.h"

static const char *const type_symbols[PYTYPE_NR] = {
	[PYTYPE_DICT] = "PyDict_Type",
	[PYTYPE_LIST] = "PyList_Type",
	[PYTYPE_TUPLE] = "PyTuple_Type",
	[PYTYPE_SET] = "PySet_Type",
	[PYTYPE_FROZENSET] = "PyFrozenSet_Type",
	[PYTYPE_FUNCTION] = "PyFunction_Type",
	[PYTYPE_METHOD] = "PyMethod_Type",
	[PYTYPE_CELL] = "PyCell_Type",
	[PYTYPE_MODULE] = "PyModule_Type",
	[PYTYPE_TYPE] = "PyType_Type",
	[PYTYPE_CODE] = "PyCode_Type",
	[PYTYPE_STR] = "PyUnicode_Type",
	[PYTYPE_INT] = "PyLong_Type",
	[PYTYPE_BYTES] = "PyBytes_Type",
	[PYTYPE_GENERATOR] = "PyGen_Type",
	[PYTYPE_COROUTINE] = "PyCoro_Type",
	[PYTYPE_ASYNC_GENERATOR] = "PyAsyncGen_Type",
	[PYTYPE_TRACEBACK] = "PyTraceBack_Type",
	[PYTYPE_FRAME] = "PyFrame_Type",
};

/* What no type and no debug offset tells, by version: 3.11 and later. */
static const struct {
	int16_t frame_locals, frame_globals, frame_names, generator_frame, generator_state, cached_keys, values;
} newer[] = {
	/* 3.11 */ { 72, 8, 24, 80, 75, 872, 0 },
	/* 3.12 */ { 72, 24, 40, 72, 67, 880, 0 },
	/* 3.13 */ { 72, 24, 40, 72, 67, 880, 8 },
	/* 3.14 */ { 80, 24, 40, 72, 67, 880, 8 },
};

static bool find_symbols(struct pyobjects *py)
{
	for (int i = 0; i < PYTYPE_NR; i++) {
		py->type[i] = ip_symbol_elsewhere(type_symbols[i]);
		if (!py->type[i])
			return false;
	}
	py->dict_next = (int (*)(const void *, ssize_t *, const void **, const void **))ip_symbol_elsewhere("PyDict_Next");
	py->main_interpreter = (const void *(*)(void))ip_symbol_elsewhere("PyInterpreterState_Main");
	py->first_thread = (const void *(*)(const void *))ip_symbol_elsewhere("PyInterpreterState_ThreadHead");
	py->next_thread = (const void *(*)(const void *))ip_symbol_elsewhere("PyThreadState_Next");
	py->runtime = ip_symbol_elsewhere("_PyRuntime");
	return py->dict_next && py->main_interpreter && py->first_thread && py->next_thread && py->runtime;
}

static void set_older(struct pyobjects *py)
{
	const void *code = py->type[PYTYPE_CODE];

	py->frame_locals = (int16_t)(py_long(py->type[PYTYPE_FRAME], PY_TYPE_BASICSIZE) - (long)sizeof(void *));
	py->frame_globals = 48;
	py->frame_names = 56;
	py->frame_stack = py->minor == 10 ? 80 : 72;
	py->generator_frame = 16;
	py->generator_state = -1;
	py->cached_keys = -1;
	py->frame_object = -1;
	py->code_names = (int16_t)pylayout_member(code, "co_varnames");
	py->code_cells = (int16_t)pylayout_member(code, "co_cellvars");
	py->code_free = (int16_t)pylayout_member(code, "co_freevars");
	py->code_kinds = -1;
}

static void set_newer(struct pyobjects *py)
{
	int i = (int)py->minor - 11;

	py->frame_locals = newer[i].frame_locals;
	py->frame_globals = newer[i].frame_globals;
	py->frame_names = newer[i].frame_names;
	py->frame_stack = 64;
	py->generator_frame = newer[i].generator_frame;
	py->generator_state = newer[i].generator_state;
	py->cached_keys = newer[i].cached_keys;
	py->values = newer[i].values;
	py->frame_object = 24;
	py->code_names = (int16_t)(py->layout->code_file - 16);
	py->code_kinds = (int16_t)(py->layout->code_file - 8);
}

/* What the interpreter's own tables say, or a wrong offset would make false. */
static const char *check(const struct pyobjects *py)
{
	const char *frame_members = py->minor <= 10 ? "f_globals" : NULL;

	if (py->function_closure < 0 || py->code_arguments < 0 || py->code_stack < 0 || py->code_names < 0)
		return "its functions or code objects are laid out differently";
	if (frame_members && pylayout_member(py->type[PYTYPE_FRAME], frame_members) != py->frame_globals)
		return "its frames are laid out differently";
	/* The keys lie in what a class made by a program has more than a built-in one: four words from its end, or less. */
	if (py->cached_keys >= 0 && py_long(py->type[PYTYPE_TYPE], PY_TYPE_BASICSIZE) < py->cached_keys + 16)
		return "its classes are laid out differently";
	return NULL;
}

const char *pyobjects_find(struct pyobjects *py)
{
	memset(py, 0, sizeof(*py));
	py->layout = pyframes_layout();
	if (!py->layout)
		return "its Python frames cannot be read";
	while (pylayout_of(PYLAYOUT_OLDEST + py->minor) != py->layout)
		py->minor++;
	py->minor += PYLAYOUT_OLDEST;
	if (!find_symbols(py))
		return "the interpreter does not export what is needed";
	if (py->type[PYTYPE_CODE] != pyframes_code_type())
		return "there are several interpreters";
	py->function_closure = (int16_t)pylayout_member(py->type[PYTYPE_FUNCTION], "__closure__");
	py->function_code = (int16_t)(py->function_closure - (py->minor >= 10 ? 24 : 32));
	py->code_arguments = (int16_t)pylayout_member(py->type[PYTYPE_CODE], "co_argcount");
	py->code_stack = (int16_t)pylayout_member(py->type[PYTYPE_CODE], "co_stacksize");
	if (py->minor <= 10)
		set_older(py);
	else
		set_newer(py);
	return check(py);
}
