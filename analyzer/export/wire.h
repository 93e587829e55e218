/* SPDX-License-Identifier: MIT */
/*
 * Messages in the wire format of Protocol Buffers: fields by number, in a buffer that grows. A message within another is
 * made in a buffer of its own and then put into the outer one. Numbers that are 0 are written, too.
 */
#ifndef VT_WIRE_H
#define VT_WIRE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "analyzer/base/heap.h"

/* Zero before first use. */
struct wire {
	uint8_t *byte;
	size_t nr_bytes, room;
};

static inline void wire_clear(struct wire *w)
{
	w->nr_bytes = 0;
}

/* A number without a field: of a packed list. */
static inline void wire_number(struct wire *w, uint64_t value)
{
	w->byte = heap_grow(w->byte, &w->room, w->nr_bytes + 10, 1);
	for (; value >= 0x80; value >>= 7)
		w->byte[w->nr_bytes++] = (uint8_t)(value | 0x80);
	w->byte[w->nr_bytes++] = (uint8_t)value;
}

/* uint64, int64 (as two's complement), uint32, bool, enum. */
static inline void wire_uint(struct wire *w, uint32_t field, uint64_t value)
{
	wire_number(w, (uint64_t)field << 3);
	wire_number(w, value);
}

/* string, bytes, and what is packed. */
static inline void wire_bytes(struct wire *w, uint32_t field, const void *bytes, size_t nr)
{
	wire_number(w, (uint64_t)field << 3 | 2);
	wire_number(w, nr);
	w->byte = heap_grow(w->byte, &w->room, w->nr_bytes + nr, 1);
	if (nr)
		memcpy(w->byte + w->nr_bytes, bytes, nr);
	w->nr_bytes += nr;
}

/* A string field holds UTF-8 by definition: what of the text is none becomes '?'. */
void wire_text(struct wire *w, uint32_t field, const char *text);

static inline void wire_message(struct wire *w, uint32_t field, const struct wire *message)
{
	wire_bytes(w, field, message->byte, message->nr_bytes);
}

void wire_release(struct wire *w);

#endif
