/* SPDX-License-Identifier: MIT */
/* A hash table that only grows fuller: whoever finds an object there finds its id. */
#include "instances.h"

#include <string.h>

#include "interpose.h"

#define SLOTS (2 * INSTANCES_MAX)
#define CLASS_MAX 64u /* characters of a class's name that are kept */

/* Not across two cache lines. */
struct instance {
	_Alignas(32) const void *class;
	uint32_t id;
	_Atomic uint32_t next;      /* the slot of the one that some thread asked for after this one */
	const void *_Atomic object; /* NULL = empty; stored last */
};

static struct {
	struct instance *slot; /* NULL = no memory */
	uint32_t nr;
	_Atomic uint32_t lock;
} all;

void instances_init(void)
{
	memset(&all, 0, sizeof(all));
	all.slot = ip_map(SLOTS * sizeof(*all.slot));
}

static inline uint32_t first_slot(const void *object)
{
	return (uint32_t)((uintptr_t)object * 0x9e3779b97f4a7c15ull >> 48);
}
_Static_assert(SLOTS == 1u << 16, "the first slot is the top 16 bits of the product");

/* Where the object is, or would be put. */
static struct instance *find(const void *object, const void *class, bool *is_there)
{
	uint32_t i = first_slot(object);
	const void *here;

	while ((here = atomic_load_explicit(&all.slot[i].object, memory_order_acquire)) != NULL) {
		if (here == object && all.slot[i].class == class) {
			*is_there = true;
			return &all.slot[i];
		}
		i = (i + 1) % SLOTS;
	}
	*is_there = false;
	return &all.slot[i];
}

static bool define(uint32_t id, const void *object, const void *class)
{
	const char *name = py_pointer(class, PY_TYPE_NAME);
	size_t len = name ? strnlen(name, CLASS_MAX) : 0;
	uint8_t payload[20 + CLASS_MAX], *p = payload;

	p = tfmt_put_varint(p, (uintptr_t)object);
	p = tfmt_put_varint(p, len);
	memcpy(p, name, len);
	return ip_define(TFMT_DEF_INSTANCE, id, payload, (size_t)(p + len - payload));
}

static IP_COLD uint32_t add(const void *object, const void *class)
{
	struct instance *in;
	bool is_there;
	uint32_t id;

	ip_lock(&all.lock);
	in = find(object, class, &is_there);
	id = is_there ? in->id : 0;
	if (!is_there && all.nr < INSTANCES_MAX && define(all.nr + 1, object, class)) {
		id = in->id = ++all.nr;
		in->class = class;
		atomic_store_explicit(&in->object, object, memory_order_release);
	}
	ip_unlock(&all.lock);
	return id;
}

/* A step's modules are called in the order of the step before: what is asked for next is fetched before that, mostly. */
static inline void fetch_next(struct instance *in, uint32_t *latest)
{
	uint32_t slot = (uint32_t)(in - all.slot);
	_Atomic uint32_t *next = &all.slot[*latest].next;

	if (atomic_load_explicit(next, memory_order_relaxed) != slot)
		atomic_store_explicit(next, slot, memory_order_relaxed);
	*latest = slot;
	__builtin_prefetch(&all.slot[atomic_load_explicit(&in->next, memory_order_relaxed)]);
}

uint32_t instances_id(const void *object, uint32_t *latest)
{
	const void *class;
	struct instance *in;
	bool is_there;

	if (!object || !all.slot)
		return 0;
	class = py_pointer(object, PY_OB_TYPE);
	in = find(object, class, &is_there);
	if (!is_there)
		return add(object, class);
	fetch_next(in, latest);
	return in->id;
}
