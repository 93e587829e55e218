/* SPDX-License-Identifier: MIT */
/*
 * A writer's ledger, many events at once, as ledger_replay.c is a reader's. Nearly all events of a trace are
 * those of tensors on one device: a run of them keeps in registers what each of them changes. What it
 * cannot do is left to tfmt_ledger_record(), which does the same for one event of any kind.
 */
#include "tracefmt/ledger.h"
#include "tracefmt/varint.h"

/* What the events of a run change of the ledger, and of the history if there is one. */
struct run {
	struct tfmt_ledger *ledger;
	struct tfmt_block *block;
	struct tfmt_history *history;
	uint64_t *figure; /* the device's */
	uint64_t allocated, requested, pass_peak;
	uint32_t unused;
	uint32_t nr_allocs, nr_frees, nr_unshaped;
	unsigned device;
};

static struct run run_begin(struct tfmt_ledger *l, unsigned device)
{
	struct tfmt_history *h = l->history;

	return (struct run){
		.ledger = l,
		.block = l->block,
		.history = h,
		.figure = h ? h->figures.of[device] : NULL,
		.allocated = l->totals.allocated[device],
		.requested = h ? h->requested[device] : 0,
		.pass_peak = h ? h->passes.peak[device] : 0,
		.unused = l->unused,
		.device = device,
	};
}

static void run_end(const struct run *r)
{
	struct tfmt_ledger *l = r->ledger;

	l->unused = r->unused;
	l->totals.allocated[r->device] = r->allocated;
	if (!r->history)
		return;
	r->history->requested[r->device] = r->requested;
	r->history->passes.peak[r->device] = r->pass_peak;
	r->figure[TFMT_FIGURE_EVENTS] += r->nr_allocs + r->nr_frees;
	r->figure[TFMT_FIGURE_TENSOR_ALLOCS] += r->nr_allocs;
	r->figure[TFMT_FIGURE_TENSOR_FREES] += r->nr_frees;
	r->figure[TFMT_FIGURE_UNSHAPED] += r->nr_unshaped;
}

/* ---- the history ----------------------------------------------------------------------------- */

/* What tfmt_history_enter() and tfmt_history_after() do, but for what run_end() does at once. */
static inline void run_enter(struct run *r, const struct tfmt_event *ev)
{
	uint64_t shape = tfmt_history_shape(r->history, ev->shape), *of = r->figure;

	r->requested += shape;
	r->nr_unshaped += !shape;
	if (of[TFMT_FIGURE_REQUESTED_PEAK] < r->requested)
		of[TFMT_FIGURE_REQUESTED_PEAK] = r->requested;
	tfmt_history_reserved(r->figure, ev->aux, r->allocated);
	r->pass_peak = r->allocated > r->pass_peak ? r->allocated : r->pass_peak;
	if (r->allocated > of[TFMT_FIGURE_TENSOR_PEAK])
		tfmt_history_tensor_peak(r->history, r->device, r->allocated, ev->aux);
}

static inline void run_leave(struct run *r, const struct tfmt_event *ev)
{
	r->requested -= tfmt_history_shape(r->history, ev->shape);
	tfmt_history_reserved(r->figure, ev->aux, r->allocated);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* Look for a live tensor: its place in the index and its slot + 1. False: it is not there, and the place is free. */
static inline bool run_find(const struct run *r, const struct tfmt_event *ev, uint32_t hash, uint64_t *at,
			    uint32_t *slot)
{
	const struct tfmt_index *x = &r->ledger->by_address;
	uint64_t entry;

	for (*at = hash & x->mask; (entry = x->entry[*at]) != 0; *at = (*at + 1) & x->mask) {
		const struct tfmt_block *b = &r->block[(uint32_t)entry - 1];

		*slot = (uint32_t)entry;
		if (entry >> 32 == hash && b->address == ev->address && b->group == TFMT_GROUP_TENSOR &&
		    b->device == r->device)
			return true;
	}
	return false;
}

/* Returns false, and nothing has changed, if it takes more than that. */
static inline bool run_alloc(struct run *r, const struct tfmt_event *ev, uint32_t hash)
{
	struct tfmt_ledger *l = r->ledger;
	struct tfmt_block *b;
	uint32_t slot;
	uint64_t at;

	if (!r->unused || tfmt_index_is_full(&l->by_address) || run_find(r, ev, hash, &at, &slot))
		return false;
	slot = r->unused - 1;
	b = &r->block[slot];
	r->unused = b->next_unused;
	tfmt_index_put_at(&l->by_address, at, hash, slot);
	tfmt_block_hold_tensor(b, ev);
	r->allocated += ev->size;
	r->nr_allocs++;
	if (r->history) {
		l->origin[slot] = tfmt_history_origin(r->history, ev);
		run_enter(r, ev);
	}
	return true;
}

static inline bool run_free(struct run *r, struct tfmt_event *ev, uint32_t hash)
{
	struct tfmt_block *b;
	uint32_t slot;
	uint64_t at;

	if (!run_find(r, ev, hash, &at, &slot))
		return false;
	b = &r->block[slot - 1];
	ev->alloc_ordinal = b->ordinal;
	tfmt_block_end_tensor(b, slot - 1, ev, &r->allocated, &r->unused);
	r->nr_frees++;
	tfmt_index_remove_at(&r->ledger->by_address, at);
	if (r->history)
		run_leave(r, ev);
	return true;
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* May a run begin with this event? Not where the history has more to do than run_enter(). */
static bool can_run(const struct tfmt_ledger *l, const struct tfmt_event *ev)
{
	return ev->device < TFMT_NR_DEVICES && l->use_tensor_addresses && !l->use_ordinals &&
	       !(l->history && l->history->driver_peak_is_new[ev->device]);
}

static inline bool is_of_run(const struct run *r, const struct tfmt_event *ev)
{
	return (ev->kind == TFMT_TENSOR_ALLOC || ev->kind == TFMT_TENSOR_FREE) && ev->device == r->device &&
	       !(ev->flags & TFMT_FLAG_TEARDOWN);
}

/* The events of tensors that these begin with. Returns how many were recorded. */
static uint32_t record_run(struct tfmt_ledger *l, struct tfmt_event *ev, const uint32_t *hash, uint32_t nr,
			   uint64_t ordinal)
{
	struct run r;
	uint32_t i;

	if (!can_run(l, ev))
		return 0;
	r = run_begin(l, ev->device);
	for (i = 0; i < nr && is_of_run(&r, &ev[i]); i++) {
		ev[i].ordinal = ordinal + i;
		ev[i].alloc_ordinal = TFMT_NO_ORDINAL;
		if (r.history)
			tfmt_history_before(r.history, &ev[i]);
		if (ev[i].kind == TFMT_TENSOR_ALLOC ? !run_alloc(&r, &ev[i], hash[i]) : !run_free(&r, &ev[i], hash[i]))
			break;
	}
	run_end(&r);
	if (i)
		l->totals.reserved[r.device] = ev[i - 1].aux;
	return i;
}

/* Have the processor fetch what will be looked up for the tensors among these events: cache misses side by side. */
static inline void expect(const struct tfmt_ledger *l, const struct tfmt_event *ev, uint32_t nr, uint32_t *hash)
{
	for (uint32_t i = 0; i < nr; i++) {
		hash[i] = tfmt_block_hash(TFMT_GROUP_TENSOR, ev[i].device, ev[i].address);
		__builtin_prefetch(tfmt_index_home(&l->by_address, hash[i]));
	}
	for (uint32_t i = 0; i < nr; i++) {
		uint64_t entry = *tfmt_index_home(&l->by_address, hash[i]);

		/* Of frees there is an entry, of allocations none: no branch could be foreseen. */
		__builtin_prefetch(&l->block[(uint32_t)entry - (entry != 0)]);
	}
}

void tfmt_ledger_expect(const struct tfmt_ledger *l, const struct tfmt_event *ev, uint32_t nr)
{
	uint32_t hash[TFMT_WRITER_BATCH];

	expect(l, ev, nr < TFMT_WRITER_BATCH ? nr : TFMT_WRITER_BATCH, hash);
}

int tfmt_ledger_record_all(struct tfmt_ledger *l, struct tfmt_event *ev, uint32_t nr, uint64_t ordinal)
{
	uint32_t hash[TFMT_WRITER_BATCH], i = 0;
	int err = 0;

	if (nr == 1)
		return tfmt_ledger_record(l, ev, ordinal);
	expect(l, ev, nr, hash);
	while (i < nr && !err) {
		i += record_run(l, &ev[i], &hash[i], nr - i, ordinal + i);
		if (i < nr)
			err = tfmt_ledger_record(l, &ev[i], ordinal + i);
		i++;
	}
	return err;
}
