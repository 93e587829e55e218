/* SPDX-License-Identifier: MIT */
/* Ways to objects, and the few that mean something. */
#include "analyzer/names/objectway.h"

#include <string.h>

static bool begins_name(const struct objectway *w, uint32_t i)
{
	uint8_t edge = w->step[i]->edge;

	return edge == TFMT_EDGE_LOCAL || edge == TFMT_EDGE_CELL || edge == TFMT_EDGE_DEFAULT;
}

/* What lies on this device of a sharded tensor, a DTensor of PyTorch's: it has no name but that tensor's. */
static bool ends_in_shard(const struct objectway *w)
{
	const struct tfmt_object_facts *o = w->nr > 1 ? w->step[w->nr - 1] : NULL, *of = o ? w->step[w->nr - 2] : NULL;

	return o && o->edge == TFMT_EDGE_ATTRIBUTE && !strcmp(o->name, "_local_tensor") &&
	       (of->kind == TFMT_KIND_TENSOR || of->kind == TFMT_KIND_PARAMETER);
}

bool objectway_is_of_chain(const struct objectway *w, uint32_t i)
{
	return i && w->step[i]->chain == w->id[i - 1];
}

void objectway_find(struct objectway *w, const struct tfmt_census *c, uint32_t object)
{
	const struct tfmt_object_facts *o;
	uint32_t nr = 0;

	*w = (struct objectway){ .nr = 0 };
	while (nr < OBJECTWAY_MAX && (o = tfmt_census_object(c, object)) != NULL) {
		w->step[nr] = o;
		w->id[nr++] = object;
		object = o->chain != object ? o->chain : o->parent;
	}
	w->is_cut = object != 0;
	w->nr = nr;
	w->root = nr ? tfmt_census_object(c, w->step[0]->root) : NULL;
	for (uint32_t i = 0; i < nr / 2; i++) {
		const struct tfmt_object_facts *step = w->step[i];
		uint32_t id = w->id[i];

		w->step[i] = w->step[nr - 1 - i];
		w->id[i] = w->id[nr - 1 - i];
		w->step[nr - 1 - i] = step;
		w->id[nr - 1 - i] = id;
	}
	if (ends_in_shard(w))
		nr = --w->nr;
	for (uint32_t i = 1; i < nr; i++)
		if (begins_name(w, i))
			w->start = i;
	w->top = w->start;
	while (w->top < nr && w->step[w->top]->kind != TFMT_KIND_MODULE)
		w->top++;
}

bool objectway_is_own(const struct objectway *w, uint32_t i, const char *name)
{
	return i && w->step[i]->kind == TFMT_KIND_DICT && w->step[i]->edge == TFMT_EDGE_ATTRIBUTE &&
	       w->step[i - 1]->kind == TFMT_KIND_MODULE && !strcmp(w->step[i]->name, name);
}

bool objectway_is_of_class(const struct objectway *w, uint32_t i, const char *name)
{
	const char *dot = strrchr(w->step[i]->class_name, '.');

	return !strcmp(dot ? dot + 1 : w->step[i]->class_name, name);
}

bool objectway_is_cache(const struct objectway *w, uint32_t i)
{
	return objectway_is_of_class(w, i, "_lru_cache_wrapper");
}

bool objectway_is_thread_local(const struct objectway *w, uint32_t i)
{
	return objectway_is_of_class(w, i, "_local");
}

bool objectway_is_hooks_of_tensor(const struct objectway *w, uint32_t i)
{
	return i && w->step[i]->kind == TFMT_KIND_DICT && w->step[i]->edge == TFMT_EDGE_MEMBER &&
	       (w->step[i - 1]->kind == TFMT_KIND_TENSOR || w->step[i - 1]->kind == TFMT_KIND_PARAMETER);
}

/* A dict of dicts, one for each thread. */
static bool is_of_threads(const struct objectway *w, uint32_t i)
{
	return i && w->step[i]->kind == TFMT_KIND_DICT && w->step[i]->edge == TFMT_EDGE_MEMBER &&
	       objectway_is_thread_local(w, i - 1);
}

/* Members of their objects, which have no names. */
static bool is_inside(const struct objectway *w, uint32_t i)
{
	if (!i || w->step[i]->kind != TFMT_KIND_DICT)
		return false;
	return is_of_threads(w, i) || (w->step[i]->edge == TFMT_EDGE_MEMBER && objectway_is_cache(w, i - 1)) ||
	       (w->step[i]->edge == TFMT_EDGE_OBJECT && is_of_threads(w, i - 1));
}

bool objectway_is_transparent(const struct objectway *w, uint32_t i)
{
	return is_inside(w, i) || objectway_is_own(w, i, "_modules") || objectway_is_own(w, i, "_parameters") ||
	       objectway_is_own(w, i, "_buffers") ||
	       (i && w->step[i]->edge == TFMT_EDGE_ATTRIBUTE && !strcmp(w->step[i]->name, "__dict__"));
}

static bool is_container(const struct objectway *w, uint32_t i)
{
	switch (w->step[i]->kind) {
	case TFMT_KIND_DICT:
	case TFMT_KIND_LIST:
	case TFMT_KIND_TUPLE:
	case TFMT_KIND_SET:
	case TFMT_KIND_DEQUE:
		return !objectway_is_transparent(w, i);
	default:
		return false;
	}
}

uint32_t objectway_container(const struct tfmt_census *c, uint32_t object)
{
	struct objectway w;

	objectway_find(&w, c, object);
	for (uint32_t i = w.start; i < w.nr && !w.is_cut; i++)
		if (is_container(&w, i))
			return w.id[i];
	return 0;
}

uint32_t objectway_through(const struct tfmt_census *c, uint32_t object, const char *class_name)
{
	struct objectway w;

	objectway_find(&w, c, object);
	for (uint32_t i = w.nr; i-- > 0;)
		if (objectway_is_of_class(&w, i, class_name))
			return w.id[i];
	return 0;
}

uint32_t objectway_state(const struct objectway *w, const struct tfmt_census *c)
{
	for (uint32_t i = w->nr; i-- > 2;) {
		const struct tfmt_object_facts *key, *dict = w->step[i - 1];

		if (w->step[i]->edge != TFMT_EDGE_OBJECT || dict->edge != TFMT_EDGE_ATTRIBUTE ||
		    strcmp(dict->name, "state") || w->step[i - 2]->kind != TFMT_KIND_OPTIMIZER)
			continue;
		key = tfmt_census_object(c, (uint32_t)w->step[i]->number);
		if (key && (key->kind == TFMT_KIND_TENSOR || key->kind == TFMT_KIND_PARAMETER))
			return i;
	}
	return 0;
}
