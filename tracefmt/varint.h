/* SPDX-License-Identifier: MIT */
/*
 * Integers as bytes: varints (LEB128), zigzag, little-endian fixed widths, and a cursor that never reads
 * past its end. Internal to tracefmt.
 */
#ifndef TFMT_VARINT_H
#define TFMT_VARINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define TFMT_VARINT_MAX 10 /* bytes of the longest varint */

/*
 * For what happens seldom beside what happens with each event: inlined there, it would have each event save the
 * registers that only it needs.
 */
#define TFMT_SELDOM __attribute__((noinline))

/* What is left to read of some bytes. Reading past the end gives 0 and sets bad, which stays set. */
struct tfmt_cursor {
	const uint8_t *p, *end;
	bool bad;
};

static inline uint64_t tfmt_zigzag(int64_t value)
{
	return ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
}

static inline int64_t tfmt_unzigzag(uint64_t value)
{
	return (int64_t)((value >> 1) ^ (0 - (value & 1)));
}

static inline unsigned tfmt_varint_bytes(uint64_t value)
{
	return (70 - (unsigned)__builtin_clzll(value | 1)) / 7;
}

static inline uint8_t *tfmt_varint_put(uint8_t *p, uint64_t value)
{
	while (value >= 0x80) {
		*p++ = (uint8_t)(value | 0x80);
		value >>= 7;
	}
	*p++ = (uint8_t)value;
	return p;
}

/* The general case of tfmt_varint_get(): more than one byte, or none left. */
uint64_t tfmt_varint_get_long(struct tfmt_cursor *c);

static inline uint64_t tfmt_varint_get(struct tfmt_cursor *c)
{
	if (c->p < c->end && *c->p < 0x80)
		return *c->p++;
	return tfmt_varint_get_long(c);
}

/* A varint that must fit 32 bits; a larger one sets bad. */
uint32_t tfmt_varint_get32(struct tfmt_cursor *c);

/* The next len bytes, or NULL (and bad) if there are fewer. */
const uint8_t *tfmt_bytes_get(struct tfmt_cursor *c, uint64_t len);

/* A string: varint length, bytes. *s is not terminated. */
bool tfmt_string_get(struct tfmt_cursor *c, const uint8_t **s, size_t *len);

static inline void tfmt_put16(uint8_t *p, uint16_t v)
{
	p[0] = (uint8_t)v;
	p[1] = (uint8_t)(v >> 8);
}

static inline void tfmt_put32(uint8_t *p, uint32_t v)
{
	tfmt_put16(p, (uint16_t)v);
	tfmt_put16(p + 2, (uint16_t)(v >> 16));
}

static inline void tfmt_put64(uint8_t *p, uint64_t v)
{
	tfmt_put32(p, (uint32_t)v);
	tfmt_put32(p + 4, (uint32_t)(v >> 32));
}

static inline uint16_t tfmt_get16(const uint8_t *p)
{
	return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t tfmt_get32(const uint8_t *p)
{
	return tfmt_get16(p) | (uint32_t)tfmt_get16(p + 2) << 16;
}

static inline uint64_t tfmt_get64(const uint8_t *p)
{
	return tfmt_get32(p) | (uint64_t)tfmt_get32(p + 4) << 32;
}

#endif
