/* SPDX-License-Identifier: MIT */
/* Entering events into the books of a process: what both ledgers share, and the tensor ledger. */
#include "analyzer/books.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/books_driver.h"

void books_init(struct books *books, const struct tfmt_reader *reader, struct mapping *mapping)
{
	*books = (struct books){ .reader = reader, .mapping = mapping, .at_time_ns = UINT64_MAX };
}

void books_release(struct books *books)
{
	blocks_release(&books->blocks);
	groups_release(&books->groups);
	owner_cache_release(&books->owners);
	value_reads_release(&books->value_reads);
	free(books->undo);
	*books = (struct books){ 0 };
}

struct owner_verdict books_owner(struct books *books, uint32_t native_stack)
{
	return owner_of_stack(&books->owners, books->mapping, native_stack);
}

enum owner books_group_owner(struct books *books, const struct group *g)
{
	return g->modelled ? (enum owner)g->owner : books_owner(books, g->native_stack).owner;
}

static void books_mark(struct device_books *d, enum group_mark which, uint64_t time_ns)
{
	d->mark[which]++;
	d->moment[which] =
	    (struct books_moment){ true, time_ns, d->allocated_bytes, d->reserved_bytes, d->driver_bytes };
}

uint8_t books_device(const struct tfmt_event *ev)
{
	return ev->device < TFMT_NR_DEVICES ? ev->device : GROUP_HOST;
}

int64_t books_group(struct books *books, const struct tfmt_event *ev, bool tensor)
{
	struct group g = {
		.python_stack = ev->python_stack,
		.native_stack = ev->native_stack,
		.shape = ev->shape,
		.thread = ev->python_stack < TFMT_STACK_FIRST ? ev->thread : 0,
		.function = ev->function,
		.device = books_device(ev),
		.space = ev->flags & TFMT_SPACE_MASK,
		.tensor = tensor,
		.modelled = ev->flags & TFMT_FLAG_MODELLED,
	};
	uint32_t nr_groups = books->groups.nr_groups;
	struct tfmt_shape shape;
	int64_t index;

	if (g.modelled)
		g.owner = (uint8_t)owner_named(tfmt_reader_function(books->reader, g.function));
	memcpy(g.seen, books->device[g.device].mark, sizeof(g.seen));
	index = groups_find(&books->groups, &g);
	if (index == nr_groups && g.shape && tfmt_reader_shape(books->reader, g.shape, &shape))
		books->groups.group[index].shape_bytes = shape.bytes;
	return index;
}

void books_reserved_add(struct device_books *d, int64_t bytes)
{
	d->reserved_bytes += (uint64_t)bytes;
	if ((int64_t)d->reserved_bytes < 0) /* freed more than was recorded */
		d->reserved_bytes = 0;
	if (d->reserved_bytes > d->reserved_peak_bytes) {
		d->reserved_peak_bytes = d->reserved_bytes;
		d->allocated_at_reserved_peak_bytes = d->allocated_bytes;
		d->unconfirmed_peak = true;
	}
}

/* Reserved as the framework itself reports it. Its report follows the driver's event within one call. */
static void books_reserved_report(struct device_books *d, uint64_t bytes)
{
	if (d->reported && d->reserved_bytes != bytes)
		d->disagreements++;
	d->reported = true;
	d->reserved_bytes = bytes;
	if (bytes > d->reserved_peak_bytes || (d->unconfirmed_peak && bytes == d->reserved_peak_bytes)) {
		d->reserved_peak_bytes = bytes;
		d->allocated_at_reserved_peak_bytes = d->allocated_bytes;
		d->unconfirmed_peak = false;
	}
}

static void residual_changed(struct device_books *d)
{
	uint64_t residual = d->context_bytes + d->unknown_bytes;

	if (residual > d->residual_peak_bytes)
		d->residual_peak_bytes = residual;
}

/* Driver totals, up or down, by the space of the group. */
static void driver_add(struct books *books, const struct group *g, int64_t bytes, uint64_t time_ns)
{
	struct device_books *d = &books->device[g->device];

	if (g->space == TFMT_SPACE_PINNED || g->space == TFMT_SPACE_REGISTERED) {
		books->pinned_bytes += (uint64_t)bytes;
		if (books->pinned_bytes > books->pinned_peak_bytes)
			books->pinned_peak_bytes = books->pinned_bytes;
	} else if (g->space == TFMT_SPACE_MANAGED) {
		books->managed_bytes += (uint64_t)bytes;
		if (books->managed_bytes > books->managed_peak_bytes)
			books->managed_peak_bytes = books->managed_bytes;
	} else if (group_is_device_memory(g)) {
		d->driver_bytes += (uint64_t)bytes;
		if (d->driver_bytes > d->driver_peak_bytes) {
			d->driver_peak_bytes = d->driver_bytes;
			d->unknown_at_driver_peak_bytes = d->unknown_bytes;
			books_mark(d, MARK_DRIVER_PEAK, time_ns);
		}
	} else if (g->modelled) {
		d->context_bytes += (uint64_t)bytes;
		residual_changed(d);
	}
}

void books_enter(struct books *books, const struct block *b, uint64_t time_ns)
{
	struct group *g = &books->groups.group[b->group];
	struct device_books *d = &books->device[g->device];

	group_keep_marks(g, d->mark);
	g->live.bytes += b->size;
	g->live.blocks++;
	if (!g->tensor) {
		driver_add(books, g, (int64_t)b->size, time_ns);
		return;
	}
	d->allocated_bytes += b->size;
	d->requested_bytes += g->shape_bytes;
	if (!g->shape_bytes)
		d->has_unshaped = true;
	if (d->requested_bytes > d->requested_peak_bytes)
		d->requested_peak_bytes = d->requested_bytes;
}

void books_leave(struct books *books, const struct block *b)
{
	struct group *g = &books->groups.group[b->group];
	struct device_books *d = &books->device[g->device];

	group_keep_marks(g, d->mark);
	g->live.bytes -= b->size;
	g->live.blocks--;
	if (g->tensor) {
		d->allocated_bytes -= b->size;
		d->requested_bytes -= g->shape_bytes;
	} else {
		driver_add(books, g, -(int64_t)b->size, 0);
	}
}

bool books_put(struct books *books, struct block *b)
{
	if (--b->references)
		return false;
	books->device[books->groups.group[b->group].device].driver_frees++;
	books_leave(books, b);
	blocks_remove(&books->blocks, b);
	return true;
}

bool books_unmap(struct books *books, struct block *mapping)
{
	uint64_t address = mapping->handle;
	struct block *handle;

	blocks_remove(&books->blocks, mapping);
	handle = blocks_find(&books->blocks, BLOCK_HANDLE, address);
	return handle && books_put(books, handle);
}

void books_forget_stale(struct books *books, uint8_t space, uint64_t address)
{
	struct block *stale = blocks_find(&books->blocks, space, address);

	if (!stale)
		return;
	if (space == BLOCK_MAPPING) {
		books_unmap(books, stale);
		return;
	}
	books_leave(books, stale);
	blocks_remove(&books->blocks, stale);
}

int books_tensor_alloc(struct books *books, const struct tfmt_event *ev, bool reported)
{
	int64_t group = books_group(books, ev, true);
	struct block b = {
	    .address = ev->address, .size = ev->size, .group = (uint32_t)group, .space = BLOCK_TENSOR };
	struct device_books *d = &books->device[books_device(ev)];

	books_forget_stale(books, BLOCK_TENSOR, ev->address);
	if (group < 0 || !blocks_insert(&books->blocks, &b))
		return TFMT_E_NOMEM;
	d->tensor_allocs++;
	books_enter(books, &b, ev->time_ns);
	if (reported)
		books_reserved_report(d, ev->aux);
	if (d->allocated_bytes > d->allocated_peak_bytes) {
		d->allocated_peak_bytes = d->allocated_bytes;
		books_mark(d, MARK_TENSOR_PEAK, ev->time_ns);
	}
	return 0;
}

int books_tensor_free(struct books *books, const struct tfmt_event *ev, struct device_books *d,
		      bool reported)
{
	struct block *b = blocks_find(&books->blocks, BLOCK_TENSOR, ev->address);

	d->tensor_frees++;
	if (b) {
		books_leave(books, b);
		blocks_remove(&books->blocks, b);
	} else {
		books->unmatched_frees++;
	}
	if (reported)
		books_reserved_report(d, ev->aux);
	return 0;
}

int books_tensor_oom(struct books *books, const struct tfmt_event *ev, bool reported)
{
	struct device_books *d = &books->device[books_device(ev)];

	d->tensor_ooms++;
	d->oom_asked_bytes = ev->size;
	if (reported)
		books_reserved_report(d, ev->aux);
	books_mark(d, MARK_OOM, ev->time_ns);
	return 0;
}

/* The context was destroyed: what the device held is gone, but nobody freed it. */
static int device_reset(struct books *books, const struct tfmt_event *ev)
{
	uint8_t device = books_device(ev);

	for (uint64_t i = 0; i < books->blocks.room; i++) {
		/* Removal may move another block into this slot. */
		while (books->blocks.slot[i].space && books->blocks.slot[i].space != BLOCK_MAPPING &&
		       books->groups.group[books->blocks.slot[i].group].device == device) {
			books_leave(books, &books->blocks.slot[i]);
			blocks_remove(&books->blocks, &books->blocks.slot[i]);
		}
	}
	books->device[device].reserved_bytes = 0;
	return 0;
}

static int memory_info(struct books *books, const struct tfmt_event *ev)
{
	struct device_books *d = &books->device[books_device(ev)];
	uint64_t used = ev->aux > ev->size ? ev->aux - ev->size : 0;
	uint64_t known = d->driver_bytes + d->context_bytes;

	/* A sample taken while another thread was in the driver may lie below the ledger. */
	d->unknown_bytes = used > known ? used - known : 0;
	residual_changed(d);
	if (!d->samples++)
		d->unknown_at_driver_peak_bytes = d->unknown_bytes;
	d->sampled_total_bytes = ev->aux;
	return 0;
}

static void mark_time(struct books *books)
{
	books->time_marked = true;
	for (int i = 0; i <= GROUP_HOST; i++)
		books_mark(&books->device[i], MARK_TIME, books->at_time_ns);
}

int books_apply(struct books *books, const struct tfmt_event *ev)
{
	struct device_books *d = &books->device[books_device(ev)];

	if (ev->flags & TFMT_FLAG_TEARDOWN) {
		books->teardown_events++;
		return 0;
	}
	if (ev->time_ns > books->at_time_ns && !books->time_marked)
		mark_time(books);
	d->present |= ev->kind != TFMT_LOST;
	switch (ev->kind) {
	case TFMT_TENSOR_ALLOC:
		return books_tensor_alloc(books, ev, true);
	case TFMT_TENSOR_FREE:
		return books_tensor_free(books, ev, d, true);
	case TFMT_TENSOR_OOM:
		return books_tensor_oom(books, ev, true);
	case TFMT_DRIVER_ALLOC:
		return books_driver_alloc(books, ev);
	case TFMT_DRIVER_FREE:
		return books_driver_free(books, ev);
	case TFMT_FREE_FAILED:
		return books_free_failed(books, ev);
	case TFMT_ALLOC_FAILED:
		return books_driver_refused(books, ev);
	case TFMT_HANDLE_RETAIN:
		return books_handle_retain(books, ev);
	case TFMT_MAP:
		return books_range_map(books, ev);
	case TFMT_UNMAP:
		return books_range_unmap(books, ev);
	case TFMT_MEMORY_INFO:
		return memory_info(books, ev);
	case TFMT_RESET:
		return device_reset(books, ev);
	case TFMT_VALUE_READ:
		return value_reads_add(&books->value_reads, ev);
	default: /* lost events are counted by the reader; unknown kinds are skippable */
		return 0;
	}
}

void books_settle(struct books *books)
{
	if (books->at_time_ns != UINT64_MAX && !books->time_marked)
		mark_time(books);
	for (uint32_t i = 0; i < books->groups.nr_groups; i++)
		group_keep_marks(&books->groups.group[i], books->device[books->groups.group[i].device].mark);
}
