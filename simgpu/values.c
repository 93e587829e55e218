/* SPDX-License-Identifier: MIT */
/*
 * Starts the value shadow, and keeps what an operator is expected to read.
 *
 * When the process begins to use a device, values.py is run in a namespace of its own on the main thread,
 * between two bytecodes (Py_AddPendingCall): no hook ever waits for the interpreter. Nothing of this
 * happens in a program that is not Python or has not imported PyTorch.
 */
#include "simgpu/values.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "simgpu/internal.h"

/* The file name of values.py's code: the recorder and a traceback show it. */
#define FILE_NAME "<simgpu values>"

/* values.py, as a string: simgpu.mk makes this file depend on it. */
__asm__(".pushsection .rodata\n"
	".globl sim_values_source\n"
	".hidden sim_values_source\n"
	"sim_values_source:\n"
	".incbin \"simgpu/values.py\"\n"
	".byte 0\n"
	".popsection\n");
extern const char sim_values_source[];

/* ---- what is expected to be read ------------------------------------------------------------- */

enum { EXPECTED_MAX = 64 };

/* While an operator runs on this thread: the values that it will read from the device, in their order. */
static __thread struct {
	long long values[EXPECTED_MAX];
	int nr, next;
	bool is_known;
} expected;

bool sim_values_answer(void *dst, size_t bytes, bool *is_known)
{
	*is_known = expected.is_known;
	if (expected.next >= expected.nr || bytes > sizeof(*expected.values))
		return false;
	/* Little-endian: an int32 or a bool is the beginning of the int64. */
	memcpy(dst, &expected.values[expected.next++], bytes);
	return true;
}

void values_expect_nothing(void)
{
	expected.nr = expected.next = 0;
	expected.is_known = false;
}

python *values_none(void)
{
	return py.Py_BuildValue("");
}

/* expect(known, value ...): what the operator that is called next will read, and whether a GPU would, too. */
static python *expect(python *self, python *const *args, ptrdiff_t nr)
{
	(void)self;
	values_expect_nothing();
	if (!nr || nr > EXPECTED_MAX)
		return values_none();
	expected.is_known = py.PyObject_IsTrue(args[0]) == 1;
	for (ptrdiff_t i = 1; i < nr; i++)
		expected.values[expected.nr++] = py.PyLong_AsLongLong(args[i]);
	return values_none();
}

static struct python_method functions[] = {
	{ "expect", expect, METH_FASTCALL, NULL },
	{ "memory", values_memory, METH_FASTCALL, NULL },
	{ "known", values_known, METH_FASTCALL, NULL },
	{ "written", values_written, METH_FASTCALL, NULL },
	{ "cleared", values_cleared, METH_FASTCALL, NULL },
	{ "unknown", values_unknown, METH_FASTCALL, NULL },
	{ "install", values_install, METH_FASTCALL, NULL },
	{ "switch_off", values_switch_off, METH_FASTCALL, NULL },
};

/* ---- start ----------------------------------------------------------------------------------- */

enum { IDLE, SCHEDULED, STARTED };

static atomic_int state;

/* values.py's namespace: the functions above and Python's own. */
static python *new_namespace(void)
{
	python *space = py.PyDict_New(), *function;

	if (!space)
		return NULL;
	py.PyDict_SetItemString(space, "__builtins__", py.PyEval_GetBuiltins());
	for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++) {
		function = py.PyCFunction_NewEx(&functions[i], NULL, NULL);
		py.PyDict_SetItemString(space, functions[i].name, function);
		python_drop(1, function);
	}
	return space;
}

/* Whether PyTorch is imported, all of it: its __spec__ says while it is not. */
static bool has_torch(void)
{
	python *torch = py.PyDict_GetItemString(py.PyImport_GetModuleDict(), "torch");
	python *spec = torch ? py.PyObject_GetAttrString(torch, "__spec__") : NULL;
	python *importing = spec ? py.PyObject_GetAttrString(spec, "_initializing") : NULL;
	bool found = torch && !(importing && py.PyObject_IsTrue(importing) == 1);

	python_drop(2, spec, importing);
	py.PyErr_Clear();
	return found;
}

/* A pending call: with the interpreter's lock, on the main thread. */
static int run(void *unused)
{
	python *space = NULL, *code = NULL, *done = NULL;

	(void)unused;
	if (!has_torch()) {
		atomic_store(&state, IDLE);
		return 0;
	}
	atomic_store(&state, STARTED);
	code = py.Py_CompileString(sim_values_source, FILE_NAME, PY_FILE_INPUT);
	if (code)
		space = new_namespace();
	if (space)
		done = py.PyEval_EvalCode(code, space, space);
	python_drop(3, code, space, done);
	/* A PyTorch that lacks what values.py needs has no shadow, then. A KeyboardInterrupt is the program's. */
	if (done || py.PyErr_ExceptionMatches(py.PyDict_GetItemString(py.PyEval_GetBuiltins(), "Exception")))
		py.PyErr_Clear();
	return py.PyErr_Occurred() ? -1 : 0;
}

void sim_values_start(void)
{
	const char *wanted = getenv("SIMGPU_VALUES");
	int idle = IDLE;

	if (atomic_load_explicit(&state, memory_order_relaxed) != IDLE)
		return;
	if ((wanted && !strcmp(wanted, "off")) || !python_find()) {
		atomic_store(&state, STARTED);
		return;
	}
	if (atomic_compare_exchange_strong(&state, &idle, SCHEDULED) && py.Py_AddPendingCall(run, NULL))
		atomic_store(&state, IDLE);
}
