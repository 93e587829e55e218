/* SPDX-License-Identifier: MIT */
/*
 * The recorder's look at Python's objects without the rest of the recorder: Python programs ask through ctypes what an
 * object of theirs holds. They keep the GIL meanwhile, so nothing changes, as in a copy of the process; and as there, who
 * looks is a thread that Python knows nothing of.
 */
#include <pthread.h>
#include <time.h>

#include "libinterpose/census_walk.h"
#include "libinterpose/interpose.h"
#include "libinterpose/pycontainer.h"
#include "libinterpose/pyframes.h"

__thread struct ip_tls ip_tls;

#define WALK_BYTES (64u << 20)
#define WALK_NS 60000000000ull

static struct pyobjects py;
static struct census_walk walk;

/* Where edges go; those that find no room are only counted. */
struct list {
	struct pyedge *edge;
	uint32_t nr, max;
};

IP_EXPORT const char *probe_find(void);
IP_EXPORT uint32_t probe_each(const void *object, struct pyedge *edge, uint32_t max);
IP_EXPORT uint32_t probe_traverse(const void *object, struct pyedge *edge, uint32_t max);
IP_EXPORT uint32_t probe_locals(const void *object, int64_t number, struct pyedge *edge, uint32_t max);
IP_EXPORT const void *probe_globals(const void *object, int *is_module_level);
IP_EXPORT uint64_t probe_length(const void *object);
IP_EXPORT uint64_t probe_bound(const void *object);
IP_EXPORT int probe_int(const void *object, int64_t *value);
IP_EXPORT int probe_holds(const void *object);
IP_EXPORT const void *probe_get(const void *dict, const char *key);
IP_EXPORT const void *probe_attribute(const void *object, const char *name);
IP_EXPORT int probe_bool(const void *object);

/* How an object was met: the kind of its edge, and where that comes from; NULL: from a root. */
struct meeting {
	const void *parent;
	uint32_t edge;
};
IP_EXPORT uint64_t probe_walk(void);
IP_EXPORT int probe_met(const void *object, struct meeting *out);

uint64_t ip_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void add(void *context, const struct pyedge *edge)
{
	struct list *l = context;

	if (l->nr < l->max)
		l->edge[l->nr] = *edge;
	l->nr++;
}

/* NULL, or why objects cannot be read. */
const char *probe_find(void)
{
	pyframes_init(true);
	return pyobjects_find(&py);
}

/* What a thread is to look at, and how. */
struct look {
	void (*each)(const struct pyobjects *, const void *, pyedge_fn *, void *);
	const void *object;
	struct list list;
};

static void *look(void *arg)
{
	struct look *l = arg;

	l->each(&py, l->object, add, &l->list);
	return NULL;
}

static bool in_a_thread_of_its_own(void *(*fn)(void *), void *arg)
{
	pthread_t thread;

	return !pthread_create(&thread, NULL, fn, arg) && !pthread_join(thread, NULL);
}

uint32_t probe_each(const void *object, struct pyedge *edge, uint32_t max)
{
	struct look l = { pyobjects_each, object, { .edge = edge, .max = max } };

	return in_a_thread_of_its_own(look, &l) ? l.list.nr : UINT32_MAX;
}

uint32_t probe_traverse(const void *object, struct pyedge *edge, uint32_t max)
{
	struct look l = { pyobjects_traverse, object, { .edge = edge, .max = max } };

	return in_a_thread_of_its_own(look, &l) ? l.list.nr : UINT32_MAX;
}

/* The variables of the frame that an object has; UINT32_MAX: it has none. */
uint32_t probe_locals(const void *object, int64_t number, struct pyedge *edge, uint32_t max)
{
	struct list l = { .edge = edge, .max = max };
	const void *frame = pyobjects_frame(&py, object);

	if (!frame)
		return UINT32_MAX;
	pyobjects_locals(&py, frame, number, add, &l);
	return l.nr;
}

const void *probe_globals(const void *object, int *is_module_level)
{
	const void *frame = pyobjects_frame(&py, object), *globals;
	bool is;

	if (!frame)
		return NULL;
	globals = pyobjects_globals(&py, frame, &is);
	*is_module_level = is;
	return globals;
}

uint64_t probe_length(const void *object)
{
	return pycontainer_length(&py, object);
}

uint64_t probe_bound(const void *object)
{
	return pycontainer_bound(&py, object);
}

int probe_int(const void *object, int64_t *value)
{
	return pyobjects_int(&py, object, value);
}

int probe_holds(const void *object)
{
	return pyobject_holds(&py, object);
}

const void *probe_get(const void *dict, const char *key)
{
	return pyobjects_get(&py, dict, key);
}

const void *probe_attribute(const void *object, const char *name)
{
	return pyobjects_attribute(&py, object, name);
}

int probe_bool(const void *object)
{
	return pyobjects_bool(&py, object);
}

static void *walk_through(void *unused)
{
	(void)unused;
	if (!census_walk_begin(&walk))
		return NULL;
	census_walk_program(&walk);
	census_walk_rest(&walk);
	return NULL;
}

/* Walk through all objects there are, once; how many they were, 0 if not all were looked at. */
uint64_t probe_walk(void)
{
	static const struct census_torch none;

	walk = (struct census_walk){ .py = &py, .layout = { .torch = &none }, .max_bytes = WALK_BYTES,
				     .deadline_ns = ip_now_ns() + WALK_NS };
	return in_a_thread_of_its_own(walk_through, NULL) && walk.has_collector ? walk.nr_objects : 0;
}

int probe_met(const void *object, struct meeting *out)
{
	uint32_t node = census_find(&walk, object);

	if (!node)
		return 0;
	out->parent = walk.node[node].parent ? walk.node[walk.node[node].parent].object : NULL;
	out->edge = walk.node[node].edge;
	return 1;
}
