/* SPDX-License-Identifier: MIT */
/*
 * Python's C interface, as far as simgpu needs it: looked up by name in a process that has it, all of the
 * stable ABI, documented at docs.python.org/3/c-api. No header of Python's is needed to build.
 *
 * Every function but Py_AddPendingCall wants the interpreter's lock. "New" references are given back with
 * Py_DecRef, as Python's documentation says for each.
 */
#ifndef SIMGPU_PYTHON_API_H
#define SIMGPU_PYTHON_API_H

#include <stdbool.h>
#include <stddef.h>

typedef struct python_object python;
typedef python *python_function(python *self, python *const *args, ptrdiff_t nr);

/* PyMethodDef */
struct python_method {
	const char *name;
	python_function *function;
	int flags;
	const char *doc;
};

enum { METH_FASTCALL = 0x80, PY_FILE_INPUT = 257, PY_BUF_WRITE = 0x200 };

#define PYTHON_FUNCTIONS(F)                                                                      \
	F(int, Py_AddPendingCall, (int (*)(void *), void *))                                     \
	F(int, Py_IsInitialized, (void))                                                         \
	F(void, Py_IncRef, (python *))                                                           \
	F(void, Py_DecRef, (python *))                                                           \
	F(python *, Py_BuildValue, (const char *, ...))                                          \
	F(python *, Py_CompileString, (const char *, const char *, int))                         \
	F(python *, PyEval_EvalCode, (python *, python *, python *))                             \
	F(python *, PyEval_GetBuiltins, (void))                                                  \
	F(python *, PyImport_GetModuleDict, (void))                                              \
	F(python *, PyDict_New, (void))                                                          \
	F(int, PyDict_SetItemString, (python *, const char *, python *))                         \
	F(python *, PyDict_GetItemString, (python *, const char *))                              \
	F(python *, PyCFunction_NewEx, (struct python_method *, python *, python *))             \
	F(python *, PyObject_GetAttrString, (python *, const char *))                            \
	F(python *, PyObject_Call, (python *, python *, python *))                               \
	F(python *, PyObject_CallFunctionObjArgs, (python *, ...))                               \
	F(int, PyObject_IsTrue, (python *))                                                      \
	F(ptrdiff_t, PyObject_Size, (python *))                                                  \
	F(python *, PyTuple_GetItem, (python *, ptrdiff_t))                                      \
	F(python *, PyBool_FromLong, (long))                                                     \
	F(void *, PyLong_AsVoidPtr, (python *))                                                  \
	F(long long, PyLong_AsLongLong, (python *))                                              \
	F(python *, PyMemoryView_FromMemory, (char *, ptrdiff_t, int))                           \
	F(python *, PyErr_Occurred, (void))                                                      \
	F(int, PyErr_ExceptionMatches, (python *))                                               \
	F(void, PyErr_Fetch, (python **, python **, python **))                                  \
	F(void, PyErr_Restore, (python *, python *, python *))                                   \
	F(void, PyErr_Clear, (void))

struct python_functions {
#define PYTHON_MEMBER(result, name, parameters) result (*name) parameters;
	PYTHON_FUNCTIONS(PYTHON_MEMBER)
#undef PYTHON_MEMBER
};

/* Valid after python_find() has returned true. */
extern struct python_functions py;

/*
 * Look the functions up; false in a process without Python, or with one that is not initialised. Any
 * thread.
 */
bool python_find(void);

/* Py_DecRef of NR references, of which some may be NULL. */
void python_drop(int nr, ...);

#endif
