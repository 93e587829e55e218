/* SPDX-License-Identifier: MIT */
/* Blocks of the model: made, dropped, joined with their neighbours, listed as free. */
#include "analyzer/allocator/cachingmodel_inside.h"

#include "analyzer/base/heap.h"

uint32_t modelblock_new(struct cachingmodel *m, uint32_t list, uint64_t address, uint64_t size)
{
	uint32_t n = m->spare_block;

	if (n) {
		m->spare_block = m->block[n].next;
	} else {
		m->block = heap_grow(m->block, &m->blocks_room, (size_t)m->nr_blocks + 2, sizeof(*m->block));
		n = ++m->nr_blocks;
	}
	m->block[n] = (struct modelblock){ .address = address, .size = size, .list = list, .mapped = true };
	return n;
}

void modelblock_drop(struct cachingmodel *m, uint32_t n)
{
	m->block[n] = (struct modelblock){ .next = m->spare_block };
	m->spare_block = n;
}

void modelblock_add_free(struct cachingmodel *m, uint32_t n)
{
	struct modelblock *b = &m->block[n];
	struct modellist *l = &m->list[b->list];

	b->age_base = m->pool[l->pool].searches;
	if (b->mapped)
		freeblocks_add(&l->free, (struct freeblocks_entry){ b->size, b->address, n });
	else
		freeblocks_add(&l->unmapped, (struct freeblocks_entry){ 0, b->address, n });
}

void modelblock_take_free(struct cachingmodel *m, uint32_t n)
{
	struct modelblock *b = &m->block[n];
	struct modellist *l = &m->list[b->list];

	if (b->mapped)
		freeblocks_remove(&l->free, b->size, b->address);
	else
		freeblocks_remove(&l->unmapped, 0, b->address);
}

void modelblock_put_after(struct cachingmodel *m, uint32_t n, uint32_t before)
{
	uint32_t next = m->block[before].next;

	m->block[n].prev = before;
	m->block[n].next = next;
	m->block[before].next = n;
	if (next)
		m->block[next].prev = n;
}

void modelblock_put_before(struct cachingmodel *m, uint32_t n, uint32_t after)
{
	uint32_t prev = m->block[after].prev;

	m->block[n].prev = prev;
	m->block[n].next = after;
	m->block[after].prev = n;
	if (prev)
		m->block[prev].next = n;
}

void modelblock_merge(struct cachingmodel *m, uint32_t n, uint32_t neighbour)
{
	struct modelblock *b = &m->block[n], *o = &m->block[neighbour];

	if (!neighbour || o->allocated || o->pending || o->mapped != b->mapped)
		return;
	modelblock_take_free(m, neighbour);
	if (b->prev == neighbour) {
		b->address = o->address;
		b->prev = o->prev;
		if (b->prev)
			m->block[b->prev].next = n;
	} else {
		b->next = o->next;
		if (b->next)
			m->block[b->next].prev = n;
	}
	b->size += o->size;
	modelblock_drop(m, neighbour);
}
