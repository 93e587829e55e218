/* SPDX-License-Identifier: MIT */
/*
 * The collector's lists are rings: each object that it follows has two pointers in front of it. From any such object one
 * comes to the head of its ring, which lies in the interpreter's state, and near it lie the heads of the others: of each
 * generation one, and one of what gc.freeze() has set apart.
 */
#include "census_collector.h"

#include <string.h>
#include <sys/mman.h>

#include "census_kinds.h"
#include "tracefmt/tracefmt.h"

#define HEAD_BYTES 16u              /* in front of an object */
#define NEIGHBOUR_BYTES 96u         /* from one head to the others: three side by side, and one not far off */
#define STATE_BYTES 0x80000u        /* more than the interpreter's state has */
#define FIRST_SLOTS (1u << 16)
#define RING_MAX (1ull << 31)
#define MODULE_DICT 16

static inline uintptr_t next_in_ring(uintptr_t head)
{
	return *(const uintptr_t *)head & ~(uintptr_t)7;
}

static inline uintptr_t previous_in_ring(uintptr_t head)
{
	return ((const uintptr_t *)head)[1] & ~(uintptr_t)7;
}

static bool is_in_state(const struct census_walk *w, uintptr_t p)
{
	uintptr_t interpreter = (uintptr_t)w->py->main_interpreter(), runtime = (uintptr_t)w->py->runtime;

	return p - interpreter < STATE_BYTES || p - runtime < STATE_BYTES;
}

/*
 * Is there an object after this place in a ring? Its class would have classes in a tuple. Up to 3.10 the state lies in the
 * heap, with objects beside it.
 */
static bool has_object(const struct census_walk *w, uintptr_t at)
{
	const void *type, *bases, *tuple_type;

	return census_read_word((const char *)at + HEAD_BYTES + PY_OB_TYPE, &type) &&
	       census_read_word((const char *)type + PY_TYPE_MRO, &bases) &&
	       census_read_word((const char *)bases + PY_OB_TYPE, &tuple_type) && tuple_type == w->py->type[PYTYPE_TUPLE];
}

/* The head of the ring that an object is in; 0: it is in none. */
static uintptr_t find_head(const struct census_walk *w, const void *object)
{
	uintptr_t first = (uintptr_t)object - HEAD_BYTES;
	uint64_t nr = 0;

	if (!next_in_ring(first))
		return 0;
	for (uintptr_t at = next_in_ring(first); at && at != first && nr < RING_MAX; at = next_in_ring(at), nr++)
		if (is_in_state(w, at) && !has_object(w, at))
			return at;
	return 0;
}

/* Does the pointer at `from`, which may be none, lead to where the one after `offset` leads back? */
static bool leads_back(uintptr_t from, uintptr_t to, long offset)
{
	const void *back;

	return from >= 4096 && from != to && census_read_word((const char *)from + offset, &back) &&
	       ((uintptr_t)back & ~(uintptr_t)7) == to;
}

/* Is there such a head? Then its ring leads back to it from both sides. If there is none, its words can be anything. */
static bool is_head(const struct census_walk *w, uintptr_t head)
{
	return is_in_state(w, head) && leads_back(next_in_ring(head), head, sizeof(void *)) &&
	       leads_back(previous_in_ring(head), head, 0);
}

typedef void ring_fn(struct census_walk *w, const void *object);

static void each_in_rings(struct census_walk *w, uintptr_t head, ring_fn *fn)
{
	for (uintptr_t ring = head - NEIGHBOUR_BYTES; ring <= head + NEIGHBOUR_BYTES; ring += sizeof(void *)) {
		if (ring != head && !is_head(w, ring))
			continue;
		for (uintptr_t at = next_in_ring(ring); at != ring && !w->no_time; at = next_in_ring(at)) {
			fn(w, (const void *)(at + HEAD_BYTES));
			census_beat(w);
		}
	}
}

/* By its name; what the module object leads to is what its dict does. */
static void add_module(struct census_walk *w, const void *object)
{
	struct census_node n = { .object = object, .edge = TFMT_EDGE_GLOBAL, .kind = TFMT_KIND_PYTHON_MODULE };
	const void *dict, *name;

	if (pyobject_type(object) != w->py->type[PYTYPE_MODULE])
		return;
	dict = py_pointer(object, MODULE_DICT);
	if (!dict || pyobject_type(dict) != w->py->type[PYTYPE_DICT])
		return;
	name = pyobjects_get(w->py, dict, "__name__");
	n.name = name && pyobject_type(name) == w->py->type[PYTYPE_STR] ? name : NULL;
	census_add(w, &n, false);
}

/* ---- what nothing leads to ------------------------------------------------------------------------------ */

/* Objects that were not met, and how many references to each are not from one of them. */
struct unmet {
	struct unmet_object {
		const void *object;
		uint32_t references;
	} *list;
	uint32_t nr, max;
	uint32_t *slot, slot_mask; /* number + 1 */
};

static uint32_t *slot_of(const struct unmet *u, const void *object)
{
	uint32_t i = (uint32_t)((uintptr_t)object * 0x9e3779b97f4a7c15ull >> 32) & u->slot_mask;

	while (u->slot[i] && u->list[u->slot[i] - 1].object != object)
		i = (i + 1) & u->slot_mask;
	return &u->slot[i];
}

static uint32_t references_of(const struct census_walk *w, const void *object)
{
	uint64_t references = (uint64_t)py_long(object, 0);

	if (w->py->minor >= 12)
		references &= UINT32_MAX;
	return references > UINT32_MAX ? UINT32_MAX : (uint32_t)references;
}

static bool grow_slots(const struct census_walk *w, struct unmet *u)
{
	uint32_t *old = u->slot, nr = u->slot_mask + 1;

	census_need(w, (uint64_t)nr * 2 * sizeof(*u->slot));
	u->slot = census_map((size_t)nr * 2 * sizeof(*u->slot));
	if (!u->slot) {
		u->slot = old;
		return false;
	}
	u->slot_mask = nr * 2 - 1;
	for (uint32_t i = 0; i < u->nr; i++)
		*slot_of(u, u->list[i].object) = i + 1;
	munmap(old, (size_t)nr * sizeof(*old));
	return true;
}

static void add_unmet(struct census_walk *w, const void *object)
{
	struct unmet *u = w->unmet;
	uint32_t *slot;

	if (census_find(w, object))
		return;
	if (u->nr >= u->max || (u->nr > u->slot_mask / 2 && !grow_slots(w, u))) {
		w->no_memory = true;
		return;
	}
	slot = slot_of(u, object);
	if (*slot)
		return;
	u->list[u->nr] = (struct unmet_object){ .object = object, .references = references_of(w, object) };
	*slot = ++u->nr;
}

static void count_reference(void *context, const struct pyedge *e)
{
	const struct unmet *u = context;
	uint32_t number = *slot_of(u, e->object);

	if (number && u->list[number - 1].references)
		u->list[number - 1].references--;
}

static bool unmet_begin(struct census_walk *w, struct unmet *u)
{
	u->max = (uint32_t)(w->max_bytes / 2 / (sizeof(*u->list) + 4 * sizeof(*u->slot)));
	u->slot_mask = FIRST_SLOTS - 1;
	u->list = census_map((size_t)u->max * sizeof(*u->list));
	u->slot = census_map(FIRST_SLOTS * sizeof(*u->slot));
	return u->list && u->slot;
}

static void add_root(struct census_walk *w, const void *object, uint8_t edge)
{
	struct census_node n = { .object = object, .edge = edge };

	n.kind = census_kind_of(w, pyobject_type(object));
	census_add(w, &n, false);
}

#define MOST_TELLING 2

/*
 * A program's own objects stand for a cycle rather than the dicts and lists that belong to them, and where there is none, a
 * function rather than a cell, which has no name.
 */
static int telling_of(struct census_walk *w, const void *object)
{
	const void *type = pyobject_type(object);
	uint8_t kind = census_kind_of(w, type);

	if (pytype_flags(type) & PY_FLAG_HEAP && kind != TFMT_KIND_TENSOR && kind != TFMT_KIND_PARAMETER)
		return MOST_TELLING;
	return kind == TFMT_KIND_FUNCTION || kind == TFMT_KIND_GENERATOR;
}

/*
 * What something else than those objects refers to is held by what is not Python's, a library say; with what it leads to.
 * All that is left is in cycles.
 */
static void place_unmet(struct census_walk *w, const struct unmet *u)
{
	for (uint32_t i = 0; i < u->nr; i++)
		if (u->list[i].references)
			add_root(w, u->list[i].object, TFMT_EDGE_NATIVE);
	census_run(w);
	for (int telling = MOST_TELLING; telling >= 0; telling--)
		for (uint32_t i = 0; i < u->nr && !w->no_time; i++)
			if (telling_of(w, u->list[i].object) == telling && !census_find(w, u->list[i].object)) {
				add_root(w, u->list[i].object, TFMT_EDGE_CYCLE);
				census_run(w);
			}
}

void census_collector(struct census_walk *w)
{
	struct unmet unmet = { 0 };
	uintptr_t head = 0;

	for (uint32_t i = 1; i < w->nr && !head; i++)
		head = find_head(w, w->node[i].object);
	if (!head)
		return;
	each_in_rings(w, head, add_module);
	census_run(w);
	if (w->no_time || w->no_memory || !unmet_begin(w, &unmet))
		return;
	w->unmet = &unmet;
	each_in_rings(w, head, add_unmet);
	for (uint32_t i = 0; i < unmet.nr && !w->no_time; i++) {
		pyobjects_traverse(w->py, unmet.list[i].object, count_reference, &unmet);
		census_beat(w);
	}
	if (w->no_time)
		return;
	place_unmet(w, &unmet);
	w->has_collector = !w->no_time && !w->no_memory;
}
