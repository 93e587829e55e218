/* SPDX-License-Identifier: MIT */
/* Entering events: those of tensors, which nearly all are, and where the others are entered. */
#include "analyzer/ledger/books_driver.h"
#include "analyzer/ledger/books_range.h"

/* What is done for nearly each event of a trace, of which calls would be a tenth; also called from elsewhere. */
#define ALWAYS_INLINE inline __attribute__((always_inline))

/* Reserved as the framework itself reports it. Its report follows the driver's event within one call. */
static inline void reserved_report(struct device_ledger *d, uint64_t bytes)
{
	/* Nothing new, as nearly always. */
	if (d->books.reserved_bytes == bytes && d->books.reported && bytes <= d->books.reserved_peak_bytes &&
	    !d->unconfirmed_peak)
		return;
	if (d->books.reported && d->books.reserved_bytes != bytes)
		d->books.disagreements++;
	d->books.reported = true;
	d->books.reserved_bytes = bytes;
	if (bytes > d->books.reserved_peak_bytes || (d->unconfirmed_peak && bytes == d->books.reserved_peak_bytes)) {
		d->books.reserved_peak_bytes = bytes;
		d->books.allocated_at_reserved_peak_bytes = d->books.allocated_bytes;
		d->unconfirmed_peak = false;
	}
}

static inline void tensor_enter(struct books *books, struct device_ledger *d, struct group *g, const struct block *b)
{
	books_group_add(g, d, b->size, 1);
	books_range_enter(books, b, g);
	d->books.allocated_bytes += b->size;
	d->books.requested_bytes += g->shape_bytes;
	if (!g->shape_bytes)
		d->books.has_unshaped = true;
	if (d->books.requested_bytes > d->books.requested_peak_bytes && !d->books.allocated_unsure)
		d->books.requested_peak_bytes = d->books.requested_bytes;
}

static inline void tensor_leave(struct books *books, struct device_ledger *d, struct group *g, const struct block *b)
{
	books_group_add(g, d, 0 - b->size, UINT64_MAX);
	books_range_leave(books, b, g);
	d->books.allocated_bytes -= b->size;
	d->books.requested_bytes -= g->shape_bytes;
	if (books->listener)
		books->listener->end_block(books->listener->ctx, b->handle);
}

/* The most that tensors have held, if this is it. */
static inline void tensor_peak(struct device_ledger *d, uint64_t time_ns)
{
	if ((int64_t)d->books.allocated_bytes <= (int64_t)d->books.allocated_peak_bytes || d->books.allocated_unsure)
		return;
	d->books.allocated_peak_bytes = d->books.allocated_bytes;
	books_mark(d, MARK_TENSOR_PEAK, time_ns);
}

/* A new block at this address; one that is live there was freed unseen. */
static inline struct block *tensor_block(struct books *books, uint64_t address)
{
	bool is_live;
	struct block *b = blocks_add(&books->blocks, BLOCK_TENSOR, address, &is_live);

	if (b || !is_live)
		return b;
	books_forget_stale(books, BLOCK_TENSOR, address);
	return blocks_add(&books->blocks, BLOCK_TENSOR, address, &is_live);
}

static inline uint32_t tensor_group(struct books *books, const struct tfmt_event *ev)
{
	uint32_t *known = groups_known(&books->groups, ev);
	uint32_t group;

	if (*known && group_is_of(&books->groups.group[*known - 1], ev))
		return *known - 1;
	group = books_group_of(books, ev, true);
	*known = group + 1;
	return group;
}

/* What the listener calls this event's block. */
static inline uint64_t listeners_number(const struct books *books, const struct tfmt_event *ev,
					const struct device_ledger *d, uint32_t group)
{
	const struct books_listener *listener = books->listener;
	uint64_t bytes = d->books.allocated_unsure ? 0 : d->books.allocated_bytes;

	return listener ? listener->begin_block(listener->ctx, ev, event_device(ev), group, bytes) : 0;
}

static __attribute__((noinline)) void give_after_main_oom(struct device_books *d, const struct tfmt_event *ev)
{
	d->main_oom.given += ev->size;
	if (d->main_oom.thread == ev->thread || d->main_oom.given > d->main_oom.allocated)
		d->main_oom.ordinal = 0;
}

static ALWAYS_INLINE void tensor_alloc(struct books *books, const struct tfmt_event *ev, struct device_ledger *d,
				      bool reported)
{
	uint32_t group = tensor_group(books, ev);
	uint32_t range = books_range_of(books, ev, true);
	struct block *b = tensor_block(books, ev->address);

	b->size = ev->size;
	b->ordinal = ev->ordinal;
	b->group = group;
	b->range = range;
	d->books.tensor_allocs++;
	if (__builtin_expect(d->books.main_oom.ordinal != 0, false))
		give_after_main_oom(&d->books, ev);
	tensor_enter(books, d, &books->groups.group[group], b);
	if (d->driver_peak_is_new)
		d->books.allocated_at_driver_peak_bytes = d->books.allocated_bytes;
	d->driver_peak_is_new = false;
	if (reported)
		reserved_report(d, ev->aux);
	tensor_peak(d, ev->time_ns);
	b->handle = listeners_number(books, ev, d, group);
}

static ALWAYS_INLINE void tensor_free(struct books *books, const struct tfmt_event *ev, struct device_ledger *d,
				     bool reported)
{
	const struct block *b = blocks_take(&books->blocks, BLOCK_TENSOR, ev->address);
	struct group *g = b ? &books->groups.group[b->group] : NULL;

	d->books.tensor_frees++;
	d->driver_peak_is_new = false;
	if (b) {
		tensor_leave(books, &books->device[g->device], g, b);
	} else {
		books->unmatched_frees++;
		books_damage_unmatched(books, event_device(ev), true);
	}
	if (reported)
		reserved_report(d, ev->aux);
}

void books_tensor_enter(struct books *books, struct device_ledger *d, struct group *g, const struct block *b)
{
	tensor_enter(books, d, g, b);
}

void books_tensor_leave(struct books *books, struct device_ledger *d, struct group *g, const struct block *b)
{
	tensor_leave(books, d, g, b);
}

void books_tensor_peak(struct books *books, struct device_ledger *d, uint64_t time_ns)
{
	const struct books_listener *listener = books->listener;

	if (listener && !d->books.allocated_unsure)
		listener->note_total(listener->ctx, (uint8_t)(d - books->device), d->books.allocated_bytes);
	tensor_peak(d, time_ns);
}

void books_tensor_alloc(struct books *books, const struct tfmt_event *ev, bool reported)
{
	tensor_alloc(books, ev, &books->device[event_device(ev)], reported);
}

void books_tensor_free(struct books *books, const struct tfmt_event *ev, struct device_ledger *d, bool reported)
{
	tensor_free(books, ev, d, reported);
}

static bool is_main_thread(const struct books *books, uint32_t id)
{
	struct tfmt_thread thread;

	return tfmt_reader_thread(books->reader, id, &thread) && thread.tid == tfmt_reader_header(books->reader)->pid;
}

void books_tensor_oom(struct books *books, const struct tfmt_event *ev, bool reported)
{
	struct device_ledger *d = &books->device[event_device(ev)];

	d->books.tensor_ooms++;
	d->allocs_at_oom = d->books.tensor_allocs;
	if (reported)
		reserved_report(d, ev->aux);
	if (is_main_thread(books, ev->thread)) {
		d->books.main_oom.ordinal = ev->ordinal;
		d->books.main_oom.allocated = d->books.allocated_bytes;
		d->books.main_oom.given = 0;
		d->books.main_oom.thread = ev->thread;
	} else if (d->books.main_oom.ordinal) {
		return;
	}
	d->books.oom_asked_bytes = ev->size;
	books_mark(d, MARK_OOM, ev->time_ns);
	if (books->listener)
		books->listener->note_mark(books->listener->ctx, event_device(ev), MARK_OOM, false);
}

/* The block there, if so many bytes are all of its tensor, or most of the block where no shape tells; else NULL. */
static const struct block *whole_tensor(const struct books *books, uint64_t address, uint64_t bytes)
{
	const struct block *b = blocks_find(&books->blocks, BLOCK_TENSOR, address);
	uint64_t tensor = b ? books->groups.group[b->group].shape_bytes : 0;

	return b && (tensor ? bytes == tensor : bytes > b->size / 2) ? b : NULL;
}

void books_tensor_copy(struct books *books, const struct tfmt_event *ev)
{
	const struct books_listener *listener = books->listener;
	const struct block *to = listener ? whole_tensor(books, ev->address, ev->size) : NULL;
	const struct block *from = to && ev->aux ? whole_tensor(books, ev->aux, ev->size) : NULL;

	if (to)
		listener->note_copy(listener->ctx, to->handle, !ev->aux, from ? from->handle : 0);
}

/* All there is to do with a tensor event while nothing is missing and no moment is waited for. */
void books_apply_plain(struct books *books, const struct tfmt_event *ev, uint8_t phase)
{
	struct device_ledger *d = &books->device[event_device(ev)];

	books->phase = phase;
	d->books.present = true;
	if (ev->kind == TFMT_TENSOR_ALLOC)
		tensor_alloc(books, ev, d, true);
	else
		tensor_free(books, ev, d, true);
}
