/* SPDX-License-Identifier: MIT */
/* What had been counted when backward passes began. */
#include "tracefmt/passes.h"
#include "tracefmt/varint.h"

/* Of which figures a pass is made. */
static const struct {
	uint8_t figure;
	uint8_t at;
} values[] = {
	{ TFMT_FIGURE_TENSOR_ALLOCS, offsetof(struct tfmt_pass, allocs) },
	{ TFMT_FIGURE_TENSOR_FREES, offsetof(struct tfmt_pass, frees) },
	{ TFMT_FIGURE_TENSOR_PEAK, offsetof(struct tfmt_pass, peak) },
	{ TFMT_FIGURE_TIME, offsetof(struct tfmt_pass, time_ns) },
	{ TFMT_FIGURE_PASSES, offsetof(struct tfmt_pass, number) },
	{ TFMT_FIGURE_ALLOCATED, offsetof(struct tfmt_pass, allocated) },
};
#define NR_VALUES (sizeof(values) / sizeof(*values))
#define PASS_BYTES (NR_VALUES * (1 + 2 + TFMT_VARINT_MAX)) /* at most: figure, row and value of each */

static uint64_t *value_of(struct tfmt_pass *p, size_t k)
{
	return (uint64_t *)((uint8_t *)p + values[k].at);
}

/* Every other one goes; the first stays. */
static void thin_out(struct tfmt_passes *p)
{
	p->nr /= 2;
	p->distance *= 2;
	for (unsigned d = 0; d < TFMT_NR_DEVICES; d++) {
		bool is_used = p->of[d][2 * p->nr - 1].number; /* else its pages stay untouched */

		for (uint32_t i = 0; is_used && i < p->nr; i++)
			p->of[d][i] = p->of[d][2 * i];
	}
}

void tfmt_passes_note(struct tfmt_passes *p, uint64_t number, uint64_t time_ns, const struct tfmt_figures *figures,
		      const struct tfmt_totals *totals)
{
	if (!p->distance)
		p->distance = 1;
	if ((number - 1) % p->distance)
		return;
	if (p->nr == TFMT_PASSES_MAX) /* an even number of them: this pass is one of those that stay */
		thin_out(p);
	for (unsigned d = 0; d < TFMT_NR_DEVICES; d++) {
		const uint64_t *of = figures->of[d];

		if (of[TFMT_FIGURE_TENSOR_ALLOCS])
			p->of[d][p->nr] = (struct tfmt_pass){
				.number = number,
				.time_ns = time_ns,
				.allocated = totals->allocated[d],
				.peak = of[TFMT_FIGURE_TENSOR_PEAK],
				.allocs = of[TFMT_FIGURE_TENSOR_ALLOCS],
				.frees = of[TFMT_FIGURE_TENSOR_FREES],
			};
	}
	p->nr++;
}

uint8_t *tfmt_passes_put(const struct tfmt_passes *p, uint8_t *at, const uint8_t *end)
{
	for (unsigned d = 0; d < TFMT_NR_DEVICES; d++) {
		for (uint32_t i = 0; i < p->nr; i++) {
			struct tfmt_pass pass = p->of[d][i];

			if (!pass.number || at + PASS_BYTES > end)
				continue;
			for (size_t k = 0; k < NR_VALUES; k++) {
				*at++ = values[k].figure;
				at = tfmt_varint_put(at, TFMT_FIGURES_PASSES + d * TFMT_PASSES_MAX + i);
				at = tfmt_varint_put(at, *value_of(&pass, k));
			}
		}
	}
	return at;
}

void tfmt_passes_take(struct tfmt_passes *p, uint64_t figure, uint64_t row, uint64_t value)
{
	uint64_t i = row - TFMT_FIGURES_PASSES, device = i / TFMT_PASSES_MAX;

	if (row < TFMT_FIGURES_PASSES || device >= TFMT_NR_DEVICES)
		return;
	i %= TFMT_PASSES_MAX;
	for (size_t k = 0; k < NR_VALUES; k++) {
		if (values[k].figure == figure)
			*value_of(&p->of[device][i], k) = value;
	}
	if (p->nr <= i)
		p->nr = (uint32_t)i + 1;
}
