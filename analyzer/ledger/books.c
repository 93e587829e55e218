/* SPDX-License-Identifier: MIT */
/* Entering events into the books of a process: what both ledgers share, and the tensor ledger. */
#include "analyzer/ledger/books_inside.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/ledger/books_driver.h"
#include "analyzer/ledger/books_range.h"
#include "analyzer/recording/idtable.h"

struct books *books_open(const struct tfmt_reader *reader, struct mapping *mapping, struct symbols *symbols)
{
	struct books *books = heap_alloc(1, sizeof(*books));

	books->reader = reader;
	books->mapping = mapping;
	books->owners.symbols = symbols;
	books->at_time_ns = UINT64_MAX;
	ranges_init(&books->ranges, reader);
	return books;
}

void books_release(struct books *books)
{
	if (!books)
		return;
	blocks_release(&books->blocks);
	free(books->told_threads.short_of_memory);
	groups_release(&books->groups);
	free(books->latest);
	groups_release(&books->by_range);
	ranges_release(&books->ranges);
	owner_cache_release(&books->owners);
	communicators_release(&books->communicators);
	value_reads_release(&books->value_reads);
	books_undo_release(books);
	free(books);
}

void books_listen(struct books *books, const struct books_listener *listener)
{
	books->listener = listener;
}

void books_ask_time(struct books *books, uint64_t time_ns)
{
	books->at_time_ns = time_ns;
}

void books_mark(struct device_ledger *d, enum group_mark which, uint64_t time_ns)
{
	d->mark[which]++;
	d->books.moment[which] = (struct books_moment){ true, time_ns, d->books.allocated_bytes,
							d->books.reserved_bytes, d->books.driver_bytes };
}

/* What the group of an event has beyond its identity, when it is new. */
static __attribute__((noinline)) void new_group(struct books *books, struct group *g)
{
	struct tfmt_shape shape;

	if (g->modelled) {
		const char *name = tfmt_reader_function(books->reader, g->function);

		/* A name that damage has taken may be the context's: then no call took it. */
		g->owner = (uint8_t)(*name ? owner_named(name) : OWNER_CONTEXT);
	}
	g->phase = books->phase;
	if (g->shape && tfmt_reader_shape(books->reader, g->shape, &shape))
		g->shape_bytes = shape.bytes;
	memcpy(g->seen, books->device[g->device].mark, sizeof(g->seen));
}

/* What a stack made before, and whether that is still there when it makes something of another shape. */
static void meet_earlier(struct books *books, uint32_t index)
{
	struct group *g = &books->groups.group[index];
	const struct group *earlier = g;
	uint32_t *latest;

	if (!g->tensor || g->python_stack < TFMT_STACK_FIRST)
		return;
	books->latest = idtable_grown(books->latest, &books->nr_latest, g->python_stack, sizeof(*latest), books->reader);
	if (g->python_stack >= books->nr_latest)
		return;
	latest = &books->latest[g->python_stack];
	g->earlier = *latest;
	*latest = index + 1;
	for (unsigned k = 0; k < 8 * sizeof(g->met) && earlier->earlier; k++) {
		earlier = &books->groups.group[earlier->earlier - 1];
		g->met |= (uint8_t)((earlier->live.blocks > 0) << k);
	}
}

static uint32_t find_group(struct books *books, const struct tfmt_event *ev, bool tensor, bool graph_pool)
{
	struct group_identity id = {
		.python_stack = ev->python_stack,
		.native_stack = ev->native_stack,
		.shape = ev->shape,
		.thread = ev->python_stack < TFMT_STACK_FIRST ? ev->thread : 0,
		.function = ev->function,
		.device = event_device(ev),
		.space = ev->flags & TFMT_SPACE_MASK,
		.tensor = tensor,
		.modelled = ev->flags & TFMT_FLAG_MODELLED,
		.graph_pool = graph_pool,
	};
	bool is_new;
	uint32_t index = groups_find(&books->groups, &id, &is_new);

	if (is_new) {
		new_group(books, &books->groups.group[index]);
		meet_earlier(books, index);
	}
	return index;
}

uint32_t books_group_of(struct books *books, const struct tfmt_event *ev, bool tensor)
{
	return find_group(books, ev, tensor, false);
}

uint32_t books_group_graphs(struct books *books, const struct tfmt_event *ev)
{
	return find_group(books, ev, false, true);
}

void books_reserved_add(struct device_ledger *d, int64_t bytes)
{
	d->books.reserved_bytes += (uint64_t)bytes;
	if ((int64_t)d->books.reserved_bytes < 0) /* freed more than was recorded */
		d->books.reserved_bytes = 0;
	if (d->books.reserved_bytes > d->books.reserved_peak_bytes && !d->books.driver_unsure) {
		d->books.reserved_peak_bytes = d->books.reserved_bytes;
		d->books.allocated_at_reserved_peak_bytes = d->books.allocated_bytes;
		d->unconfirmed_peak = true;
	}
}

/* Driver totals, up or down, by the space of the group. */
static void driver_add(struct books *books, const struct group *g, int64_t bytes, uint64_t time_ns)
{
	struct device_ledger *d = &books->device[g->device];
	/* Only what grows makes a peak: after damage a total may fall below 0 for a while. */
	bool may_peak = bytes > 0 && !d->books.driver_unsure;

	if (group_is_page_locked(g)) {
		books->host.pinned_bytes += (uint64_t)bytes;
		if (may_peak && books->host.pinned_bytes > books->host.pinned_peak_bytes)
			books->host.pinned_peak_bytes = books->host.pinned_bytes;
	} else if (g->space == TFMT_SPACE_MANAGED) {
		books->host.managed_bytes += (uint64_t)bytes;
		if (may_peak && books->host.managed_bytes > books->host.managed_peak_bytes)
			books->host.managed_peak_bytes = books->host.managed_bytes;
	} else if (group_is_device_memory(g)) {
		d->books.driver_bytes += (uint64_t)bytes;
		residual_ledger(&d->residual, g->space, bytes);
		if (may_peak && (int64_t)d->books.driver_bytes > (int64_t)d->books.driver_peak_bytes) {
			d->books.driver_peak_bytes = d->books.driver_bytes;
			residual_peak(&d->residual, time_ns);
			d->books.allocated_at_driver_peak_bytes = d->books.allocated_bytes;
			d->driver_peak_is_new = true;
			books_mark(d, MARK_DRIVER_PEAK, time_ns);
		}
	} else if (g->modelled) {
		residual_modelled(&d->residual, g->owner == OWNER_CODE, bytes);
	}
}

void books_enter(struct books *books, const struct block *b, uint64_t time_ns)
{
	struct group *g = &books->groups.group[b->group];
	struct device_ledger *d = &books->device[g->device];

	if (g->tensor) {
		books_tensor_enter(books, d, g, b);
		return;
	}
	books_group_add(g, d, b->size, 1);
	books_range_enter(books, b, g);
	driver_add(books, g, (int64_t)b->size, time_ns);
}

void books_leave(struct books *books, const struct block *b)
{
	struct group *g = &books->groups.group[b->group];
	struct device_ledger *d = &books->device[g->device];

	if (g->tensor) {
		books_tensor_leave(books, d, g, b);
		return;
	}
	books_group_add(g, d, 0 - b->size, UINT64_MAX);
	books_range_leave(books, b, g);
	driver_add(books, g, -(int64_t)b->size, 0);
}

void books_forget_stale(struct books *books, uint8_t space, uint64_t address)
{
	struct block *stale = blocks_find(&books->blocks, space, address), gone;

	if (!stale)
		return;
	if (space == BLOCK_MAPPING) {
		books_unmap(books, stale);
		return;
	}
	gone = *stale;
	books_leave(books, stale);
	blocks_remove(&books->blocks, stale);
	if (books->damage.any)
		books_damage_stale(books, &gone);
}

void books_adjust(struct books *books, uint8_t device, bool tensor, int64_t bytes, uint64_t time_ns)
{
	struct device_ledger *d = &books->device[device];
	struct group_identity id = { .device = device, .tensor = tensor, .unrecorded = true };
	struct group *g;
	uint32_t index;
	bool is_new;

	if (!bytes)
		return;
	index = groups_find(&books->groups, &id, &is_new);
	g = &books->groups.group[index];
	if (is_new)
		memcpy(g->seen, d->mark, sizeof(g->seen));
	group_keep_marks(g, d->mark);
	g->live.bytes += (uint64_t)bytes;
	if (!tensor) {
		driver_add(books, g, bytes, time_ns);
		return;
	}
	d->books.allocated_bytes += (uint64_t)bytes;
	d->books.has_unshaped = true;
	if (bytes > 0)
		books_tensor_peak(books, d, time_ns);
}

/* Does this block end with a context of the device? Physical memory and address ranges belong to none. */
static bool ends_with_context(const struct books *books, const struct block *b, uint8_t device, uint64_t context)
{
	switch (b->space) {
	case BLOCK_DRIVER:
	case BLOCK_PINNED:
	case BLOCK_REGISTERED:
	case BLOCK_ARRAY:
	case BLOCK_GRAPH_POOL:
		return b->context == context && books->groups.group[b->group].device == device;
	default:
		return false;
	}
}

/* A context was destroyed: what was allocated in it is gone, but nobody freed it. */
static void context_reset(struct books *books, const struct tfmt_event *ev)
{
	uint8_t device = event_device(ev);

	for (uint32_t i = 0; i < books->blocks.nr_places; i++) {
		struct block *b = &books->blocks.block[i];

		if (!ends_with_context(books, b, device, ev->aux))
			continue;
		books_leave(books, b);
		blocks_remove(&books->blocks, b);
	}
	if (!ev->aux)
		books->device[device].books.reserved_bytes = 0;
}

static void object_event(struct books *books, const struct tfmt_event *ev)
{
	unsigned what = ev->flags & TFMT_SPACE_MASK;

	if (what == TFMT_OBJECT_COMMUNICATOR && ev->kind == TFMT_OBJECT_NEW)
		communicators_event(&books->communicators, ev, tfmt_reader_function(books->reader, ev->function));
	else if (what == TFMT_OBJECT_GRAPH && ev->kind == TFMT_OBJECT_NEW)
		books_graph_new(books, ev);
	else if (what == TFMT_OBJECT_GRAPH && ev->kind == TFMT_OBJECT_GONE)
		books_graph_gone(books, ev);
}

static __attribute__((noinline)) void mark_time(struct books *books, bool is_over)
{
	books->time_marked = true;
	for (int i = 0; i <= GROUP_HOST; i++) {
		books_mark(&books->device[i], MARK_TIME, books->at_time_ns);
		if (books->listener && books->device[i].books.present)
			books->listener->note_mark(books->listener->ctx, (uint8_t)i, MARK_TIME, is_over);
	}
}

/* An event that counts, and is none of the two that nearly all are. */
static __attribute__((noinline)) void other_event(struct books *books, const struct tfmt_event *ev,
						  struct device_ledger *d)
{
	switch (ev->kind) {
	case TFMT_TENSOR_OOM:
		books_tensor_oom(books, ev, true);
		break;
	case TFMT_DRIVER_ALLOC:
		books_driver_alloc(books, ev);
		break;
	case TFMT_DRIVER_FREE:
		books_driver_free(books, ev);
		break;
	case TFMT_FREE_FAILED:
		books_free_failed(books, ev);
		break;
	case TFMT_ALLOCATOR:
		books_told(books, ev);
		break;
	case TFMT_ALLOC_FAILED:
		books_told(books, ev);
		books_driver_refused(books, ev);
		break;
	case TFMT_HANDLE_RETAIN:
		books_handle_retain(books, ev);
		break;
	case TFMT_MAP:
		books_range_map(books, ev);
		break;
	case TFMT_UNMAP:
		books_range_unmap(books, ev);
		break;
	case TFMT_MEMORY_INFO:
	case TFMT_PROCESS_INFO:
		residual_event(&d->residual, ev);
		break;
	case TFMT_RESET:
		residual_event(&d->residual, ev);
		context_reset(books, ev);
		break;
	case TFMT_OBJECT_NEW:
	case TFMT_OBJECT_GONE:
	case TFMT_OBJECT_SET:
		residual_event(&d->residual, ev);
		object_event(books, ev);
		break;
	case TFMT_GRAPH_LAUNCH:
		books_graph_launch(books, ev);
		break;
	case TFMT_POOL_INFO:
		residual_event(&d->residual, ev);
		if (!ev->address)
			books_graph_reserved(books, ev);
		break;
	case TFMT_VALUE_READ:
		value_reads_add(&books->value_reads, ev);
		break;
	case TFMT_COPY:
		books_tensor_copy(books, ev);
		break;
	case TFMT_UNHOOKED:
		unhooked_add(&books->unhooked, ev);
		break;
	default: /* lost events are counted by the reader; unknown kinds are skippable */
		break;
	}
}

static void books_event(struct books *books, const struct tfmt_event *ev)
{
	struct device_ledger *d = &books->device[event_device(ev)];

	d->books.present |= ev->kind != TFMT_LOST;
	switch (ev->kind) {
	case TFMT_TENSOR_ALLOC:
		books_tensor_alloc(books, ev, true);
		break;
	case TFMT_TENSOR_FREE:
		books_tensor_free(books, ev, d, true);
		break;
	default:
		other_event(books, ev, d);
		break;
	}
}

void books_apply(struct books *books, const struct tfmt_event *ev, uint8_t phase)
{
	ranges_apply(&books->ranges, ev);
	books->phase = phase;
	if (ev->flags & TFMT_FLAG_TEARDOWN) {
		books->teardown_events++;
		return;
	}
	if (books->damage.any)
		books_damage_before(books, ev->time_ns);
	if (ev->time_ns > books->at_time_ns && !books->time_marked && !ev->before)
		mark_time(books, false);
	books_event(books, ev);
	if (books->damage.any)
		books_damage_after(books, ev);
	books->is_calm = books->past_entered && !books->damage.any &&
			 (books->at_time_ns == UINT64_MAX || books->time_marked);
}

void books_settle(struct books *books, uint64_t time_ns)
{
	if (!books->teardown_events)
		books_damage_settle(books, time_ns);
	if (books->at_time_ns != UINT64_MAX && !books->time_marked)
		mark_time(books, true);
	for (uint32_t i = 0; i < books->groups.nr_groups; i++)
		group_keep_marks(&books->groups.group[i], books->device[books->groups.group[i].device].mark);
	for (uint32_t i = 0; i < books->by_range.nr_groups; i++)
		group_keep_marks(&books->by_range.group[i], books->device[books->by_range.group[i].device].mark);
}
