/* SPDX-License-Identifier: MIT */
/*
 * Lengths of varints alternate unforeseeably, and a branch on each would be guessed wrong as often. So each
 * is laid out in a register as if it were the longest, written in full, and the next one begins where it
 * ends.
 */
#include "tracefmt/varints_put.h"
#include "tracefmt/varint.h"

/* One or two bytes; two are written. */
static inline uint8_t *put_short(uint8_t *p, uint64_t value)
{
	unsigned more = value >= 0x80;

	tfmt_put16(p, (uint16_t)((value & 0x7f) | more << 7 | (value << 1 & 0x7f00)));
	return p + 1 + more;
}

/* Up to eight bytes, of which all are written: groups of 7 bits are moved apart by halves. */
static inline uint8_t *put_long(uint8_t *p, uint64_t value)
{
	unsigned bytes = tfmt_varint_bytes(value);
	uint64_t x = value, goes_on = 0x0080808080808080ull & ((1ull << (8 * bytes - 8)) - 1);

	x = (x & 0x0fffffff) | (x << 4 & 0x0fffffff00000000ull);
	x = (x & 0x00003fff00003fffull) | (x << 2 & 0x3fff00003fff0000ull);
	x = (x & 0x007f007f007f007full) | (x << 1 & 0x7f007f007f007f00ull);
	tfmt_put64(p, x | goes_on);
	return p + bytes;
}

uint8_t *tfmt_varints_put(uint8_t *p, const uint64_t *value, uint32_t nr, uint64_t any, enum tfmt_way way)
{
	uint32_t i;

	if (way == TFMT_WAY_WIDE && !(any >> 56))
		return any < 0x80 ? tfmt_bytes_put_wide(p, value, nr) : tfmt_varints_put_wide(p, value, nr);
	if (any < 0x80) {
		for (i = 0; i < nr; i++)
			p[i] = (uint8_t)value[i];
		return p + nr;
	}
	if (any < 0x4000) {
		for (i = 0; i < nr; i++)
			p = put_short(p, value[i]);
		return p;
	}
	for (i = 0; i < nr; i++)
		p = value[i] >> 56 ? tfmt_varint_put(p, value[i]) : put_long(p, value[i]);
	return p;
}
