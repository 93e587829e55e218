/* SPDX-License-Identifier: MIT */
/* Events to columns. */
#include "tracefmt/columns.h"
#include "tracefmt/ledger.h"

#include <string.h>

/* The longest an event can get: every value a full varint, and a class of its own. */
#define EVENT_BYTES_MAX 106

/* Id and length of every column, and the two shifts. */
#define COLUMN_OVERHEAD (TFMT_NR_COLUMNS * 5)

static void encoder_reset(struct tfmt_encoder *e)
{
	unsigned i;

	for (i = 0; i < TFMT_NR_COLUMNS; i++)
		e->end[i] = e->column[i];
	memset(e->class_index, 0, sizeof(e->class_index));
	e->nr_addresses = e->nr_events = e->nr_classes = 0;
	memset(e->last_class, 0, sizeof(e->last_class));
	e->any_address = e->any_size = e->last_address = e->last_ordinal = 0;
	e->bytes = COLUMN_OVERHEAD;
}

void tfmt_encoder_init(struct tfmt_encoder *e, void *memory, uint8_t time_shift)
{
	uint8_t *p = memory;
	unsigned i;

	for (i = 0; i < TFMT_NR_COLUMNS; i++)
		e->column[i] = p + i * TFMT_COLUMN_STRIDE;
	p += TFMT_NR_COLUMNS * TFMT_COLUMN_STRIDE;
	e->address = (uint64_t *)p;
	e->size = e->address + TFMT_FRAME_RAW_MAX;
	e->time_shift = time_shift;
	encoder_reset(e);
}

/* ---- classes --------------------------------------------------------------------------------- */

static bool class_equals(const struct tfmt_class *c, const struct tfmt_event *ev)
{
	return c->kind == ev->kind && c->device == ev->device && c->flags == ev->flags &&
	       c->function == ev->function && c->stream == ev->stream && c->thread == ev->thread;
}

/* A class that the latest event of its kind did not have. */
static TFMT_SELDOM uint32_t encoder_find_class(struct tfmt_encoder *e, const struct tfmt_event *ev)
{
	uint64_t key = (uint64_t)ev->kind << 56 ^ (uint64_t)ev->device << 48 ^ (uint64_t)ev->flags << 32 ^
		       (uint64_t)ev->function << 16 ^ (uint64_t)ev->stream << 40 ^ ev->thread;
	uint32_t i = tfmt_hash(key);
	struct tfmt_class *c;

	for (;; i++) {
		uint16_t found = e->class_index[i % (2 * TFMT_NR_CLASSES)];

		if (!found)
			break;
		if (class_equals(&e->class[found - 1], ev))
			return found - 1;
	}
	e->class_index[i % (2 * TFMT_NR_CLASSES)] = (uint16_t)(e->nr_classes + 1);
	c = &e->class[e->nr_classes];
	*c = (struct tfmt_class){
		.kind = ev->kind,
		.device = ev->device,
		.flags = ev->flags,
		.function = ev->function,
		.stream = ev->stream,
		.thread = ev->thread,
	};
	e->bytes += 2 + 2 + 3 + 3 + 3 + 5; /* kind, device: varints too, hence two bytes */
	return e->nr_classes++;
}

static inline uint32_t encoder_class(struct tfmt_encoder *e, const struct tfmt_event *ev)
{
	uint16_t *last = &e->last_class[ev->kind % TFMT_NR_LAST_CLASSES];

	if (*last >= e->nr_classes || !class_equals(&e->class[*last], ev))
		*last = (uint16_t)encoder_find_class(e, ev);
	return *last;
}

/* ---- events ---------------------------------------------------------------------------------- */

/* Lengths of one and two bytes alternate unforeseeably: those two without a branch. A byte more may be written. */
static inline uint8_t *put_value(uint8_t *p, uint64_t value)
{
	unsigned more = value >= 0x80;

	if (value >= 0x4000)
		return tfmt_varint_put(p, value);
	p[0] = (uint8_t)(value | more << 7);
	p[1] = (uint8_t)(value >> 7);
	return p + 1 + more;
}

/* Returns how many bytes it took. */
static inline uint32_t encoder_put(struct tfmt_encoder *e, enum tfmt_column column, uint64_t value)
{
	uint8_t *end = put_value(e->end[column], value);
	uint32_t bytes = (uint32_t)(end - e->end[column]);

	e->end[column] = end;
	return bytes;
}

/*
 * Addresses and sizes wait until their common power of two is known: until then count them in full. A
 * difference that wraps around counts as the longest, for it does not wrap once it is divided.
 */
static inline uint32_t encoder_put_block(struct tfmt_encoder *e, const struct tfmt_event *ev)
{
	bool wraps = (ev->address ^ e->last_address) >> 63;
	uint64_t delta = tfmt_zigzag((int64_t)(ev->address - e->last_address));

	e->address[e->nr_addresses] = ev->address;
	e->size[e->nr_addresses++] = ev->size;
	e->any_address |= ev->address;
	e->any_size |= ev->size;
	e->last_address = ev->address;
	return (wraps ? TFMT_VARINT_MAX : tfmt_varint_bytes(delta)) + tfmt_varint_bytes(ev->size) +
	       encoder_put(e, TFMT_COLUMN_SHAPE, ev->shape);
}

void tfmt_encoder_add(struct tfmt_encoder *e, const struct tfmt_event *ev)
{
	uint64_t time = ev->time_ns >> e->time_shift;
	uint32_t class = encoder_class(e, ev), bytes;
	bool matched = ev->alloc_ordinal != TFMT_NO_ORDINAL;

	if (!e->nr_events++)
		e->first_time = e->last_time = time;
	bytes = encoder_put(e, TFMT_COLUMN_CLASS, class);
	bytes += encoder_put(e, TFMT_COLUMN_TIME, tfmt_zigzag((int64_t)(time - e->last_time)));
	bytes += encoder_put(e, TFMT_COLUMN_PYTHON, ev->python_stack);
	bytes += encoder_put(e, TFMT_COLUMN_NATIVE, ev->native_stack);
	bytes += encoder_put(e, TFMT_COLUMN_AUX, tfmt_zigzag((int64_t)(ev->aux - e->class[class].aux)));
	e->class[class].aux = ev->aux;
	e->last_time = time;
	if (tfmt_kind_is_free(ev->kind))
		bytes += encoder_put(e, TFMT_COLUMN_AGE, matched ? ev->ordinal - ev->alloc_ordinal : 0);
	if (!matched)
		bytes += encoder_put_block(e, ev);
	if (e->puts_ordinals) {
		bytes += encoder_put(e, TFMT_COLUMN_ORDINAL, tfmt_zigzag((int64_t)(ev->ordinal - e->last_ordinal)));
		e->last_ordinal = ev->ordinal;
	}
	e->bytes += bytes;
}

bool tfmt_encoder_is_full(const struct tfmt_encoder *e)
{
	return e->bytes > TFMT_FRAME_RAW_MAX - (TFMT_WRITER_AHEAD + 1) * EVENT_BYTES_MAX ||
	       e->nr_classes >= TFMT_NR_CLASSES - TFMT_WRITER_AHEAD;
}

/* ---- the payload ----------------------------------------------------------------------------- */

static void encode_classes(struct tfmt_encoder *e)
{
	uint8_t *p = e->column[TFMT_COLUMN_CLASSES];
	uint32_t i;

	p = tfmt_varint_put(p, e->nr_classes);
	for (i = 0; i < e->nr_classes; i++) {
		const struct tfmt_class *c = &e->class[i];

		p = tfmt_varint_put(p, c->kind);
		p = tfmt_varint_put(p, c->device);
		p = tfmt_varint_put(p, c->flags);
		p = tfmt_varint_put(p, c->function);
		p = tfmt_varint_put(p, c->stream);
		p = tfmt_varint_put(p, c->thread);
	}
	e->end[TFMT_COLUMN_CLASSES] = p;
}

static unsigned common_shift(uint64_t bits)
{
	return bits ? (unsigned)__builtin_ctzll(bits) : 0;
}

static void encode_addresses(struct tfmt_encoder *e)
{
	uint8_t *p = e->column[TFMT_COLUMN_ADDRESS];
	unsigned shift = common_shift(e->any_address);
	uint64_t last = 0;
	uint32_t i;

	*p++ = (uint8_t)shift;
	for (i = 0; i < e->nr_addresses; i++) {
		uint64_t units = e->address[i] >> shift;

		p = put_value(p, tfmt_zigzag((int64_t)(units - last)));
		last = units;
	}
	e->end[TFMT_COLUMN_ADDRESS] = e->any_address ? p : e->column[TFMT_COLUMN_ADDRESS];
}

static void encode_sizes(struct tfmt_encoder *e)
{
	uint8_t *p = e->column[TFMT_COLUMN_SIZE];
	unsigned shift = common_shift(e->any_size);
	uint32_t i;

	*p++ = (uint8_t)shift;
	for (i = 0; i < e->nr_addresses; i++)
		p = put_value(p, e->size[i] >> shift);
	e->end[TFMT_COLUMN_SIZE] = e->any_size ? p : e->column[TFMT_COLUMN_SIZE];
}

/* A column that is all 0 is left out. */
static bool is_zero(const uint8_t *p, size_t len)
{
	return !len || (!p[0] && !memcmp(p, p + 1, len - 1));
}

size_t tfmt_encoder_finish(struct tfmt_encoder *e, uint8_t *out)
{
	/*
	 * Addresses and times repeat themselves least: a compressor that has met them before the others looks less
	 * closely from there on. This order takes 3% less than that of the numbers.
	 */
	static const uint8_t order[] = { TFMT_COLUMN_CLASSES, TFMT_COLUMN_CLASS, TFMT_COLUMN_PYTHON,
					 TFMT_COLUMN_NATIVE,  TFMT_COLUMN_SIZE,  TFMT_COLUMN_SHAPE,
					 TFMT_COLUMN_AUX,     TFMT_COLUMN_AGE,   TFMT_COLUMN_ORDINAL,
					 TFMT_COLUMN_ADDRESS, TFMT_COLUMN_TIME };
	uint8_t *p = out;

	encode_classes(e);
	encode_addresses(e);
	encode_sizes(e);
	for (size_t k = 0; k < sizeof(order); k++) {
		unsigned i = order[k];
		size_t len = (size_t)(e->end[i] - e->column[i]);

		if (is_zero(e->column[i], len))
			continue;
		p = tfmt_varint_put(p, i);
		p = tfmt_varint_put(p, len);
		memcpy(p, e->column[i], len);
		p += len;
	}
	encoder_reset(e);
	return (size_t)(p - out);
}
