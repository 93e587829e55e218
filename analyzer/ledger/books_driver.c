/* SPDX-License-Identifier: MIT */
/* Entering driver events: blocks, handles and their mappings, and frees that the driver refused. */
#include "analyzer/ledger/books_driver.h"
#include "analyzer/ledger/books_range.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"

/* A block that a free or an unmap took off the books, or took a reference from: as it was before. */
struct ended {
	struct block block;
	struct block handle;  /* of a mapping; space 0 = none was live */
	bool torch_allocator; /* it counted in what PyTorch has reserved */
};

/* What one thread freed or unmapped last. */
struct undo {
	uint64_t address;
	uint32_t nr; /* 0 = nothing to undo */
	size_t room;
	struct ended *ended;
};

#define THREADS_MAX (1u << 20) /* ids come from a trace: a damaged one must not make us allocate by them */

static struct device_ledger *device_of(struct books *books, const struct block *b)
{
	return &books->device[books->groups.group[b->group].device];
}

static uint8_t space_of(const struct tfmt_event *ev)
{
	return ev->flags & TFMT_SPACE_MASK;
}

/* Where the addresses of a space are looked for: blocks that one call frees share a table. */
static uint8_t block_space(uint8_t space)
{
	switch (space) {
	case TFMT_SPACE_PINNED:
		return BLOCK_PINNED;
	case TFMT_SPACE_REGISTERED:
		return BLOCK_REGISTERED;
	case TFMT_SPACE_ARRAY:
		return BLOCK_ARRAY;
	case TFMT_SPACE_RESERVED:
		return BLOCK_RESERVED;
	case TFMT_SPACE_HANDLE:
	case TFMT_SPACE_HANDLE_HOST:
	case TFMT_SPACE_HANDLE_IMPORTED:
	case TFMT_SPACE_MULTICAST:
		return BLOCK_HANDLE;
	default:
		return BLOCK_DRIVER;
	}
}

/* What a library is modelled to take while PyTorch's allocator is on the stack is not PyTorch's. */
static bool called_by_torch(struct books *books, const struct tfmt_event *ev)
{
	return !(ev->flags & TFMT_FLAG_MODELLED) && books_owner(books, ev->native_stack, 0).torch_allocator;
}

/* Is it memory of the device that a call took? What is modelled was taken by none. */
static bool is_counted(const struct group *g)
{
	return group_is_device_memory(g) && !g->modelled;
}

static bool is_pooled_tensor(struct books *books, const struct tfmt_event *ev)
{
	return (space_of(ev) == TFMT_SPACE_POOL || space_of(ev) == TFMT_SPACE_GRAPH) &&
	       called_by_torch(books, ev);
}

bool books_is_pooled_tensor(struct books *books, const struct tfmt_event *ev)
{
	return (ev->kind == TFMT_DRIVER_ALLOC || ev->kind == TFMT_DRIVER_FREE) && is_pooled_tensor(books, ev);
}

/*
 * Newer PyTorch asks the pool once more before it raises an out-of-memory: the same request on the same
 * thread, with no other in between. Both are one; if the second works there was none.
 */
static bool is_asked_again(struct device_ledger *d, const struct tfmt_event *ev)
{
	bool again = d->books.pool_refused_bytes == ev->size && d->books.pool_refused_thread == ev->thread;

	d->books.pool_refused_bytes = 0;
	return again;
}

static void pooled_tensor_alloc(struct books *books, const struct tfmt_event *ev)
{
	struct device_ledger *d = &books->device[event_device(ev)];

	if (is_asked_again(d, ev))
		d->books.tensor_ooms--;
	books_tensor_alloc(books, ev, false);
}

static void pooled_tensor_refused(struct books *books, const struct tfmt_event *ev)
{
	struct device_ledger *d = &books->device[event_device(ev)];

	if (is_asked_again(d, ev))
		return;
	d->books.pool_refused_bytes = ev->size;
	d->books.pool_refused_thread = ev->thread;
	books_tensor_oom(books, ev, false);
}

static void pooled_tensor_free(struct books *books, const struct tfmt_event *ev, struct device_ledger *d)
{
	d->books.pool_refused_bytes = 0;
	books_tensor_free(books, ev, d, false);
}

void books_driver_alloc(struct books *books, const struct tfmt_event *ev)
{
	uint32_t group = books_group_of(books, ev, false);
	struct block b = { .address = ev->address,
			   .size = ev->size,
			   .ordinal = ev->ordinal,
			   .group = group,
			   .references = 1,
			   .context = (uint32_t)ev->aux,
			   .range = books_range_of(books, ev, false),
			   .space = block_space(space_of(ev)) };
	struct block *live = blocks_find(&books->blocks, b.space, b.address);
	const struct group *g;

	/* Memory of another process keeps its address however often it is opened. */
	if (space_of(ev) == TFMT_SPACE_IPC && live &&
	    books->groups.group[live->group].space == TFMT_SPACE_IPC) {
		live->references++;
		return;
	}
	books_forget_stale(books, b.space, ev->address);
	blocks_insert(&books->blocks, &b);
	g = &books->groups.group[group];
	if (is_counted(g))
		books->device[g->device].books.driver_allocs++;
	/* Reserved first: the driver's peak shall see it. Handles count as reserved when they are mapped. */
	if (b.space != BLOCK_HANDLE && group_is_device_memory(g) && called_by_torch(books, ev))
		books_reserved_add(&books->device[g->device], (int64_t)ev->size);
	books_enter(books, &b, ev->time_ns);
	if (is_pooled_tensor(books, ev))
		pooled_tensor_alloc(books, ev);
}

/*
 * On a device with tensors, did a library ask, or the program itself? The framework says of its own requests
 * which fail. What others are refused after a tensor that failed, with none allocated since, explains nothing.
 */
static bool is_beside_framework(struct books *books, const struct device_ledger *d, const struct tfmt_event *ev)
{
	return d->books.tensor_allocs && !called_by_torch(books, ev) &&
	       (!d->books.tensor_ooms || d->allocs_at_oom != d->books.tensor_allocs);
}

void books_driver_refused(struct books *books, const struct tfmt_event *ev)
{
	struct device_ledger *d = &books->device[event_device(ev)];

	d->books.is_beside_refused = false;
	d->books.driver_refusals++;
	d->books.refused_bytes = ev->size;
	if (is_pooled_tensor(books, ev)) {
		pooled_tensor_refused(books, ev);
		return;
	}
	if (d->books.main_oom.ordinal && d->books.main_oom.thread != ev->thread)
		return;
	/* Where no framework says what failed, this is what did. */
	d->books.is_beside_refused = ev->size && is_beside_framework(books, d, ev);
	if (d->books.is_beside_refused || (!d->books.tensor_allocs && !d->books.tensor_ooms && ev->size)) {
		d->books.oom_asked_bytes = ev->size;
		books_mark(d, MARK_OOM, ev->time_ns);
	}
	if (d->books.is_beside_refused && books->listener)
		books->listener->note_mark(books->listener->ctx, event_device(ev), MARK_OOM, false);
}

/* ---- what a thread ended last ------------------------------------------------------------------ */

void books_undo_release(struct books *books)
{
	for (uint32_t i = 0; i < books->nr_undos; i++)
		free(books->undo[i].ended);
	free(books->undo);
}

/* A free or unmap begins: the thread's memory of it, empty; NULL if its id is damage. */
static struct undo *undo_begin(struct books *books, const struct tfmt_event *ev)
{
	uint32_t room = books->nr_undos ? books->nr_undos : 64;
	struct undo *grown;

	if (ev->thread >= THREADS_MAX)
		return NULL;
	while (room <= ev->thread)
		room *= 2;
	if (room > books->nr_undos) {
		grown = heap_need(realloc(books->undo, room * sizeof(*grown)));
		memset(grown + books->nr_undos, 0, (room - books->nr_undos) * sizeof(*grown));
		books->undo = grown;
		books->nr_undos = room;
	}
	books->undo[ev->thread].nr = 0;
	books->undo[ev->thread].address = ev->address;
	return &books->undo[ev->thread];
}

static void undo_add(struct undo *u, const struct ended *ended)
{
	if (!u)
		return;
	u->ended = heap_grow(u->ended, &u->room, u->nr + 1u, sizeof(*u->ended));
	u->ended[u->nr++] = *ended;
}

/* One reference less; the last takes the block off the books. */
static void block_put(struct books *books, struct block *b)
{
	if (--b->references)
		return;
	if (is_counted(&books->groups.group[b->group]))
		device_of(books, b)->books.driver_frees++;
	books_leave(books, b);
	blocks_remove(&books->blocks, b);
}

/* The handle that a mapping shows, not another one that has its number by now; NULL if it is not known. */
static struct block *handle_of(const struct books *books, const struct block *mapping)
{
	struct block *handle = blocks_find(&books->blocks, BLOCK_HANDLE, mapping->handle);

	return handle && handle->ordinal == mapping->ordinal ? handle : NULL;
}

void books_unmap(struct books *books, struct block *mapping)
{
	struct block shown = *mapping, *handle;

	blocks_remove(&books->blocks, mapping);
	handle = handle_of(books, &shown);
	if (handle)
		block_put(books, handle);
}

void books_driver_free(struct books *books, const struct tfmt_event *ev)
{
	struct block *b = blocks_find(&books->blocks, block_space(space_of(ev)), ev->address);
	struct undo *u = undo_begin(books, ev);
	struct ended ended = { 0 };
	struct device_ledger *d;

	if (!b) {
		books->unmatched_frees++;
		books_damage_unmatched(books, event_device(ev), false);
		return;
	}
	d = device_of(books, b);
	ended.block = *b;
	ended.torch_allocator = b->space != BLOCK_HANDLE && is_counted(&books->groups.group[b->group]) &&
				called_by_torch(books, ev);
	if (ended.torch_allocator)
		books_reserved_add(d, -(int64_t)b->size);
	block_put(books, b);
	undo_add(u, &ended);
	if (is_pooled_tensor(books, ev))
		pooled_tensor_free(books, ev, d);
}

void books_handle_retain(struct books *books, const struct tfmt_event *ev)
{
	struct block *b = blocks_find(&books->blocks, BLOCK_HANDLE, ev->address);

	if (b)
		b->references++;
}

/* The device on which a mapping of this handle counts as reserved. */
static struct device_ledger *mapped_device(struct books *books, const struct block *handle,
					  const struct tfmt_event *ev)
{
	return handle ? device_of(books, handle) : &books->device[event_device(ev)];
}

void books_range_map(struct books *books, const struct tfmt_event *ev)
{
	struct block b = { .address = ev->address,
			   .size = ev->size,
			   .handle = ev->aux,
			   .ordinal = TFMT_NO_ORDINAL,
			   .space = BLOCK_MAPPING };
	struct block *handle;

	handle = blocks_find(&books->blocks, BLOCK_HANDLE, ev->aux);
	if (handle) {
		handle->references++;
		b.ordinal = handle->ordinal;
	}
	if (called_by_torch(books, ev))
		books_reserved_add(mapped_device(books, handle, ev), (int64_t)b.size);
	books_forget_stale(books, BLOCK_MAPPING, ev->address);
	blocks_insert(&books->blocks, &b);
}

void books_range_unmap(struct books *books, const struct tfmt_event *ev)
{
	bool torch_allocator = called_by_torch(books, ev);
	struct undo *u = undo_begin(books, ev);
	uint64_t address = ev->address, end = ev->address + ev->size;

	/* One call may undo several neighbouring mappings. */
	while (address < end) {
		struct block *b = blocks_find(&books->blocks, BLOCK_MAPPING, address);
		struct block *handle = b ? handle_of(books, b) : NULL;
		struct ended ended = { .torch_allocator = torch_allocator };

		if (!b || !b->size)
			break;
		ended.block = *b;
		if (handle)
			ended.handle = *handle;
		if (torch_allocator)
			books_reserved_add(mapped_device(books, handle, ev), -(int64_t)b->size);
		address += b->size;
		books_unmap(books, b);
		undo_add(u, &ended);
	}
}

static bool is_imported(const struct books *books, const struct block *b)
{
	return b->space == BLOCK_DRIVER && books->groups.group[b->group].space == TFMT_SPACE_IPC;
}

/* Is something else at its address by now? Then it has ended after all: the address was handed out again. */
static bool is_superseded(const struct books *books, const struct block *before)
{
	const struct block *now = blocks_find(&books->blocks, before->space, before->address);

	if (!now)
		return false;
	return before->space == BLOCK_MAPPING ||
	       (now->ordinal != before->ordinal && !(is_imported(books, now) && is_imported(books, before)));
}

/* A block that a reference was taken from has it again; one that has left the books comes back. */
static void block_restore(struct books *books, const struct block *before, uint64_t time_ns)
{
	struct block *b = blocks_find(&books->blocks, before->space, before->address);
	struct block again = *before;
	struct device_ledger *d;

	if (is_superseded(books, before))
		return;
	if (b) {
		b->references++;
		return;
	}
	again.references = 1;
	blocks_insert(&books->blocks, &again);
	d = device_of(books, before);
	/* None may have been counted of a block whose number was in use twice meanwhile. */
	if (is_counted(&books->groups.group[before->group]) && d->books.driver_frees)
		d->books.driver_frees--;
	books_enter(books, &again, time_ns);
}

static void ended_restore(struct books *books, const struct ended *e, const struct tfmt_event *ev)
{
	bool mapping = e->block.space == BLOCK_MAPPING;
	const struct block *memory = !mapping ? &e->block : e->handle.space ? &e->handle : NULL;

	if (is_superseded(books, &e->block))
		return;
	if (mapping)
		blocks_insert(&books->blocks, &e->block);
	if (e->torch_allocator)
		books_reserved_add(mapped_device(books, memory, ev), (int64_t)e->block.size);
	if (memory)
		block_restore(books, memory, ev->time_ns);
}

/* The driver refused what this thread's latest free or unmap asked for. */
void books_free_failed(struct books *books, const struct tfmt_event *ev)
{
	struct undo *u = ev->thread < books->nr_undos ? &books->undo[ev->thread] : NULL;

	if (!u || !u->nr || u->address != ev->address)
		return;
	for (uint32_t i = 0; i < u->nr; i++)
		ended_restore(books, &u->ended[i], ev);
	u->nr = 0;
}
