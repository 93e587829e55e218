/* SPDX-License-Identifier: MIT */
/* Values to events, one by one. */
#include "tracefmt/eventfill.h"

bool tfmt_count_frees(const struct tfmt_decoder *d, uint32_t nr, uint32_t *nr_frees)
{
	const uint64_t *class = d->value[TFMT_COLUMN_CLASS];
	uint32_t counted = 0;

	if (d->way == TFMT_WAY_WIDE)
		return tfmt_count_frees_wide(d, nr, nr_frees);
	for (uint32_t i = 0; i < nr; i++) {
		if (class[i] >= d->nr_classes)
			return false;
		counted += d->pattern[class[i]].is_free;
	}
	*nr_frees = counted;
	return true;
}

/*
 * Which of them are frees nobody can foresee: where an event has no value in a column, the next one's is
 * masked out, without a branch.
 */
static inline __attribute__((always_inline)) void fill(struct tfmt_decoder *d, uint32_t nr,
						       struct tfmt_filled f, bool is_checkpoint)
{
	const unsigned time_shift = d->time_shift, address_shift = d->address_shift, size_shift = d->size_shift;
	const uint64_t(*value)[TFMT_BATCH] = d->value;
	uint64_t time = d->time, address = d->address, ordinal = d->ordinal + d->index + f.nr;

	for (uint32_t i = f.nr; i < nr; i++) {
		const struct tfmt_pattern *p = tfmt_pattern(d, i);
		uint64_t age = value[TFMT_COLUMN_AGE][f.nr_ages] & (0 - (uint64_t)p->is_free);
		uint64_t has_block = 0 - (uint64_t)!age;
		struct tfmt_event *ev = &d->event[i];

		if (is_checkpoint)
			ordinal = d->ordinal += tfmt_difference(d, TFMT_COLUMN_ORDINAL, i);
		time += tfmt_difference(d, TFMT_COLUMN_TIME, i);
		address += tfmt_difference(d, TFMT_COLUMN_ADDRESS, f.nr_blocks) & has_block;
		ev->time_ns = time << time_shift;
		ev->address = address << address_shift & has_block;
		ev->size = value[TFMT_COLUMN_SIZE][f.nr_blocks] << size_shift & has_block;
		ev->aux = p->event.aux;
		ev->order = 0;
		ev->python_stack = (uint32_t)value[TFMT_COLUMN_PYTHON][i];
		ev->native_stack = (uint32_t)value[TFMT_COLUMN_NATIVE][i];
		ev->shape = (uint32_t)(value[TFMT_COLUMN_SHAPE][f.nr_blocks] & has_block);
		ev->thread = p->event.thread;
		ev->stream = p->event.stream;
		ev->function = p->event.function;
		ev->flags = p->event.flags;
		ev->kind = p->event.kind;
		ev->device = p->event.device;
		ev->ordinal = ordinal;
		ev->alloc_ordinal = has_block | (ordinal - age);
		ev->before = is_checkpoint;
		ev->called_stack = 0;
		ordinal++;
		f.nr_ages += p->is_free;
		f.nr_blocks += !age;
	}
	d->time = time;
	d->address = address;
}

void tfmt_fill(struct tfmt_decoder *d, uint32_t nr)
{
	struct tfmt_filled none = { 0 };

	if (d->is_checkpoint)
		fill(d, nr, none, true);
	else
		fill(d, nr, d->way == TFMT_WAY_WIDE ? tfmt_fill_wide(d, nr) : none, false);
}
