/* SPDX-License-Identifier: MIT */
/*
 * Totals after damage. What the lost events did to each block is not known, but each frame's header tells what was
 * live before it. The reader gives that with the first event of a frame already counted in, which is as good unless
 * that event took an address whose block was freed unseen: then the next frame has to do.
 */
#include "analyzer/ledger/books_driver.h"

static uint64_t bytes_read(const struct books *books)
{
	uint64_t done, total;

	tfmt_reader_progress(books->reader, &done, &total);
	return done;
}

void books_damaged(struct books *books)
{
	struct books_damage *damage = &books->damage;

	damage->any = damage->is_new = true;
	books->is_calm = false;
	damage->read = bytes_read(books);
	damage->known = tfmt_reader_totals(books->reader, &damage->totals);
	ranges_damaged(&books->ranges);
	if (books->teardown_events) /* what follows counts in no figure */
		return;
	for (unsigned i = 0; i <= GROUP_HOST; i++) {
		struct device_ledger *d = &books->device[i];

		d->books.allocated_unsure = d->books.reserved_unsure = d->books.driver_unsure = true;
		/* It comes before all else. */
		d->books.context_missed |= tfmt_reader_header(books->reader)->simulated && !d->residual.is_modelled &&
				     !d->books.driver_allocs;
	}
}

/* What a header counts of the driver ledger. It has what is modelled of the driver, too, and graphs apart. */
static int64_t driver_difference(const struct books *books, uint8_t device, const struct tfmt_totals *t)
{
	const struct device_ledger *d = &books->device[device];
	const struct block *graphs = blocks_find(&books->blocks, BLOCK_GRAPH_POOL, device);
	uint64_t modelled = d->residual.modelled_context + d->residual.modelled_code;
	uint64_t calls = t->driver[device] > modelled ? t->driver[device] - modelled : 0;

	return (int64_t)(calls + (graphs ? graphs->size : 0) - d->books.driver_bytes);
}

/* Totals that have no groups. What was live once makes a peak. */
static void take_over_total(uint64_t *total, uint64_t *peak, uint64_t bytes)
{
	*total = bytes;
	if (bytes > *peak)
		*peak = bytes;
}

/* Make the totals what they are known to be. */
static void take_over(struct books *books, const struct tfmt_totals *t, uint64_t time_ns)
{
	uint64_t managed = 0;

	for (uint8_t i = 0; i < TFMT_NR_DEVICES; i++) {
		struct device_ledger *d = &books->device[i];

		managed += t->managed[i];
		d->books.allocated_unsure = d->books.driver_unsure = false;
		d->books.present |= t->driver[i] || t->allocated[i];
		d->books.context_missed &= !d->residual.is_modelled;
		if (!d->books.context_missed)
			books_adjust(books, i, false, driver_difference(books, i, t), time_ns);
		/* Without reports of the framework's, its tensors are in the driver's totals only. */
		if (t->reserved[i] || t->allocated[i])
			books_adjust(books, i, true, (int64_t)(t->allocated[i] - d->books.allocated_bytes), time_ns);
	}
	books->device[GROUP_HOST].books.driver_unsure = false;
	take_over_total(&books->host.pinned_bytes, &books->host.pinned_peak_bytes, t->pinned);
	take_over_total(&books->host.managed_bytes, &books->host.managed_peak_bytes, managed);
}

/* What is reserved every report tells again; the first one after the gap disagrees with nothing. */
static void take_over_reserved(struct books *books, const struct tfmt_totals *t)
{
	for (unsigned i = 0; i < TFMT_NR_DEVICES; i++) {
		struct device_ledger *d = &books->device[i];

		if (!t->reserved[i])
			continue;
		take_over_total(&d->books.reserved_bytes, &d->books.reserved_peak_bytes, t->reserved[i]);
		d->books.reported = false;
	}
}

void books_damage_before(struct books *books, uint64_t time_ns)
{
	struct books_damage *damage = &books->damage;

	damage->stale = false;
	if (!damage->is_new)
		return;
	damage->is_new = false;
	take_over_reserved(books, &damage->totals);
	/* One more frame was read: those are the totals before what is missing. */
	if (bytes_read(books) != damage->read || !damage->known)
		return;
	take_over(books, &damage->totals, time_ns);
}

/* Who called the driver is told by stacks and modules, of which some may be missing. */
static void check_reserved(struct books *books, const struct tfmt_event *ev)
{
	struct device_ledger *d = &books->device[event_device(ev)];

	switch (ev->kind) {
	case TFMT_TENSOR_ALLOC:
	case TFMT_TENSOR_FREE:
	case TFMT_TENSOR_OOM:
		d->books.reserved_unsure = false;
		break;
	case TFMT_DRIVER_ALLOC:
	case TFMT_DRIVER_FREE:
	case TFMT_FREE_FAILED:
	case TFMT_MAP:
	case TFMT_UNMAP:
		d->books.reserved_unsure |= !books_owner(books, ev->native_stack, 0).torch_allocator;
		break;
	default:
		break;
	}
}

void books_damage_after(struct books *books, const struct tfmt_event *ev)
{
	struct books_damage *damage = &books->damage;
	uint64_t read = bytes_read(books);
	struct tfmt_totals totals;

	check_reserved(books, ev);
	if (read == damage->read && ev->kind != TFMT_RESET)
		return;
	damage->read = read;
	if (damage->stale)
		return;
	if (tfmt_reader_totals(books->reader, &totals))
		take_over(books, &totals, ev->time_ns);
}

/*
 * The trace is read, and no event of teardown was: the header of its last frame tells what was live then. Not so if
 * events are missing before that frame, and Python ran: they may have been of teardown, which the header counts.
 */
void books_damage_settle(struct books *books, uint64_t time_ns)
{
	struct books_damage *damage = &books->damage;
	const struct tfmt_summary *summary = tfmt_reader_summary(books->reader);
	struct tfmt_totals totals;
	bool known = tfmt_reader_totals(books->reader, &totals);

	if (damage->is_new && (tfmt_reader_info_value(books->reader, "python_frames") ||
			       summary->nr_damaged + summary->nr_given_up > 1)) /* which may have taken that */
		known = false;
	for (unsigned i = 0; !known && i <= GROUP_HOST; i++)
		books->device[i].books.allocated_unsure = books->device[i].books.reserved_unsure =
			books->device[i].books.driver_unsure = true;
	if (!known || !damage->any || (!damage->is_new && bytes_read(books) == damage->read))
		return;
	if (damage->is_new)
		take_over_reserved(books, &totals);
	take_over(books, &totals, time_ns);
}

void books_damage_stale(struct books *books, const struct block *stale)
{
	const struct group *g = &books->groups.group[stale->group];

	books->damage.stale = true;
	if (group_is_page_locked(g))
		books->host.pinned_bytes += stale->size;
	else if (g->space == TFMT_SPACE_MANAGED && !g->tensor)
		books->host.managed_bytes += stale->size;
	else if (group_is_device_memory(g))
		books_adjust(books, g->device, g->tensor, (int64_t)stale->size, 0);
}

void books_damage_unmatched(struct books *books, uint8_t device, bool tensor)
{
	if (!books->damage.any)
		return;
	if (tensor)
		books->device[device].books.allocated_unsure = true;
	for (unsigned i = 0; !tensor && i <= GROUP_HOST; i++) /* it has no device: its block had */
		books->device[i].books.driver_unsure = books->device[i].books.reserved_unsure = true;
}
