/* SPDX-License-Identifier: MIT */
/* Shapes of tensors about to be allocated; see shapes.h. */
#include "shapes.h"

#include <string.h>

#include "interpose.h"

#define CACHE_SHAPES 256u /* per thread; a training step has tens of distinct ones */
#define CACHE_SLOTS (2 * CACHE_SHAPES)
#define TABLE_SLOTS 65536u

struct shape {
	uint64_t hash, bytes;
	uint32_t id;
	uint8_t element_type, nr_dims;
	int64_t sizes[SHAPE_DIMS_MAX];
};

/* Side by side, whatever their hashes are: the few that a program uses lie in few pages. */
struct shape_cache {
	uint32_t nr;
	uint16_t slot[CACHE_SLOTS]; /* hash -> number of the shape, 0 = none */
	struct shape shape[CACHE_SHAPES + 1];
};

/* All shapes of the process, open addressing; wiped with the recorder in a fork child. */
static struct {
	uint32_t generation; /* whose table it is: a fork child begins anew */
	uint32_t nr;
	struct shape *slot;
} table;

struct shape_cache *shape_cache_new(void)
{
	return ip_map(sizeof(struct shape_cache));
}

void shape_cache_free(struct shape_cache *c)
{
	ip_unmap(c, sizeof(*c));
}

/* Bytes of one element by PyTorch's ScalarType number (c10/core/ScalarType.h); 0 = not a plain type. */
static unsigned element_bytes(int element_type)
{
	static const uint8_t bytes[] = {
		/* uint8 int8 int16 int32 int64 half float double */ 1, 1, 2, 4, 8, 2, 4, 8,
		/* complex: half float double; bool */ 4, 8, 16, 1,
		/* qint8 quint8 qint32 bfloat16 quint4x2 quint2x4 */ 1, 1, 4, 2, 1, 1,
		/* bits: 1x8 2x4 4x2 8 16 */ 1, 1, 1, 1, 2,
		/* float8: e5m2 e4m3fn e5m2fnuz e4m3fnuz */ 1, 1, 1, 1,
		/* uint16 uint32 uint64 */ 2, 4, 8,
	};

	return element_type >= 0 && (size_t)element_type < sizeof(bytes) ? bytes[element_type] : 0;
}

/* Two shapes of one hash. A call of memcmp() would cost more than what it compares. */
static inline bool same(const struct shape *a, uint64_t hash, uint64_t bytes, int element_type, const int64_t *sizes,
			size_t nr_dims)
{
	if (a->hash != hash || a->bytes != bytes || a->element_type != element_type || a->nr_dims != nr_dims)
		return false;
	for (size_t i = 0; i < nr_dims; i++) {
		if (a->sizes[i] != sizes[i])
			return false;
	}
	return true;
}

static bool define(const struct shape *s, uint32_t id)
{
	uint8_t payload[32 + SHAPE_DIMS_MAX * 10], *p = payload;

	p = tfmt_put_varint(p, s->element_type);
	p = tfmt_put_varint(p, s->bytes);
	p = tfmt_put_varint(p, s->nr_dims);
	for (unsigned i = 0; i < s->nr_dims; i++)
		p = tfmt_put_varint(p, (uint64_t)s->sizes[i]);
	return ip_define(TFMT_DEF_SHAPE, id, payload, (size_t)(p - payload));
}

/* The process's table, made anew in a fork child. Table lock held. */
static bool table_ready(void)
{
	if (table.generation == ip_recorder->generation)
		return table.slot;
	table.slot = ip_map(TABLE_SLOTS * sizeof(*table.slot));
	table.nr = 0;
	table.generation = ip_recorder->generation;
	return table.slot;
}

static IP_COLD uint32_t intern_slowly(const struct shape *s)
{
	uint32_t id = 0, i;

	ip_lock(&ip_recorder->shape_lock);
	if (!table_ready())
		goto out;
	for (i = s->hash & (TABLE_SLOTS - 1); table.slot[i].id; i = (i + 1) & (TABLE_SLOTS - 1))
		if (same(&table.slot[i], s->hash, s->bytes, s->element_type, s->sizes, s->nr_dims)) {
			id = table.slot[i].id;
			goto out;
		}
	if (table.nr >= TABLE_SLOTS / 4 * 3 || !define(s, table.nr + 1))
		goto out;
	id = ++table.nr;
	table.slot[i] = *s;
	table.slot[i].id = id;
out:
	ip_unlock(&ip_recorder->shape_lock);
	return id;
}

/* Remember a shape with the id that it has been given. Full, the cache begins anew. */
static IP_COLD void cache_add(struct shape_cache *c, const struct shape *s)
{
	uint32_t i = s->hash & (CACHE_SLOTS - 1);

	if (c->nr == CACHE_SHAPES) {
		memset(c->slot, 0, sizeof(c->slot));
		c->nr = 0;
	}
	while (c->slot[i])
		i = (i + 1) & (CACHE_SLOTS - 1);
	c->slot[i] = (uint16_t)++c->nr;
	memcpy(&c->shape[c->nr], s, offsetof(struct shape, sizes) + s->nr_dims * sizeof(*s->sizes));
}

static IP_COLD uint32_t intern_new(struct shape_cache *c, struct shape *s, const int64_t *sizes)
{
	memcpy(s->sizes, sizes, s->nr_dims * sizeof(*sizes));
	s->id = intern_slowly(s);
	if (s->id)
		cache_add(c, s);
	return s->id;
}

/* The bytes are those of at::detail::computeStorageNbytes: from sizes and strides, offset 0. */
uint32_t shape_intern(struct shape_cache *c, int element_type, const int64_t *sizes, size_t nr_dims,
		      const int64_t *strides)
{
	uint64_t hash = (uint64_t)element_type * 1000003u + nr_dims, elements = 1, bytes;
	unsigned one = element_bytes(element_type);

	if (nr_dims > SHAPE_DIMS_MAX || !one)
		return 0;
	for (size_t i = 0; i < nr_dims; i++) {
		uint64_t size = (uint64_t)sizes[i];

		hash = (hash ^ size) * 0x9e3779b97f4a7c15u;
		if (strides && size)
			elements += elements ? (size - 1) * (uint64_t)strides[i] : 0;
		else
			elements *= size;
	}
	bytes = elements * one;
	hash = (hash ^ bytes) * 0x9e3779b97f4a7c15u;
	hash ^= hash >> 32;
	for (uint32_t i = hash & (CACHE_SLOTS - 1); c->slot[i]; i = (i + 1) & (CACHE_SLOTS - 1)) {
		const struct shape *known = &c->shape[c->slot[i]];

		if (same(known, hash, bytes, element_type, sizes, nr_dims))
			return known->id;
	}
	return intern_new(c, &(struct shape){ .hash = hash, .bytes = bytes, .element_type = (uint8_t)element_type,
					      .nr_dims = (uint8_t)nr_dims }, sizes);
}
