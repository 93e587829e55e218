/* SPDX-License-Identifier: MIT */
/*
 * Nodes lie in chunks that never move; a hash table of ids finds them. The table is replaced by one twice
 * as large when half full, and the old one stays mapped: a reader that still looks at it can only miss, and
 * a miss is looked up again under the lock.
 */
#include "stacktree.h"

#include <stddef.h>
#include <string.h>

#include "interpose.h"

#define CHUNK_NODES 4096u
#define FIRST_SLOTS 4096u

struct node {
	uint64_t a;
	int32_t b;
	uint32_t parent;
	uint32_t kind;
	uint32_t depth; /* of the stack; no part of what a node is */
};

struct table {
	uint32_t mask;
	_Atomic uint32_t slot[]; /* node id, 0 = empty */
};

static struct {
	_Atomic(struct table *) table;
	_Atomic(struct node *) chunk[STACKTREE_MAX / CHUNK_NODES];
	uint32_t nr_nodes;     /* under the lock, as all that changes */
	_Atomic uint32_t lock;
} tree;

static inline struct node *node_of(uint32_t id)
{
	uint32_t index = id - TFMT_STACK_FIRST;
	struct node *chunk = atomic_load_explicit(&tree.chunk[index / CHUNK_NODES], memory_order_relaxed);

	return &chunk[index % CHUNK_NODES];
}

static inline uint32_t hash_of(const struct node *n)
{
	uint64_t h = n->a * 0x9e3779b97f4a7c15ull;

	h ^= ((uint64_t)n->parent << 32 | (uint32_t)n->b) * 0xc2b2ae3d27d4eb4full;
	h ^= n->kind;
	h *= 0x9e3779b97f4a7c15ull;
	return (uint32_t)(h >> 32);
}

/* The id of an equal node, else 0 with *where = the empty slot that ended the search. */
static uint32_t find(const struct table *t, const struct node *key, uint32_t hash, uint32_t *where)
{
	uint32_t i = hash & t->mask, id;

	while ((id = atomic_load_explicit(&t->slot[i], memory_order_acquire)) != 0) {
		const struct node *n = node_of(id);

		if (n->a == key->a && n->b == key->b && n->parent == key->parent && n->kind == key->kind)
			return id;
		i = (i + 1) & t->mask;
	}
	*where = i;
	return 0;
}

static size_t table_bytes(uint32_t slots)
{
	return sizeof(struct table) + (size_t)slots * sizeof(uint32_t);
}

/* Publish a table of `slots` slots that holds all nodes. */
static bool grow(uint32_t slots)
{
	struct table *t = ip_map(table_bytes(slots));

	if (!t)
		return false;
	t->mask = slots - 1;
	for (uint32_t id = TFMT_STACK_FIRST; id < TFMT_STACK_FIRST + tree.nr_nodes; id++) {
		const struct node *n = node_of(id);
		uint32_t where;

		find(t, n, hash_of(n), &where);
		atomic_store_explicit(&t->slot[where], id, memory_order_relaxed);
	}
	atomic_store_explicit(&tree.table, t, memory_order_release);
	return true;
}

static bool define(uint32_t id, const struct node *n)
{
	bool is_python = n->kind == TFMT_FRAME_PYTHON || n->kind == TFMT_FRAME_PYTHON_ENTRY;
	uint32_t instance = is_python ? (uint32_t)(n->a >> 32) : 0;
	uint8_t payload[40], *p = payload;

	p = tfmt_put_varint(p, n->parent);
	p = tfmt_put_varint(p, n->kind);
	p = tfmt_put_varint(p, instance ? (uint32_t)n->a : n->a);
	p = tfmt_put_zigzag(p, n->b);
	if (instance)
		p = tfmt_put_varint(p, instance);
	return ip_define(TFMT_DEF_FRAME, id, payload, (size_t)(p - payload));
}

/* Room for node number `index`. */
static bool make_room(uint32_t index)
{
	_Atomic(struct node *) *chunk;
	uint32_t slots = atomic_load_explicit(&tree.table, memory_order_relaxed)->mask + 1;

	if (index >= STACKTREE_MAX)
		return false;
	chunk = &tree.chunk[index / CHUNK_NODES];
	if (!atomic_load_explicit(chunk, memory_order_relaxed)) {
		struct node *fresh = ip_map(CHUNK_NODES * sizeof(struct node));

		if (!fresh)
			return false;
		atomic_store_explicit(chunk, fresh, memory_order_relaxed);
	}
	/* Without memory for a larger table the present one serves until it is nearly full. */
	return index < slots / 2 || grow(slots * 2) || index < slots - slots / 8;
}

uint32_t stacktree_depth(uint32_t id)
{
	return id < TFMT_STACK_FIRST ? 0 : node_of(id)->depth;
}

static uint32_t insert(const struct node *key, uint32_t hash)
{
	uint32_t id, where;

	ip_lock(&tree.lock);
	id = find(atomic_load_explicit(&tree.table, memory_order_relaxed), key, hash, &where);
	if (!id && make_room(tree.nr_nodes)) {
		struct table *t = atomic_load_explicit(&tree.table, memory_order_relaxed);
		uint32_t fresh = TFMT_STACK_FIRST + tree.nr_nodes;

		*node_of(fresh) = *key;
		node_of(fresh)->depth = stacktree_depth(key->parent) + 1;
		if (define(fresh, key)) {
			find(t, key, hash, &where);
			tree.nr_nodes++;
			atomic_store_explicit(&t->slot[where], fresh, memory_order_release);
			id = fresh;
		}
	}
	ip_unlock(&tree.lock);
	return id;
}

uint32_t stacktree_child(uint32_t parent, enum tfmt_frame_kind kind, uint64_t a, int32_t b)
{
	const struct node key = { .a = a, .b = b, .parent = parent, .kind = kind };
	const struct table *t = atomic_load_explicit(&tree.table, memory_order_acquire);
	uint32_t hash, where, id;

	if (!t)
		return 0;
	hash = hash_of(&key);
	id = find(t, &key, hash, &where);
	return id ? id : insert(&key, hash);
}

bool stacktree_init(void)
{
	atomic_store_explicit(&tree.table, NULL, memory_order_relaxed);
	for (size_t i = 0; i < STACKTREE_MAX / CHUNK_NODES; i++)
		atomic_store_explicit(&tree.chunk[i], NULL, memory_order_relaxed);
	tree.nr_nodes = 0;
	atomic_store_explicit(&tree.lock, 0, memory_order_relaxed);
	return grow(FIRST_SLOTS);
}
