/* SPDX-License-Identifier: MIT */
/*
 * Where a varint ends is not known before it is read, and a branch on it is guessed wrong as often as lengths are
 * mixed. So the ends of all that lie in 64 bytes are found first, as bits of one number; each value is then cut out
 * without a branch, and without waiting for the one before it.
 */
#include "tracefmt/varints.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif
#ifdef __x86_64__
#include <immintrin.h>
#endif

#define CHUNK 64

static inline uint64_t load64(const uint8_t *p)
{
	uint64_t x;

	memcpy(&x, p, sizeof(x));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	x = __builtin_bswap64(x);
#endif
	return x;
}

/* Bit i is set if byte i is the last of a varint. */
#ifdef __SSE2__
static inline uint64_t chunk_stops(const uint8_t *p)
{
	uint64_t goes_on = 0;

	for (unsigned i = 0; i < CHUNK / 16; i++)
		goes_on |= (uint64_t)(unsigned)_mm_movemask_epi8(_mm_loadu_si128((const __m128i *)p + i)) << 16 * i;
	return ~goes_on;
}
#else
static inline uint64_t chunk_stops(const uint8_t *p)
{
	uint64_t goes_on = 0;

	for (unsigned i = 0; i < CHUNK / 8; i++) {
		uint64_t high = load64(p + (size_t)8 * i) >> 7 & 0x0101010101010101ull;

		/* The multiplication gathers bit 0 of each byte in the highest byte. */
		goes_on |= (high * 0x0102040810204080ull >> 56) << 8 * i;
	}
	return ~goes_on;
}
#endif

/* A varint of 1 or 2 bytes, at the beginning of these. */
static inline uint64_t cut_short(uint64_t x, unsigned bytes)
{
	x &= 0x7fffu >> (16 - 8 * bytes);
	return (x & 0x7f) | (x >> 1 & 0x3f80);
}

/* A varint of 1 to 8 bytes. */
static inline uint64_t cut(uint64_t x, unsigned bytes)
{
	x &= UINT64_MAX >> (64 - 8 * bytes);
	x = (x & 0x007f007f007f007full) | (x & 0x7f007f007f007f00ull) >> 1;
	x = (x & 0x00003fff00003fffull) | (x & 0x3fff00003fff0000ull) >> 2;
	return (x & 0x0fffffff) | (x & 0x0fffffff00000000ull) >> 4;
}

/* At most nr that end at these stops, of at most `longest` bytes (2 or 8). Returns how many they are. */
static inline uint32_t cut_all(struct tfmt_cursor *c, uint64_t stops, uint64_t *out, uint32_t nr, unsigned longest,
			       uint64_t *bound)
{
	const uint8_t *p = c->p;
	unsigned start = 0;
	uint64_t any = 0;
	uint32_t i;

	for (i = 0; stops && i < nr; i++) {
		unsigned end = (unsigned)__builtin_ctzll(stops), bytes = end - start + 1;
		uint64_t x = load64(p + start);

		out[i] = longest == 2 ? cut_short(x, bytes) : cut(x, bytes);
		any |= longest == 2 ? 0x3fff : out[i];
		stops &= stops - 1;
		start = end + 1;
	}
	c->p = p + start;
	*bound |= any;
	return i;
}

#ifdef __x86_64__
/* Take out varints of any length up to 8 bytes, for processors that have an instruction for it. */
__attribute__((target("bmi,bmi2,popcnt")))
static uint32_t extract_all(struct tfmt_cursor *c, uint64_t stops, uint64_t *out, uint32_t nr, uint64_t *bound)
{
	const uint8_t *p = c->p;
	uint32_t nr_stops = (uint32_t)__builtin_popcountll(stops), i;
	unsigned start = 0;
	uint64_t any = 0;

	nr = nr < nr_stops ? nr : nr_stops;
	for (i = 0; i < nr; i++) {
		unsigned end = (unsigned)__builtin_ctzll(stops) + 1;

		out[i] = _pext_u64(_bzhi_u64(load64(p + start), 8 * (end - start)), 0x7f7f7f7f7f7f7f7full);
		any |= out[i];
		stops &= stops - 1;
		start = end;
	}
	c->p = p + start;
	*bound |= any;
	return nr;
}
#else
static uint32_t extract_all(struct tfmt_cursor *c, uint64_t stops, uint64_t *out, uint32_t nr, uint64_t *bound)
{
	return cut_all(c, stops, out, nr, 8, bound);
}
#endif

/* Each is one byte: the loop has a constant length so that it becomes vector instructions. */
static uint32_t widen(struct tfmt_cursor *c, uint64_t *out, uint32_t nr, uint64_t *bound)
{
	const uint8_t *p = c->p;

	*bound |= 0x7f;
	if (nr < CHUNK) {
		for (uint32_t i = 0; i < nr; i++)
			out[i] = p[i];
		c->p = p + nr;
		return nr;
	}
	for (uint32_t i = 0; i < CHUNK; i++)
		out[i] = p[i];
	c->p = p + CHUNK;
	return CHUNK;
}

/* Each is two bytes, as the ids of stacks are. */
static uint32_t widen_pairs(struct tfmt_cursor *c, uint64_t *out, uint64_t *bound)
{
	const uint8_t *p = c->p;

	for (uint32_t i = 0; i < CHUNK / 2; i++)
		out[i] = (p[2 * i] & 0x7fu) | (unsigned)p[2 * i + 1] << 7;
	*bound |= 0x3fff;
	c->p = p + CHUNK;
	return CHUNK / 2;
}

/* At most nr that end in the next 64 bytes; 0: the next one may be too long, or is not there. */
static inline uint32_t get_chunk(struct tfmt_cursor *c, uint64_t *out, uint32_t nr, bool extract, uint64_t *bound)
{
	size_t left = (size_t)(c->end - c->p);
	uint64_t stops = chunk_stops(c->p), inside = left < CHUNK ? (1ull << left) - 1 : UINT64_MAX, row;

	if (stops == UINT64_MAX && left >= CHUNK)
		return widen(c, out, nr, bound);
	if (stops == 0xaaaaaaaaaaaaaaaaull && left >= CHUNK && nr >= CHUNK / 2)
		return widen_pairs(c, out, bound);
	stops &= inside;
	row = ~stops & inside;
	row &= row >> 1; /* two in a row are of one that has three bytes or more */
	if (!row && !extract)
		return cut_all(c, stops, out, nr, 2, bound);
	row &= row >> 2;
	row &= row >> 4;
	if (row)
		return 0;
	return extract ? extract_all(c, stops, out, nr, bound) : cut_all(c, stops, out, nr, 8, bound);
}

uint64_t tfmt_varints_get(struct tfmt_cursor *c, uint64_t *out, uint32_t nr, enum tfmt_way way)
{
	uint64_t bound = 0;

	while (nr && !c->bad) {
		uint32_t got = way == TFMT_WAY_WIDE ? tfmt_varints_get_wide(c, out, nr, &bound)
						    : get_chunk(c, out, nr, way == TFMT_WAY_EXTRACT, &bound);

		if (!got) {
			*out = tfmt_varint_get_long(c);
			bound |= *out;
			got = 1;
		}
		out += got;
		nr -= got;
	}
	return bound;
}
