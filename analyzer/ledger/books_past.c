/* SPDX-License-Identifier: MIT */
/*
 * Where a flight recorder's trace begins: what is live has been entered block by block; what was counted and reached
 * before is taken over from the figures that the recorder kept.
 */
#include "analyzer/ledger/books_inside.h"

#include <string.h>

static void count_tensors(struct device_ledger *d, const uint64_t *f)
{
	d->books.tensor_allocs = f[TFMT_FIGURE_TENSOR_ALLOCS];
	d->books.tensor_frees = f[TFMT_FIGURE_TENSOR_FREES];
	d->books.tensor_ooms = f[TFMT_FIGURE_TENSOR_OOMS];
	d->books.allocated_peak_bytes = f[TFMT_FIGURE_TENSOR_PEAK];
	d->books.requested_peak_bytes = f[TFMT_FIGURE_REQUESTED_PEAK];
	d->books.has_unshaped = f[TFMT_FIGURE_UNSHAPED] != 0;
	d->books.reserved_peak_bytes = f[TFMT_FIGURE_RESERVED_PEAK];
	d->books.allocated_at_reserved_peak_bytes = f[TFMT_FIGURE_RESERVED_PEAK_ALLOCATED];
	d->books.moment[MARK_TENSOR_PEAK] =
	    (struct books_moment){ f[TFMT_FIGURE_TENSOR_PEAK] != 0, f[TFMT_FIGURE_TENSOR_PEAK_TIME],
				   f[TFMT_FIGURE_TENSOR_PEAK], f[TFMT_FIGURE_TENSOR_PEAK_RESERVED],
				   f[TFMT_FIGURE_TENSOR_PEAK_DRIVER] };
}

static void count(struct device_ledger *d, const uint64_t *f)
{
	d->books.present |= f[TFMT_FIGURE_EVENTS] != 0;
	d->books.driver_allocs = f[TFMT_FIGURE_DRIVER_ALLOCS];
	d->books.driver_frees = f[TFMT_FIGURE_DRIVER_FREES];
	d->books.driver_refusals = f[TFMT_FIGURE_DRIVER_REFUSALS];
	d->books.refused_bytes = f[TFMT_FIGURE_DRIVER_REFUSED];
	d->books.oom_asked_bytes = f[TFMT_FIGURE_OOM_ASKED];
	d->books.pool_refused_bytes = 0;
	d->books.disagreements = 0;
}

static void peaks(struct device_ledger *d, const uint64_t *f)
{
	d->unconfirmed_peak = false;
	d->books.driver_peak_bytes = f[TFMT_FIGURE_DRIVER_PEAK];
	d->books.allocated_at_driver_peak_bytes = f[TFMT_FIGURE_DRIVER_PEAK_TENSORS];
	d->driver_peak_is_new = false;
}

/* The parts of what is in use beside are known from the latest sample on, not at a peak before. */
static void residual_past(struct residual *r, const uint64_t *f)
{
	r->figures.nr_samples = f[TFMT_FIGURE_SAMPLES];
	r->figures.peak = f[TFMT_FIGURE_BEYOND_PEAK];
	r->peak_ns = f[TFMT_FIGURE_DRIVER_PEAK_TIME];
	r->peak_ledger = f[TFMT_FIGURE_DRIVER_PEAK];
	r->peak_pool_live = 0;
	r->peak_context = f[TFMT_FIGURE_DRIVER_PEAK_CONTEXT];
	r->peak_code = f[TFMT_FIGURE_DRIVER_PEAK_CODE];
	r->has_nearest = false;
	r->peak_passed = true;
}

static void moments(struct device_ledger *d, const uint64_t *f)
{
	d->books.moment[MARK_DRIVER_PEAK] =
	    (struct books_moment){ f[TFMT_FIGURE_DRIVER_PEAK] != 0, f[TFMT_FIGURE_DRIVER_PEAK_TIME],
				   f[TFMT_FIGURE_DRIVER_PEAK_ALLOCATED], f[TFMT_FIGURE_DRIVER_PEAK_RESERVED],
				   f[TFMT_FIGURE_DRIVER_PEAK] };
	d->books.moment[MARK_OOM] =
	    (struct books_moment){ f[TFMT_FIGURE_TENSOR_OOMS] != 0, f[TFMT_FIGURE_OOM_TIME],
				   f[TFMT_FIGURE_OOM_ALLOCATED], f[TFMT_FIGURE_OOM_RESERVED], f[TFMT_FIGURE_OOM_DRIVER] };
}

/* Whatever the entering of blocks has marked: nobody is known to have held anything at a mark. */
static void forget_marks(struct books *books, struct groups *groups)
{
	for (uint32_t i = 0; i < groups->nr_groups; i++) {
		struct group *g = &groups->group[i];

		memset(g->at, 0, sizeof(g->at));
		memcpy(g->seen, books->device[g->device].mark, sizeof(g->seen));
	}
}

/* Somebody held so much at the device's marks. */
static void hold(struct books *books, uint8_t device, bool tensor, enum owner owner,
		const uint64_t bytes[static NR_MARKS])
{
	struct group_identity id = { .device = device, .tensor = tensor, .before = (uint8_t)(owner + 1) };
	bool is_new;
	uint32_t index = groups_find(&books->groups, &id, &is_new);
	struct group *g;

	g = &books->groups.group[index];
	g->owner = (uint8_t)owner;
	memcpy(g->seen, books->device[device].mark, sizeof(g->seen));
	for (unsigned i = 0; i < NR_MARKS; i++)
		g->at[i].bytes = bytes[i];
}

/* Those who held memory at the marks, without their names; of the driver's at its peak, how much PyTorch had. */
static void hold_all(struct books *books, uint8_t device, const uint64_t *f)
{
	const struct books_moment *moment = books->device[device].books.moment;
	uint64_t torch = f[TFMT_FIGURE_DRIVER_PEAK_TORCH], driver = f[TFMT_FIGURE_DRIVER_PEAK];
	uint64_t tensors[NR_MARKS] = { [MARK_TENSOR_PEAK] = moment[MARK_TENSOR_PEAK].allocated_bytes,
				       [MARK_DRIVER_PEAK] = moment[MARK_DRIVER_PEAK].allocated_bytes,
				       [MARK_OOM] = moment[MARK_OOM].allocated_bytes };
	uint64_t others[NR_MARKS] = { [MARK_TENSOR_PEAK] = moment[MARK_TENSOR_PEAK].driver_bytes,
				      [MARK_OOM] = moment[MARK_OOM].driver_bytes };
	uint64_t torchs[NR_MARKS] = { [MARK_DRIVER_PEAK] = torch < driver ? torch : driver };

	others[MARK_DRIVER_PEAK] = driver - torchs[MARK_DRIVER_PEAK];
	hold(books, device, true, OWNER_TORCH, tensors);
	hold(books, device, false, OWNER_TORCH, torchs);
	hold(books, device, false, OWNER_UNKNOWN, others);
}

void books_past(struct books *books, const struct tfmt_figures *f)
{
	const uint64_t *process = f ? f->of[TFMT_FIGURES_PROCESS] : NULL;
	struct tfmt_totals totals;

	if (books->past_entered)
		return;
	books->past_entered = true;
	if (!f)
		return;
	tfmt_reader_totals(books->reader, &totals);
	for (uint8_t i = 0; i < TFMT_NR_DEVICES; i++) {
		struct device_ledger *d = &books->device[i];

		/* backend:cudaMallocAsync reports nothing: what is known of its tensors is what is live. */
		if (d->books.tensor_allocs && !f->of[i][TFMT_FIGURE_TENSOR_ALLOCS])
			books->past_untold = true;
		else
			count_tensors(d, f->of[i]);
		count(d, f->of[i]);
		peaks(d, f->of[i]);
		residual_past(&d->residual, f->of[i]);
		moments(d, f->of[i]);
		if (books->listener)
			books->listener->note_past(books->listener->ctx, i, d->books.allocated_peak_bytes);
		if (totals.reserved[i])
			d->books.reserved_bytes = totals.reserved[i];
		d->books.reported = totals.reserved[i] != 0;
	}
	forget_marks(books, &books->groups);
	forget_marks(books, &books->by_range);
	for (uint8_t i = 0; i < TFMT_NR_DEVICES; i++) {
		if (f->of[i][TFMT_FIGURE_TENSOR_PEAK] || f->of[i][TFMT_FIGURE_DRIVER_PEAK])
			hold_all(books, i, f->of[i]);
	}
	books->host.pinned_peak_bytes = process[TFMT_FIGURE_PINNED_PEAK];
	books->host.managed_peak_bytes = process[TFMT_FIGURE_MANAGED_PEAK];
	books->unmatched_frees = process[TFMT_FIGURE_UNMATCHED_FREES];
}
