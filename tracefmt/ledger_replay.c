/* SPDX-License-Identifier: MIT */
/*
 * A reader's ledger, many events at once. Nearly all events of a trace are those of tensors on one device: a
 * run of them keeps in registers what each of them changes. What it cannot do is left to
 * tfmt_ledger_replay().
 */
#include "tracefmt/ledger.h"

/* What the events of a run change, and where they find their blocks. */
struct run {
	struct tfmt_block *block;
	uint32_t *recent;
	uint64_t allocated;
	uint32_t unused;
	unsigned device;
};

/* Returns false, and nothing has changed, if it takes more than that. */
static inline bool run_alloc(struct run *r, const struct tfmt_event *ev)
{
	uint32_t *place = &r->recent[ev->ordinal % TFMT_NR_RECENT];
	struct tfmt_block *b;

	if (*place || !r->unused)
		return false;
	b = &r->block[r->unused - 1];
	*place = r->unused;
	r->unused = b->next_unused;
	tfmt_block_hold_tensor(b, ev);
	r->allocated += ev->size;
	return true;
}

static inline bool run_free(struct run *r, struct tfmt_event *ev)
{
	uint32_t *place = &r->recent[ev->alloc_ordinal % TFMT_NR_RECENT], slot = *place;
	struct tfmt_block *b;

	if (!slot)
		return false;
	b = &r->block[slot - 1];
	if (b->ordinal != ev->alloc_ordinal || b->group != TFMT_GROUP_TENSOR || b->device != r->device)
		return false;
	ev->address = b->address;
	*place = 0;
	tfmt_block_end_tensor(b, slot - 1, ev, &r->allocated, &r->unused);
	return true;
}

/* The events of tensors that these begin with. Returns how many were replayed. */
static uint32_t replay_run(struct tfmt_ledger *l, struct tfmt_event *ev, uint32_t nr)
{
	struct run r = { l->block, l->by_ordinal.recent, 0, l->unused, ev->device };
	uint32_t i;

	if (r.device >= TFMT_NR_DEVICES || l->use_tensor_addresses)
		return 0;
	r.allocated = l->totals.allocated[r.device];
	for (i = 0; i < nr && ev[i].device == r.device; i++) {
		if (ev[i].kind == TFMT_TENSOR_ALLOC ? !run_alloc(&r, &ev[i])
						    : ev[i].kind != TFMT_TENSOR_FREE || !run_free(&r, &ev[i]))
			break;
	}
	l->unused = r.unused;
	l->totals.allocated[r.device] = r.allocated;
	if (i)
		l->totals.reserved[r.device] = ev[i - 1].aux;
	return i;
}

uint32_t tfmt_ledger_replay_all(struct tfmt_ledger *l, struct tfmt_event *ev, uint32_t nr)
{
	uint32_t i = 0;

	while (i < nr) {
		i += replay_run(l, &ev[i], nr - i);
		if (i < nr && tfmt_ledger_replay(l, &ev[i]))
			break;
		i += i < nr;
	}
	return i;
}
