/* SPDX-License-Identifier: MIT */
/* Device memory as values.py sees it: bytes to read and write, and what is known of a tensor's elements. */
#include "simgpu/internal.h"
#include "simgpu/values.h"

enum {
	DIMENSIONS_MAX = 64,
	RUNS_MAX = 4096,	/* what is known of more pieces than these is not kept apart */
};

/*
 * A strided tensor's elements: the bytes from the first to the last, and the runs without gaps among
 * those, in NR dimensions of strides in bytes.
 */
struct elements {
	char *p;
	size_t all_bytes, run_bytes;
	size_t nr_runs;
	ptrdiff_t nr;
	long long size[DIMENSIONS_MAX], stride[DIMENSIONS_MAX];
};

/* The inner dimensions that are one run, and those that repeat it, are dimensions no more. */
static void join_runs(struct elements *e)
{
	while (e->nr) {
		ptrdiff_t inner = e->nr - 1;
		bool repeats = e->size[inner] == 1 || !e->stride[inner];

		if (!repeats && e->stride[inner] != (long long)e->run_bytes)
			break;
		if (!repeats)
			e->run_bytes *= (size_t)e->size[inner];
		e->nr--;
	}
}

/* From (address, bytes of an element, sizes, strides) at ARGS; false when there is no element. */
static bool find_elements(struct elements *e, python *const *args)
{
	long long item = py.PyLong_AsLongLong(args[1]);
	size_t bytes = (size_t)item;

	*e = (struct elements){ .p = py.PyLong_AsVoidPtr(args[0]), .all_bytes = bytes, .run_bytes = bytes };
	e->nr = py.PyObject_Size(args[2]);
	if (e->nr > DIMENSIONS_MAX)
		return false;
	for (ptrdiff_t i = 0; i < e->nr; i++) {
		e->size[i] = py.PyLong_AsLongLong(py.PyTuple_GetItem(args[2], i));
		e->stride[i] = py.PyLong_AsLongLong(py.PyTuple_GetItem(args[3], i)) * item;
		if (e->size[i] < 1)
			return false;
		e->all_bytes += (size_t)((e->size[i] - 1) * e->stride[i]);
		bytes *= e->stride[i] ? (size_t)e->size[i] : 1;
	}
	/* A transposed tensor has no gaps, whatever the order of its dimensions. */
	if (bytes == e->all_bytes) {
		e->run_bytes = bytes;
		e->nr = 0;
	}
	join_runs(e);
	e->nr_runs = 1;
	for (ptrdiff_t i = 0; i < e->nr; i++)
		e->nr_runs *= (size_t)e->size[i];
	return true;
}

/* Call VISIT for each run until it returns false; false then. */
static bool each_run(const struct elements *e, bool (*visit)(void *p, size_t bytes))
{
	long long at[DIMENSIONS_MAX] = { 0 };
	ptrdiff_t i;

	do {
		char *p = e->p;

		for (i = 0; i < e->nr; i++)
			p += at[i] * e->stride[i];
		if (!visit(p, e->run_bytes))
			return false;
		while (i && ++at[i - 1] == e->size[i - 1])
			at[--i] = 0;
	} while (i);
	return true;
}

static bool is_known(void *p, size_t bytes)
{
	return sim_is_known(p, bytes);
}

static bool write(void *p, size_t bytes)
{
	sim_dirty(p, bytes);
	return true;
}

static bool clear(void *p, size_t bytes)
{
	sim_fresh(p, bytes);
	return true;
}

static bool make_known(void *p, size_t bytes)
{
	sim_known(p, bytes, true);
	return true;
}

static bool make_unknown(void *p, size_t bytes)
{
	sim_known(p, bytes, false);
	return true;
}

python *values_memory(python *self, python *const *args, ptrdiff_t nr)
{
	char *p = nr == 2 ? py.PyLong_AsVoidPtr(args[0]) : NULL;
	long long bytes = nr == 2 ? py.PyLong_AsLongLong(args[1]) : 0;

	(void)self;
	if (p && sim_before_read)
		sim_before_read(p, (size_t)bytes);
	return py.PyMemoryView_FromMemory(p, bytes, PY_BUF_WRITE);
}

python *values_known(python *self, python *const *args, ptrdiff_t nr)
{
	struct elements e;
	bool result = false;

	(void)self;
	if (nr == 4)
		result = !find_elements(&e, args) || sim_is_known(e.p, e.all_bytes) ||
			 (e.nr_runs <= RUNS_MAX && each_run(&e, is_known));
	return py.PyBool_FromLong(result);
}

python *values_unknown(python *self, python *const *args, ptrdiff_t nr)
{
	struct elements e;

	(void)self;
	if (nr < 4 || !find_elements(&e, args))
		return values_none();
	if (e.nr_runs > RUNS_MAX)
		sim_known(e.p, e.all_bytes, false);
	else
		each_run(&e, make_unknown);
	return values_none();
}

python *values_written(python *self, python *const *args, ptrdiff_t nr)
{
	struct elements e;

	(void)self;
	if (nr != 5 || !find_elements(&e, args))
		return values_none();
	if (e.nr_runs > RUNS_MAX)
		sim_dirty(e.p, e.all_bytes);
	else
		each_run(&e, write);
	if (e.nr_runs > RUNS_MAX || !py.PyObject_IsTrue(args[4]))
		return values_unknown(self, args, nr);
	return values_none();
}

python *values_cleared(python *self, python *const *args, ptrdiff_t nr)
{
	struct elements e;

	(void)self;
	if (nr != 4 || !find_elements(&e, args))
		return values_none();
	each_run(&e, clear);
	if (e.nr_runs <= RUNS_MAX)
		each_run(&e, make_known);
	return values_none();
}
