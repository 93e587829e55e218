/* SPDX-License-Identifier: MIT */
/* A hash table of reads by stack. */
#include "analyzer/ledger/valuereads.h"

#include <stdlib.h>

#include "analyzer/base/heap.h"

void value_reads_release(struct value_reads *v)
{
	free(v->read);
	free(v->slot);
	*v = (struct value_reads){ 0 };
}

static uint32_t *find_slot(const struct value_reads *v, uint32_t python_stack, uint32_t native_stack)
{
	uint64_t hash = ((uint64_t)python_stack << 32 | native_stack) * 0x9e3779b97f4a7c15ull;
	uint32_t i = (uint32_t)(hash >> 32) & (v->slots_room - 1);

	while (v->slot[i] && (v->read[v->slot[i] - 1].python_stack != python_stack ||
			      v->read[v->slot[i] - 1].native_stack != native_stack))
		i = (i + 1) & (v->slots_room - 1);
	return &v->slot[i];
}

static void grow(struct value_reads *v)
{
	uint32_t room = v->slots_room ? 2 * v->slots_room : 64;

	v->read = heap_need(realloc(v->read, room / 2 * sizeof(*v->read)));
	v->room = room / 2;
	free(v->slot);
	v->slot = heap_alloc(room, sizeof(*v->slot));
	v->slots_room = room;
	for (uint32_t i = 0; i < v->nr_reads; i++)
		*find_slot(v, v->read[i].python_stack, v->read[i].native_stack) = i + 1;
}

void value_reads_add(struct value_reads *v, const struct tfmt_event *ev)
{
	struct value_read *read;
	uint32_t *slot;

	if (v->nr_reads == v->room)
		grow(v);
	slot = find_slot(v, ev->python_stack, ev->native_stack);
	if (!*slot) {
		v->read[v->nr_reads++] = (struct value_read){ .python_stack = ev->python_stack,
							      .native_stack = ev->native_stack,
							      .first_ns = ev->time_ns };
		*slot = v->nr_reads;
	}
	read = &v->read[*slot - 1];
	read->reads++;
	read->bytes += ev->size;
}
