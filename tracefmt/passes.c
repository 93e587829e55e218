/* SPDX-License-Identifier: MIT */
/* What had been counted when backward passes began. */
#include "tracefmt/passes.h"
#include "tracefmt/array.h"
#include "tracefmt/varint.h"

#include <string.h>

#define NR_EACH (1u << 18)     /* so many are told of one by one; of those that follow every 2nd, of */
#define NR_THINNED (1u << 17)  /* so many; then every 4th, of as many more, and so on */
#define NR_MAX (1u << 21)      /* what 2^32 passes of one device come to */
#define VALUES 7
#define PASS_BYTES (VALUES * TFMT_VARINT_MAX) /* at most */

/* ---- gathering ------------------------------------------------------------------------------- */

/* One in how many of the passes is told of, when so many have been. */
static uint64_t distance_of(uint32_t nr)
{
	uint32_t doublings = nr < NR_EACH ? 0 : (nr - NR_EACH) / NR_THINNED + 1;

	return 1ull << (doublings < 63 ? doublings : 63);
}

/* Differences: of a job whose steps are alike, nearly all are 0 or the same again. */
static uint8_t *put(uint8_t *at, unsigned device, const struct tfmt_pass *pass, const struct tfmt_pass *last)
{
	at = tfmt_varint_put(at, device);
	at = tfmt_varint_put(at, pass->number - last->number);
	at = tfmt_varint_put(at, pass->time_ns - last->time_ns);
	at = tfmt_varint_put(at, tfmt_zigzag((int64_t)(pass->allocated - last->allocated)));
	at = tfmt_varint_put(at, tfmt_zigzag((int64_t)(pass->peak - last->peak)));
	at = tfmt_varint_put(at, pass->allocs - last->allocs);
	return tfmt_varint_put(at, pass->frees - last->frees);
}

void tfmt_passes_note(struct tfmt_passes *p, uint64_t number, uint64_t time_ns, const struct tfmt_figures *figures,
		      const struct tfmt_totals *totals)
{
	if (p->distance && (number - 1) % p->distance)
		return;
	for (unsigned d = 0; d < TFMT_NR_DEVICES; d++) {
		const uint64_t *of = figures->of[d];
		struct tfmt_pass pass = {
			.number = number,
			.time_ns = time_ns,
			.allocated = totals->allocated[d],
			.peak = p->peak[d],
			.allocs = of[TFMT_FIGURE_TENSOR_ALLOCS],
			.frees = of[TFMT_FIGURE_TENSOR_FREES],
		};

		if (!pass.allocs || sizeof(p->batch) - p->batch_bytes < PASS_BYTES)
			continue;
		p->batch_bytes = (size_t)(put(p->batch + p->batch_bytes, d, &pass, &p->last[d]) - p->batch);
		p->last[d] = pass;
		p->peak[d] = pass.allocated;
		p->nr++;
	}
	p->distance = distance_of(p->nr);
}

void tfmt_passes_next(struct tfmt_passes *p)
{
	p->id++;
	p->batch_bytes = 0;
	memset(p->last, 0, sizeof(p->last));
}

/* ---- reading --------------------------------------------------------------------------------- */

static int list_add(struct tfmt_pass_list *l, const struct tfmt_pass *pass)
{
	if (l->nr == l->room) {
		struct tfmt_pass *grown = tfmt_array_grow(l->pass, &l->room, sizeof(*grown));

		if (!grown)
			return TFMT_E_NOMEM;
		l->pass = grown;
	}
	l->pass[l->nr++] = *pass;
	return 0;
}

int tfmt_passes_read(struct tfmt_pass_list list[TFMT_NR_DEVICES], struct tfmt_cursor *c)
{
	struct tfmt_pass last[TFMT_NR_DEVICES] = { 0 };
	uint32_t nr = 0;
	int err = 0;

	for (unsigned d = 0; d < TFMT_NR_DEVICES; d++)
		nr += list[d].nr;
	while (!err && c->p < c->end) {
		uint64_t device = tfmt_varint_get(c);
		struct tfmt_pass pass, unknown = { 0 }, *before = device < TFMT_NR_DEVICES ? &last[device] : &unknown;

		pass.number = before->number + tfmt_varint_get(c);
		pass.time_ns = before->time_ns + tfmt_varint_get(c);
		pass.allocated = before->allocated + (uint64_t)tfmt_unzigzag(tfmt_varint_get(c));
		pass.peak = before->peak + (uint64_t)tfmt_unzigzag(tfmt_varint_get(c));
		pass.allocs = before->allocs + tfmt_varint_get(c);
		pass.frees = before->frees + tfmt_varint_get(c);
		if (c->bad)
			return TFMT_E_DAMAGED;
		*before = pass;
		if (before != &unknown && nr++ < NR_MAX)
			err = list_add(&list[device], &pass);
	}
	return err;
}
