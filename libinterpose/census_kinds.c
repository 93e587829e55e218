/* SPDX-License-Identifier: MIT */
/* Kinds of objects by their classes, each class looked at once. */
#include "census_kinds.h"

#include <string.h>

#include "tracefmt/tracefmt.h"

#define NR_TYPES 65536u /* remembered; of more, each is looked at again */

struct census_type {
	const void *type;
	uint8_t kind;
};

struct census_type *census_types_new(void)
{
	return census_map(NR_TYPES * sizeof(struct census_type));
}

/* The interpreter's own. */
static int kind_of_builtin(const struct pyobjects *py, const void *type)
{
	static const struct {
		enum pytype type;
		uint8_t kind;
	} kinds[] = {
		{ PYTYPE_DICT, TFMT_KIND_DICT },           { PYTYPE_LIST, TFMT_KIND_LIST },
		{ PYTYPE_TUPLE, TFMT_KIND_TUPLE },         { PYTYPE_SET, TFMT_KIND_SET },
		{ PYTYPE_FROZENSET, TFMT_KIND_SET },       { PYTYPE_FUNCTION, TFMT_KIND_FUNCTION },
		{ PYTYPE_METHOD, TFMT_KIND_METHOD },       { PYTYPE_CELL, TFMT_KIND_CELL },
		{ PYTYPE_MODULE, TFMT_KIND_PYTHON_MODULE },{ PYTYPE_GENERATOR, TFMT_KIND_GENERATOR },
		{ PYTYPE_COROUTINE, TFMT_KIND_GENERATOR }, { PYTYPE_ASYNC_GENERATOR, TFMT_KIND_GENERATOR },
		{ PYTYPE_TRACEBACK, TFMT_KIND_TRACEBACK },
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (pytype_is(type, py->type[kinds[i].type]))
			return kinds[i].kind;
	return -1;
}

static uint8_t look_at(const struct census_walk *w, const void *type)
{
	uint64_t flags = pytype_flags(type);
	int builtin;

	if (flags & PY_FLAG_TYPE)
		return TFMT_KIND_CLASS;
	if (flags & PY_FLAG_EXCEPTION)
		return TFMT_KIND_EXCEPTION;
	if (w->tensor_type && pytype_is(type, w->tensor_type))
		return pytype_is_named(w->py, type, "torch.nn.parameter", "Parameter") ? TFMT_KIND_PARAMETER :
										       TFMT_KIND_TENSOR;
	builtin = kind_of_builtin(w->py, type);
	if (builtin >= 0)
		return (uint8_t)builtin;
	if (!strcmp(py_pointer(type, PY_TYPE_NAME), "collections.deque"))
		return TFMT_KIND_DEQUE;
	if (pytype_is_named(w->py, type, "torch.nn.modules.module", "Module"))
		return TFMT_KIND_MODULE;
	if (pytype_is_named(w->py, type, "torch.optim.optimizer", "Optimizer"))
		return TFMT_KIND_OPTIMIZER;
	if (strstr(py_pointer(type, PY_TYPE_NAME), "Backward"))
		return TFMT_KIND_AUTOGRAD;
	return TFMT_KIND_OTHER;
}

uint8_t census_kind_of(struct census_walk *w, const void *type)
{
	struct census_type *t = &w->types[(uintptr_t)type * 0x9e3779b97f4a7c15ull >> 48];

	_Static_assert(NR_TYPES == 1u << 16, "the number is the top 16 bits of the product");
	if (t->type != type) {
		t->kind = look_at(w, type);
		t->type = type;
	}
	return t->kind;
}
