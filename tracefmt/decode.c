/* SPDX-License-Identifier: MIT */
/* Columns to events. */
#include "tracefmt/columns.h"
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
	for (i = 0; i < nr; i++) {
		struct tfmt_class *k = &d->class[i];

		k->aux = 0;
		k->kind = get8(c);
		k->device = get8(c);
		k->flags = get16(c);
		k->function = get16(c);
		k->stream = get16(c);
		k->thread = tfmt_varint_get32(c);
	}
	return c->bad ? TFMT_E_DAMAGED : 0;
}

static int decode_shift(struct tfmt_decoder *d, enum tfmt_column column, uint8_t *shift)
{
	*shift = d->present[column] ? get8(&d->column[column]) : 0;
	return *shift < 64 && !d->column[column].bad ? 0 : TFMT_E_DAMAGED;
}

int tfmt_decoder_begin(struct tfmt_decoder *d, const uint8_t *payload, size_t len, uint32_t nr_events,
		       uint64_t first_ordinal, uint64_t first_time, uint8_t time_shift)
{
	struct tfmt_cursor c = { payload, payload + len, false };

	memset(d, 0, offsetof(struct tfmt_decoder, class));
	d->time_shift = time_shift;
	d->ordinal = first_ordinal;
	d->time = first_time;
	d->nr_events = nr_events;
	while (c.p < c.end) {
		uint64_t id = tfmt_varint_get(&c);
		uint64_t bytes = tfmt_varint_get(&c);
		const uint8_t *p = tfmt_bytes_get(&c, bytes);

		if (!p)
			return TFMT_E_DAMAGED;
		if (id >= TFMT_NR_COLUMNS)
			continue;
		if (d->present[id])
			return TFMT_E_DAMAGED;
		d->present[id] = true;
		d->column[id] = (struct tfmt_cursor){ p, p + bytes, false };
	}
	if (decode_classes(d) || decode_shift(d, TFMT_COLUMN_ADDRESS, &d->address_shift) ||
	    decode_shift(d, TFMT_COLUMN_SIZE, &d->size_shift))
		return TFMT_E_DAMAGED;
	return 0;
}

/* More than one byte, or none left. */
static uint64_t decoder_get_long(struct tfmt_decoder *d, enum tfmt_column column)
{
	uint64_t value = tfmt_varint_get_long(&d->column[column]);

	d->bad |= d->column[column].bad;
	return value;
}

/* A column that is not there is all 0. */
static inline uint64_t decoder_get(struct tfmt_decoder *d, enum tfmt_column column)
{
	struct tfmt_cursor *c = &d->column[column];

	if (!d->present[column])
		return 0;
	if (c->p < c->end && *c->p < 0x80)
		return *c->p++;
	return decoder_get_long(d, column);
}

static inline uint32_t decoder_get32(struct tfmt_decoder *d, enum tfmt_column column)
{
	uint64_t value = decoder_get(d, column);

	d->bad |= value > UINT32_MAX;
	return (uint32_t)value;
}

int tfmt_decoder_next(struct tfmt_decoder *d, struct tfmt_event *ev)
{
	struct tfmt_class *c;
	uint64_t class, age = 0;

	if (d->index == d->nr_events)
		return 0;
	class = decoder_get(d, TFMT_COLUMN_CLASS);
	if (class >= d->nr_classes)
		return TFMT_E_DAMAGED;
	c = &d->class[class];
	d->time += (uint64_t)tfmt_unzigzag(decoder_get(d, TFMT_COLUMN_TIME));
	c->aux += (uint64_t)tfmt_unzigzag(decoder_get(d, TFMT_COLUMN_AUX));
	*ev = (struct tfmt_event){
		.time_ns = d->time << d->time_shift,
		.aux = c->aux,
		.python_stack = decoder_get32(d, TFMT_COLUMN_PYTHON),
		.native_stack = decoder_get32(d, TFMT_COLUMN_NATIVE),
		.thread = c->thread,
		.stream = c->stream,
		.function = c->function,
		.flags = c->flags,
		.kind = c->kind,
		.device = c->device,
		.ordinal = d->ordinal + d->index,
		.alloc_ordinal = TFMT_NO_ORDINAL,
	};
	if (tfmt_kind_is_free(c->kind))
		age = decoder_get(d, TFMT_COLUMN_AGE);
	d->bad |= age > ev->ordinal;
	if (age) {
		ev->alloc_ordinal = ev->ordinal - age;
	} else {
		d->address += (uint64_t)tfmt_unzigzag(decoder_get(d, TFMT_COLUMN_ADDRESS));
		ev->address = d->address << d->address_shift;
		ev->size = decoder_get(d, TFMT_COLUMN_SIZE) << d->size_shift;
		ev->shape = decoder_get32(d, TFMT_COLUMN_SHAPE);
	}
	if (d->bad)
		return TFMT_E_DAMAGED;
	d->index++;
	return 1;
}
