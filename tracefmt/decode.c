/* SPDX-License-Identifier: MIT */
/* Columns to events. */
#include "tracefmt/columns.h"
#include "tracefmt/eventfill.h"
#include "tracefmt/ledger.h"

#include <string.h>

static uint16_t get16(struct tfmt_cursor *c)
{
	uint64_t value = tfmt_varint_get(c);

	c->bad |= value > UINT16_MAX;
	return (uint16_t)value;
}

static uint8_t get8(struct tfmt_cursor *c)
{
	uint64_t value = tfmt_varint_get(c);

	c->bad |= value > UINT8_MAX;
	return (uint8_t)value;
}

static int decode_classes(struct tfmt_decoder *d)
{
	struct tfmt_cursor *c = &d->column[TFMT_COLUMN_CLASSES];
	uint64_t nr = tfmt_varint_get(c);
	uint32_t i;

	if (!nr || nr > TFMT_NR_CLASSES)
		return TFMT_E_DAMAGED;
	d->nr_classes = (uint32_t)nr;
	d->is_plain = !d->is_checkpoint;
	for (i = 0; i < nr; i++) {
		struct tfmt_pattern *p = &d->pattern[i];
		struct tfmt_event *ev = &p->event;

		*ev = (struct tfmt_event){ .before = d->is_checkpoint };
		ev->kind = get8(c);
		ev->device = get8(c);
		ev->flags = get16(c);
		ev->function = get16(c);
		ev->stream = get16(c);
		ev->thread = tfmt_varint_get32(c);
		p->is_free = tfmt_kind_is_free(ev->kind);
		d->free_classes[i / 64] |= (uint64_t)p->is_free << i % 64;
		d->is_plain &= tfmt_kind_is_known(ev->kind) && ev->kind != TFMT_LOST;
	}
	return c->bad ? TFMT_E_DAMAGED : 0;
}

static int decode_shift(struct tfmt_decoder *d, enum tfmt_column column, uint8_t *shift)
{
	*shift = d->present[column] ? get8(&d->column[column]) : 0;
	return *shift < 64 && !d->column[column].bad ? 0 : TFMT_E_DAMAGED;
}

static void decoder_reset(struct tfmt_decoder *d, uint32_t nr_events, uint64_t first_time, uint8_t time_shift)
{
	memset(d, 0, offsetof(struct tfmt_decoder, pattern));
	memset(d->free_classes, 0, sizeof(d->free_classes));
	d->time_shift = time_shift;
	d->time = first_time;
	d->nr_events = nr_events;
}

static int decoder_begin(struct tfmt_decoder *d, const uint8_t *payload, size_t len, unsigned nr_columns)
{
	struct tfmt_cursor c = { payload, payload + len, false };

	while (c.p < c.end) {
		uint64_t id = tfmt_varint_get(&c);
		uint64_t bytes = tfmt_varint_get(&c);
		const uint8_t *p = tfmt_bytes_get(&c, bytes);

		if (!p)
			return TFMT_E_DAMAGED;
		if (id >= nr_columns)
			continue;
		if (d->present[id])
			return TFMT_E_DAMAGED;
		d->present[id] = true;
		d->column[id] = (struct tfmt_cursor){ p, p + bytes, false };
	}
	for (unsigned i = 0; i < TFMT_NR_COLUMNS; i++) { /* what a frame lacks is 0 */
		if (!d->present[i])
			memset(d->value[i], 0, sizeof(d->value[i]));
	}
	if (decode_classes(d) || decode_shift(d, TFMT_COLUMN_ADDRESS, &d->address_shift) ||
	    decode_shift(d, TFMT_COLUMN_SIZE, &d->size_shift))
		return TFMT_E_DAMAGED;
	return 0;
}

int tfmt_decoder_begin(struct tfmt_decoder *d, const uint8_t *payload, size_t len, uint32_t nr_events,
		       uint64_t first_ordinal, uint64_t first_time, uint8_t time_shift)
{
	decoder_reset(d, nr_events, first_time, time_shift);
	d->ordinal = first_ordinal;
	return decoder_begin(d, payload, len, TFMT_NR_EVENT_COLUMNS);
}

int tfmt_decoder_begin_checkpoint(struct tfmt_decoder *d, const uint8_t *payload, size_t len, uint32_t nr_events,
				  uint64_t first_time, uint8_t time_shift)
{
	decoder_reset(d, nr_events, first_time, time_shift);
	d->is_checkpoint = true;
	return decoder_begin(d, payload, len, TFMT_NR_COLUMNS);
}

/* ---- a batch --------------------------------------------------------------------------------- */

/* The next nr values of a column; false if that cannot be. A column that is not there is all 0. */
static inline bool decode_column(struct tfmt_decoder *d, enum tfmt_column column, uint32_t nr, uint64_t *bound)
{
	*bound = 0;
	if (!d->present[column])
		return true;
	*bound = tfmt_varints_get(&d->column[column], d->value[column], nr, d->way);
	return !d->column[column].bad;
}

/* The next nr values of a column, as decode_column(); false also if one is above max. */
static bool decode_bounded(struct tfmt_decoder *d, enum tfmt_column column, uint32_t nr, uint64_t max)
{
	const uint64_t *value = d->value[column];
	uint64_t bound;

	if (!decode_column(d, column, nr, &bound))
		return false;
	for (uint32_t i = 0; bound > max && i < nr; i++)
		if (value[i] > max)
			return false;
	return true;
}

static bool decode_any(struct tfmt_decoder *d, enum tfmt_column column, uint32_t nr)
{
	uint64_t bound;

	return decode_column(d, column, nr, &bound);
}

static uint32_t count_matched(const struct tfmt_decoder *d, uint32_t nr)
{
	const uint64_t *age = d->value[TFMT_COLUMN_AGE];
	uint32_t nr_matched = 0;

	for (uint32_t i = 0; i < nr; i++)
		nr_matched += age[i] != 0;
	return nr_matched;
}

/* Each event of a checkpoint has an ordinal of its own: what an age leads to is seen when all are known. */
static bool decode_ordinals(struct tfmt_decoder *d, uint32_t nr)
{
	const uint64_t *class = d->value[TFMT_COLUMN_CLASS], *age = d->value[TFMT_COLUMN_AGE];
	uint64_t ordinal = d->ordinal;

	if (!decode_any(d, TFMT_COLUMN_ORDINAL, nr))
		return false;
	for (uint32_t i = 0; i < nr; i++) {
		ordinal += tfmt_difference(d, TFMT_COLUMN_ORDINAL, i);
		if (d->pattern[class[i]].is_free && *age++ > ordinal)
			return false;
	}
	return true;
}

static bool decode_columns(struct tfmt_decoder *d, uint32_t nr)
{
	uint64_t first = d->ordinal + d->index;
	uint32_t nr_frees, nr_blocks;

	if (!decode_any(d, TFMT_COLUMN_CLASS, nr) || !tfmt_count_frees(d, nr, &nr_frees))
		return false;
	/* An age leads to no event before the first. One that leads to an event of this batch is seen one by one. */
	if (!decode_bounded(d, TFMT_COLUMN_AGE, nr_frees, d->is_checkpoint ? UINT64_MAX : first))
		return false;
	if (d->is_checkpoint && !decode_ordinals(d, nr))
		return false;
	nr_blocks = nr - count_matched(d, nr_frees);
	return decode_any(d, TFMT_COLUMN_TIME, nr) && decode_any(d, TFMT_COLUMN_AUX, nr) &&
	       decode_bounded(d, TFMT_COLUMN_PYTHON, nr, UINT32_MAX) &&
	       decode_bounded(d, TFMT_COLUMN_NATIVE, nr, UINT32_MAX) &&
	       decode_any(d, TFMT_COLUMN_ADDRESS, nr_blocks) && decode_any(d, TFMT_COLUMN_SIZE, nr_blocks) &&
	       decode_bounded(d, TFMT_COLUMN_SHAPE, nr_blocks, UINT32_MAX);
}

int tfmt_decoder_batch(struct tfmt_decoder *d)
{
	uint32_t left = d->nr_events - d->index, nr = left < TFMT_BATCH ? left : TFMT_BATCH;
	struct tfmt_cursor before[TFMT_NR_COLUMNS];

	if (!left)
		return 0;
	memcpy(before, d->column, sizeof(before));
	if (d->one_by_one || !decode_columns(d, nr)) {
		d->one_by_one = true;
		memcpy(d->column, before, sizeof(before));
		nr = 1;
		if (!decode_columns(d, nr))
			return TFMT_E_DAMAGED;
	}
	tfmt_fill(d, nr);
	d->batch = d->index;
	d->nr_ready = d->index + nr;
	return 1;
}
