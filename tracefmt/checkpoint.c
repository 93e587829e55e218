/* SPDX-License-Identifier: MIT */
/* Frame header fields to bytes and back. */
#include "tracefmt/checkpoint.h"
#include "tracefmt/varint.h"

#include <string.h>

/* A field is: tag, varint length, bytes. FORMAT.md lists them. */
enum tfmt_field {
	TFMT_FIELD_ORDINAL = 1,
	TFMT_FIELD_TIME = 2,
	TFMT_FIELD_TOTALS = 3,
	TFMT_FIELD_HIGHEST = 4,
	TFMT_FIELD_ORDERS = 5,
	TFMT_FIELD_RINGS = 6,
	TFMT_FIELD_DEFINITIONS = 7,
	TFMT_FIELD_GIVEN_UP = 8,
	TFMT_FIELD_DROPPED = 9,
	TFMT_FIELD_LEFT_OUT = 10,
	TFMT_FIELD_INDEX = 11,
};

#define TFMT_NR_QUANTITIES 6

/*
 * Lengths of fields are varints of exactly three bytes, so that they can be filled in after the content
 * (LEB128 allows leading zero groups).
 */
static uint8_t *field_open(uint8_t *p, enum tfmt_field tag)
{
	*p = (uint8_t)tag;
	return p + 4;
}

static uint8_t *field_close(uint8_t *content, uint8_t *end)
{
	size_t len = (size_t)(end - content);

	content[-3] = (uint8_t)(len | 0x80);
	content[-2] = (uint8_t)(len >> 7 | 0x80);
	content[-1] = (uint8_t)(len >> 14);
	return end;
}

/* A quantity's totals, one for each device; page-locked host memory has a single one. */
static uint64_t *totals_row(struct tfmt_totals *t, unsigned quantity, unsigned *nr)
{
	uint64_t *row[TFMT_NR_QUANTITIES] = {
		t->allocated, t->reserved, t->driver, t->managed, &t->pinned, t->graph,
	};

	*nr = row[quantity] == &t->pinned ? 1 : TFMT_NR_DEVICES;
	return row[quantity];
}

static uint8_t *totals_put(uint8_t *p, const struct tfmt_totals *t)
{
	unsigned quantity, device, nr;

	for (quantity = 0; quantity < TFMT_NR_QUANTITIES; quantity++) {
		const uint64_t *row = totals_row((struct tfmt_totals *)t, quantity, &nr);

		for (device = 0; device < nr; device++) {
			if (!row[device])
				continue;
			*p++ = (uint8_t)quantity;
			*p++ = (uint8_t)device;
			p = tfmt_varint_put(p, row[device]);
		}
	}
	return p;
}

static void totals_get(struct tfmt_totals *t, struct tfmt_cursor *c)
{
	while (c->p < c->end) {
		uint64_t quantity = tfmt_varint_get(c);
		uint64_t device = tfmt_varint_get(c);
		uint64_t value = tfmt_varint_get(c);
		unsigned nr = 0;
		uint64_t *row = quantity < TFMT_NR_QUANTITIES ? totals_row(t, (unsigned)quantity, &nr) : NULL;

		if (device < nr)
			row[device] = value;
	}
}

/* Pairs (index, value) of what is not zero. */
static uint8_t *table_put(uint8_t *p, const uint64_t *value, unsigned nr)
{
	unsigned i;

	for (i = 0; i < nr; i++) {
		if (value[i]) {
			*p++ = (uint8_t)i;
			p = tfmt_varint_put(p, value[i]);
		}
	}
	return p;
}

static void table_get(uint64_t *value, unsigned nr, struct tfmt_cursor *c)
{
	while (c->p < c->end) {
		uint64_t i = tfmt_varint_get(c);
		uint64_t v = tfmt_varint_get(c);

		if (i < nr)
			value[i] = v;
	}
}

static uint8_t *span_put(uint8_t *p, const struct tfmt_span *s)
{
	p = tfmt_varint_put(p, s->from);
	return tfmt_varint_put(p, s->to - s->from);
}

static void span_get(struct tfmt_span *s, struct tfmt_cursor *c)
{
	s->from = tfmt_varint_get(c);
	s->to = s->from + tfmt_varint_get(c);
	if (s->to < s->from)
		c->bad = true;
}

static void rings_get(struct tfmt_checkpoint *k, struct tfmt_cursor *c)
{
	uint64_t nr = tfmt_varint_get(c);
	uint32_t i;

	if (nr > TFMT_NR_RINGS) {
		c->bad = true;
		return;
	}
	k->nr_rings = (uint32_t)nr;
	for (i = 0; i < nr; i++)
		span_get(&k->ring[i], c);
}

static uint8_t *number_put(uint8_t *p, enum tfmt_field tag, uint32_t value)
{
	if (!value)
		return p;
	*p++ = (uint8_t)tag;
	*p++ = (uint8_t)tfmt_varint_bytes(value);
	return tfmt_varint_put(p, value);
}

uint8_t *tfmt_checkpoint_put_dropped(uint8_t *p, uint32_t nr_dropped, uint32_t nr_left_out)
{
	p = number_put(p, TFMT_FIELD_DROPPED, nr_dropped);
	return number_put(p, TFMT_FIELD_LEFT_OUT, nr_left_out);
}

uint8_t *tfmt_checkpoint_put(uint8_t *p, const struct tfmt_checkpoint *c)
{
	uint8_t *content;
	uint32_t i;

	content = field_open(p, TFMT_FIELD_ORDINAL);
	p = field_close(content, tfmt_varint_put(content, c->ordinal));
	content = field_open(p, TFMT_FIELD_TIME);
	p = field_close(content, tfmt_varint_put(content, c->time));
	content = field_open(p, TFMT_FIELD_TOTALS);
	p = field_close(content, totals_put(content, &c->totals));
	content = field_open(p, TFMT_FIELD_HIGHEST);
	p = field_close(content, table_put(content, c->highest, TFMT_NR_HIGHEST));
	content = field_open(p, TFMT_FIELD_ORDERS);
	p = field_close(content, table_put(content, c->order, TFMT_NR_DOMAINS));
	content = field_open(p, TFMT_FIELD_DEFINITIONS);
	p = field_close(content, span_put(content, &c->definitions));
	if (c->nr_given_up) {
		content = field_open(p, TFMT_FIELD_GIVEN_UP);
		p = field_close(content, tfmt_varint_put(content, c->nr_given_up));
	}
	p = tfmt_checkpoint_put_dropped(p, c->nr_dropped, c->nr_left_out);
	p = number_put(p, TFMT_FIELD_INDEX, c->index_bytes);
	content = field_open(p, TFMT_FIELD_RINGS);
	p = tfmt_varint_put(content, c->nr_rings);
	for (i = 0; i < c->nr_rings; i++)
		p = span_put(p, &c->ring[i]);
	return field_close(content, p);
}

static void field_get(struct tfmt_checkpoint *k, uint64_t tag, struct tfmt_cursor *c)
{
	switch (tag) {
	case TFMT_FIELD_ORDINAL:
		k->ordinal = tfmt_varint_get(c);
		break;
	case TFMT_FIELD_TIME:
		k->time = tfmt_varint_get(c);
		break;
	case TFMT_FIELD_TOTALS:
		totals_get(&k->totals, c);
		break;
	case TFMT_FIELD_HIGHEST:
		table_get(k->highest, TFMT_NR_HIGHEST, c);
		break;
	case TFMT_FIELD_ORDERS:
		table_get(k->order, TFMT_NR_DOMAINS, c);
		break;
	case TFMT_FIELD_RINGS:
		rings_get(k, c);
		break;
	case TFMT_FIELD_DEFINITIONS:
		span_get(&k->definitions, c);
		break;
	case TFMT_FIELD_GIVEN_UP:
		k->nr_given_up = tfmt_varint_get32(c);
		break;
	case TFMT_FIELD_DROPPED:
		k->nr_dropped = tfmt_varint_get32(c);
		break;
	case TFMT_FIELD_LEFT_OUT:
		k->nr_left_out = tfmt_varint_get32(c);
		break;
	case TFMT_FIELD_INDEX:
		k->index_bytes = tfmt_varint_get32(c);
		break;
	default:
		break;
	}
}

int tfmt_checkpoint_get(struct tfmt_checkpoint *k, const uint8_t *bytes, size_t len)
{
	struct tfmt_cursor c = { bytes, bytes + len, false };

	memset(k, 0, offsetof(struct tfmt_checkpoint, ring));
	while (c.p < c.end && !c.bad) {
		uint64_t tag = tfmt_varint_get(&c);
		uint64_t n = tfmt_varint_get(&c);
		const uint8_t *p = tfmt_bytes_get(&c, n);
		struct tfmt_cursor field = { p, p ? p + n : p, false };

		if (!p)
			break;
		field_get(k, tag, &field);
		c.bad |= field.bad;
	}
	return c.bad ? TFMT_E_DAMAGED : 0;
}
