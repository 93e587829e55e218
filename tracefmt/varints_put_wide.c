/* SPDX-License-Identifier: MIT */
/* Varints put eight at a time, for processors that can move each byte of 64 to any other place. */
#include "tracefmt/varints_put.h"

#ifdef __x86_64__
#include <immintrin.h>

/* In each group of eight bits, one of each byte of a lane: those below the highest that is set, and it, too. */
static inline uint64_t below_highest(uint64_t bits)
{
	bits |= bits >> 1 & 0x7f7f7f7f7f7f7f7full;
	bits |= bits >> 2 & 0x3f3f3f3f3f3f3f3full;
	return bits | (bits >> 4 & 0x0f0f0f0f0f0f0f0full);
}

/* The values that are left, less than TFMT_LANES. */
TFMT_WIDE static inline __m512i last_lanes(const uint64_t *value, uint32_t nr)
{
	return _mm512_maskz_loadu_epi64((__mmask8)_bzhi_u32(0xff, nr), value);
}

/* Of values of at most eight bytes, put the lanes in `wanted` (all their bytes' bits); 64 bytes are written. */
TFMT_WIDE static inline uint8_t *put_lanes(uint8_t *p, __m512i value, uint64_t wanted)
{
	const __m512i sevens = _mm512_set1_epi64(0x312a231c150e0700); /* the bits that each byte begins with */
	__m512i bytes = _mm512_and_si512(_mm512_multishift_epi64_epi8(sevens, value), _mm512_set1_epi8(0x7f));
	uint64_t used = below_highest(_mm512_test_epi8_mask(bytes, bytes)), goes_on = used >> 1 & 0x7f7f7f7f7f7f7f7full;

	used = (used | 0x0101010101010101ull) & wanted;
	bytes = _mm512_mask_add_epi8(bytes, goes_on, bytes, _mm512_set1_epi8((char)0x80));
	_mm512_storeu_si512(p, _mm512_maskz_compress_epi8(used, bytes));
	return p + _mm_popcnt_u64(used);
}

TFMT_WIDE uint8_t *tfmt_varints_put_wide(uint8_t *p, const uint64_t *value, uint32_t nr)
{
	uint32_t i;

	for (i = 0; i + TFMT_LANES <= nr; i += TFMT_LANES)
		p = put_lanes(p, _mm512_loadu_si512(value + i), UINT64_MAX);
	return i == nr ? p : put_lanes(p, last_lanes(value + i, nr - i), _bzhi_u64(UINT64_MAX, 8 * (nr - i)));
}

TFMT_WIDE static inline void put_bytes(uint8_t *p, __m512i value)
{
	_mm_storel_epi64((__m128i *)p, _mm512_cvtepi64_epi8(value));
}

TFMT_WIDE uint8_t *tfmt_bytes_put_wide(uint8_t *p, const uint64_t *value, uint32_t nr)
{
	uint32_t i;

	for (i = 0; i + TFMT_LANES <= nr; i += TFMT_LANES)
		put_bytes(p + i, _mm512_loadu_si512(value + i));
	put_bytes(p + i, last_lanes(value + i, nr - i));
	return p + nr;
}
#else
uint8_t *tfmt_varints_put_wide(uint8_t *p, const uint64_t *value, uint32_t nr)
{
	(void)value, (void)nr;
	return p;
}

uint8_t *tfmt_bytes_put_wide(uint8_t *p, const uint64_t *value, uint32_t nr)
{
	(void)value, (void)nr;
	return p;
}
#endif
