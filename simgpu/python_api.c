/* SPDX-License-Identifier: MIT */
/* Finds Python's C interface in the process. */
#include "simgpu/python_api.h"

#include <dlfcn.h>
#include <stdarg.h>

struct python_functions py;

bool python_find(void)
{
	struct python_functions f;
	bool found = true;

	if (!dlsym(RTLD_DEFAULT, "Py_AddPendingCall"))
		return false;
#define FIND(result, name, parameters)                           \
	*(void **)&f.name = dlsym(RTLD_DEFAULT, #name);          \
	found = found && f.name;
	PYTHON_FUNCTIONS(FIND)
#undef FIND
	if (!found || !f.Py_IsInitialized())
		return false;
	py = f;
	return true;
}

void python_drop(int nr, ...)
{
	va_list references;
	python *one;

	va_start(references, nr);
	while (nr--) {
		one = va_arg(references, python *);
		if (one)
			py.Py_DecRef(one);
	}
	va_end(references);
}
