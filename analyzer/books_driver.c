/* SPDX-License-Identifier: MIT */
/* Entering driver events: blocks, handles and their mappings, and frees that the driver refused. */
#include "analyzer/books_driver.h"

#include <stdlib.h>
#include <string.h>

/* What one thread freed or unmapped last. */
struct undo {
	uint8_t kind;       /* TFMT_DRIVER_FREE or TFMT_UNMAP; 0 = nothing to undo */
	bool was_last;      /* the block left the books (a handle may have more references) */
	bool torch_allocator;
	uint64_t address;
	struct block block;  /* what was freed or unmapped, as it was before */
	struct block handle; /* of an unmapped range */
};

#define THREADS_MAX (1u << 20) /* ids come from a trace: a damaged one must not make us allocate by them */

static struct device_books *device_of(struct books *books, const struct block *b)
{
	return &books->device[books->groups.group[b->group].device];
}

/* What a library is modelled to take while PyTorch's allocator is on the stack is not PyTorch's. */
static bool called_by_torch(struct books *books, const struct tfmt_event *ev)
{
	return !(ev->flags & TFMT_FLAG_MODELLED) && books_owner(books, ev->native_stack).torch_allocator;
}

/* Is it memory of the device that a call took? What is modelled was taken by none. */
static bool is_counted(const struct group *g)
{
	return group_is_device_memory(g) && !g->modelled;
}

/*
 * PyTorch takes memory of the driver's pools only with backend:cudaMallocAsync: one piece for each tensor,
 * and nothing is reported to the profiler then.
 */
static bool is_pooled_tensor(struct books *books, const struct tfmt_event *ev)
{
	return (ev->flags & TFMT_SPACE_MASK) == TFMT_SPACE_POOL && called_by_torch(books, ev);
}

/*
 * Newer PyTorch asks the pool once more before it raises an out-of-memory: the same request on the same
 * thread, with no other in between. Both are one; if the second works there was none.
 */
static bool is_asked_again(struct device_books *d, const struct tfmt_event *ev)
{
	bool again = d->pool_refused_bytes == ev->size && d->pool_refused_thread == ev->thread;

	d->pool_refused_bytes = 0;
	return again;
}

static int pooled_tensor_alloc(struct books *books, const struct tfmt_event *ev)
{
	struct device_books *d = &books->device[books_device(ev)];

	if (is_asked_again(d, ev))
		d->tensor_ooms--;
	return books_tensor_alloc(books, ev, false);
}

static int pooled_tensor_refused(struct books *books, const struct tfmt_event *ev)
{
	struct device_books *d = &books->device[books_device(ev)];

	if (is_asked_again(d, ev))
		return 0;
	d->pool_refused_bytes = ev->size;
	d->pool_refused_thread = ev->thread;
	return books_tensor_oom(books, ev, false);
}

static int pooled_tensor_free(struct books *books, const struct tfmt_event *ev, struct device_books *d)
{
	d->pool_refused_bytes = 0;
	return books_tensor_free(books, ev, d, false);
}

int books_driver_alloc(struct books *books, const struct tfmt_event *ev)
{
	int64_t group = books_group(books, ev, false);
	bool handle = (ev->flags & TFMT_SPACE_MASK) == TFMT_SPACE_HANDLE;
	struct block b = { .address = ev->address,
			  .size = ev->size,
			  .group = (uint32_t)group,
			  .references = 1,
			  .space = handle ? BLOCK_HANDLE : BLOCK_DRIVER };
	const struct group *g;

	books_forget_stale(books, b.space, ev->address);
	if (group < 0 || !blocks_insert(&books->blocks, &b))
		return TFMT_E_NOMEM;
	g = &books->groups.group[group];
	if (is_counted(g))
		books->device[g->device].driver_allocs++;
	/* Reserved first: the driver's peak shall see it. Handles count as reserved when they are mapped. */
	if (!handle && group_is_device_memory(g) && called_by_torch(books, ev))
		books_reserved_add(&books->device[g->device], (int64_t)ev->size);
	books_enter(books, &b, ev->time_ns);
	return is_pooled_tensor(books, ev) ? pooled_tensor_alloc(books, ev) : 0;
}

int books_driver_refused(struct books *books, const struct tfmt_event *ev)
{
	struct device_books *d = &books->device[books_device(ev)];

	d->driver_refusals++;
	d->refused_bytes = ev->size;
	return is_pooled_tensor(books, ev) ? pooled_tensor_refused(books, ev) : 0;
}

/* The thread's memory of its latest free; NULL if there is none to be had. */
static struct undo *undo_of(struct books *books, uint32_t thread)
{
	uint32_t room = books->nr_undos ? books->nr_undos : 64;
	struct undo *grown;

	if (thread < books->nr_undos)
		return &books->undo[thread];
	if (thread >= THREADS_MAX)
		return NULL;
	while (room <= thread)
		room *= 2;
	grown = realloc(books->undo, room * sizeof(*grown));
	if (!grown)
		return NULL;
	memset(grown + books->nr_undos, 0, (room - books->nr_undos) * sizeof(*grown));
	books->undo = grown;
	books->nr_undos = room;
	return &grown[thread];
}

int books_driver_free(struct books *books, const struct tfmt_event *ev)
{
	bool handle = (ev->flags & TFMT_SPACE_MASK) == TFMT_SPACE_HANDLE;
	struct block *b = blocks_find(&books->blocks, handle ? BLOCK_HANDLE : BLOCK_DRIVER, ev->address);
	struct undo scratch, *u = undo_of(books, ev->thread);
	struct device_books *d;

	u = u ? u : &scratch;
	u->kind = 0;
	if (!b) {
		books->unmatched_frees++;
		return 0;
	}
	*u = (struct undo){ .kind = TFMT_DRIVER_FREE, .was_last = true, .address = ev->address, .block = *b };
	if (handle) {
		u->was_last = books_put(books, b);
		return 0;
	}
	d = device_of(books, b);
	if (is_counted(&books->groups.group[b->group])) {
		d->driver_frees++;
		u->torch_allocator = called_by_torch(books, ev);
		if (u->torch_allocator)
			books_reserved_add(d, -(int64_t)b->size);
	}
	books_leave(books, b);
	blocks_remove(&books->blocks, b);
	return is_pooled_tensor(books, ev) ? pooled_tensor_free(books, ev, d) : 0;
}

int books_handle_retain(struct books *books, const struct tfmt_event *ev)
{
	struct block *b = blocks_find(&books->blocks, BLOCK_HANDLE, ev->address);

	if (b)
		b->references++;
	return 0;
}

int books_range_map(struct books *books, const struct tfmt_event *ev)
{
	struct block b = {
	    .address = ev->address, .size = ev->size, .handle = ev->aux, .space = BLOCK_MAPPING };
	struct block *handle;

	books_forget_stale(books, BLOCK_MAPPING, ev->address);
	handle = blocks_find(&books->blocks, BLOCK_HANDLE, ev->aux);
	if (handle)
		handle->references++;
	if (called_by_torch(books, ev))
		books_reserved_add(handle ? device_of(books, handle) : &books->device[books_device(ev)],
				   (int64_t)b.size);
	return blocks_insert(&books->blocks, &b) ? 0 : TFMT_E_NOMEM;
}

int books_range_unmap(struct books *books, const struct tfmt_event *ev)
{
	bool torch_allocator = called_by_torch(books, ev);
	struct undo scratch, *u = undo_of(books, ev->thread);
	uint64_t address = ev->address, end = ev->address + ev->size;

	u = u ? u : &scratch;
	/* One call may undo several neighbouring mappings; should it fail, only the last is put back. */
	while (address < end) {
		struct block *b = blocks_find(&books->blocks, BLOCK_MAPPING, address);
		struct block *handle = b ? blocks_find(&books->blocks, BLOCK_HANDLE, b->handle) : NULL;

		if (!b || !b->size)
			break;
		*u = (struct undo){ .kind = TFMT_UNMAP, .torch_allocator = torch_allocator,
				    .address = ev->address, .block = *b };
		if (handle)
			u->handle = *handle;
		if (torch_allocator)
			books_reserved_add(handle ? device_of(books, handle)
						  : &books->device[books_device(ev)],
					   -(int64_t)b->size);
		address += b->size;
		u->was_last = books_unmap(books, b);
	}
	return 0;
}

/* A handle that was put is taken again; one that had left the books comes back as it was. */
static int handle_restore(struct books *books, const struct block *before, bool was_last, uint64_t time_ns)
{
	struct block *b = blocks_find(&books->blocks, BLOCK_HANDLE, before->address);

	if (!was_last) {
		if (b)
			b->references++;
		return 0;
	}
	if (b || !blocks_insert(&books->blocks, before))
		return b ? 0 : TFMT_E_NOMEM;
	device_of(books, before)->driver_frees--;
	books_enter(books, before, time_ns);
	return 0;
}

/* The driver refused what this thread's latest free or unmap asked for. */
int books_free_failed(struct books *books, const struct tfmt_event *ev)
{
	struct undo *u = undo_of(books, ev->thread);
	struct device_books *d;
	struct undo was;

	if (!u || !u->kind || u->address != ev->address)
		return 0;
	was = *u;
	u->kind = 0;
	if (was.kind == TFMT_UNMAP) {
		d = was.handle.space ? device_of(books, &was.handle) : &books->device[books_device(ev)];
		if (!blocks_insert(&books->blocks, &was.block))
			return TFMT_E_NOMEM;
		if (was.torch_allocator)
			books_reserved_add(d, (int64_t)was.block.size);
		return was.handle.space ? handle_restore(books, &was.handle, was.was_last, ev->time_ns) : 0;
	}
	if (was.block.space == BLOCK_HANDLE)
		return handle_restore(books, &was.block, was.was_last, ev->time_ns);
	if (!blocks_insert(&books->blocks, &was.block))
		return TFMT_E_NOMEM;
	d = device_of(books, &was.block);
	if (is_counted(&books->groups.group[was.block.group]))
		d->driver_frees--;
	if (was.torch_allocator)
		books_reserved_add(d, (int64_t)was.block.size);
	books_enter(books, &was.block, ev->time_ns);
	return 0;
}

