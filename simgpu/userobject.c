/* SPDX-License-Identifier: MIT */
/* User objects: counts of references, held by the program and by graphs, whose last one calls a destructor. */
#include <stdlib.h>

#include "simgpu/graph.h"

enum { OBJECT_MAGIC = 0x554f424a };

struct object {
	uint32_t magic;
	uint64_t refs;
	void *data;
	CUhostFn destroy;
};

static struct object *object_of(CUuserObject handle)
{
	struct object *o = (struct object *)handle;

	return o && o->magic == OBJECT_MAGIC ? o : NULL;
}

bool sim_user_object_get(CUuserObject handle, unsigned count)
{
	struct object *o = object_of(handle);

	if (o)
		__atomic_fetch_add(&o->refs, count, __ATOMIC_RELAXED);
	return o;
}

/* On a GPU another thread calls the destructor, some time later; here as there it may not call CUDA. */
bool sim_user_object_put(CUuserObject handle, unsigned count)
{
	struct object *o = object_of(handle);
	uint64_t refs = o ? __atomic_load_n(&o->refs, __ATOMIC_RELAXED) : 0;

	do {
		if (!o || count > refs)
			return false;
	} while (!__atomic_compare_exchange_n(&o->refs, &refs, refs - count, true, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
	if (refs != count)
		return true;
	o->destroy(o->data);
	o->magic = 0;
	free(o);
	return true;
}

/* As documented: the one flag must be given, and promises that nobody waits for the destructor. */
CUresult cuUserObjectCreate(CUuserObject *handle, void *data, CUhostFn destroy, unsigned int refs,
			    unsigned int flags)
{
	struct object *o;

	if (!handle || !destroy || !refs || refs > INT32_MAX || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
		return CUDA_ERROR_INVALID_VALUE;
	o = sim_zalloc(sizeof(*o));
	*o = (struct object){ OBJECT_MAGIC, refs, data, destroy };
	*handle = (CUuserObject)o;
	return CUDA_SUCCESS;
}

static bool valid(unsigned count)
{
	return count && count <= INT32_MAX;
}

CUresult cuUserObjectRetain(CUuserObject object, unsigned int count)
{
	return valid(count) && sim_user_object_get(object, count) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuUserObjectRelease(CUuserObject object, unsigned int count)
{
	return valid(count) && sim_user_object_put(object, count) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- what graphs hold ------------------------------------------------------------------------ */

static struct sim_graph_held *find(struct sim_graph *g, CUuserObject object)
{
	for (size_t i = 0; i < g->nr_held; i++)
		if (g->held[i].object == object)
			return &g->held[i];
	return NULL;
}

void sim_graph_hold(struct sim_graph *g, CUuserObject object, unsigned count)
{
	struct sim_graph_held *held = find(g, object);

	if (held) {
		held->count += count;
		return;
	}
	g->held = sim_realloc(g->held, (g->nr_held + 1) * sizeof(*g->held));
	g->held[g->nr_held++] = (struct sim_graph_held){ object, count };
}

bool sim_graph_let_go(struct sim_graph *g, CUuserObject object, unsigned count)
{
	struct sim_graph_held *held = find(g, object);

	if (!held || held->count < count)
		return false;
	held->count -= count;
	if (!held->count)
		*held = g->held[--g->nr_held];
	sim_user_object_put(object, count);
	return true;
}

void sim_graph_let_all_go(struct sim_graph *g)
{
	for (size_t i = 0; i < g->nr_held; i++)
		sim_user_object_put(g->held[i].object, g->held[i].count);
	free(g->held);
	g->held = NULL;
	g->nr_held = 0;
}

void sim_graph_hold_same(struct sim_graph *to, const struct sim_graph *from)
{
	struct sim_graph old = { .held = to->held, .nr_held = to->nr_held };

	to->held = NULL;
	to->nr_held = 0;
	for (size_t i = 0; i < from->nr_held; i++)
		if (sim_user_object_get(from->held[i].object, from->held[i].count))
			sim_graph_hold(to, from->held[i].object, from->held[i].count);
	sim_graph_let_all_go(&old);
}

CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count, unsigned int flags)
{
	struct sim_graph *g = sim_graph_of(graph);

	if (!g || !object_of(object) || !valid(count) || flags & ~(unsigned)CU_GRAPH_USER_OBJECT_MOVE)
		return CUDA_ERROR_INVALID_VALUE;
	if (!(flags & CU_GRAPH_USER_OBJECT_MOVE))
		sim_user_object_get(object, count);
	sim_graph_hold(g, object, count);
	return CUDA_SUCCESS;
}

CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int count)
{
	struct sim_graph *g = sim_graph_of(graph);

	return g && valid(count) && sim_graph_let_go(g, object, count) ? CUDA_SUCCESS
								       : CUDA_ERROR_INVALID_VALUE;
}
