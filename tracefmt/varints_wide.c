/* SPDX-License-Identifier: MIT */
/*
 * Varints, many at a time, for processors that can move each byte of 64 to any other place: of whatever
 * lengths they are, nothing is guessed and none waits for another.
 */
#include "tracefmt/varints.h"

#ifdef __x86_64__
#include <immintrin.h>

#define CHUNK 64

static const uint8_t places[CHUNK] = {
	0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
	22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43,
	44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63,
};

/* The values that begin in the lowest byte of each lane, and end in it. */
TFMT_WIDE static inline __m512i cut_lanes(__m512i x)
{
	__m512i stop = _mm512_andnot_si512(x, _mm512_set1_epi8((char)0x80));
	__m512i inside = _mm512_xor_si512(stop, _mm512_sub_epi64(stop, _mm512_set1_epi64(1)));

	x = _mm512_and_si512(_mm512_and_si512(x, inside), _mm512_set1_epi8(0x7f));
	x = _mm512_maddubs_epi16(_mm512_set1_epi16((int16_t)0x8001), x); /* 7 and 7 bits become 14 */
	x = _mm512_madd_epi16(x, _mm512_set1_epi32(1 << (16 + 14) | 1)); /* 14 and 14 become 28 */
	/* 28 and 28 become 56: where the constant has a bit the first, elsewhere the second */
	return _mm512_ternarylogic_epi64(_mm512_set1_epi64(0x0fffffff), x, _mm512_srli_epi64(x, 4), 0xca);
}

/* The first nr varints of a chunk, none of more than eight bytes. */
TFMT_WIDE static inline __attribute__((always_inline)) void cut(__m512i bytes, uint64_t stops, uint64_t *out,
								uint32_t nr, __m512i *any)
{
	const __m512i place = _mm512_loadu_si512(places),
		      in_lane = _mm512_and_si512(place, _mm512_set1_epi8(7));
	__m512i start = _mm512_maskz_compress_epi8(stops << 1 | 1, place);
	__m512i lane = _mm512_and_si512(_mm512_srli_epi64(place, 3), _mm512_set1_epi8(7));

	for (uint32_t i = 0; i < nr; i += TFMT_LANES) {
		__m512i from = _mm512_add_epi8(_mm512_permutexvar_epi8(lane, start), in_lane);
		__m512i value = cut_lanes(_mm512_permutexvar_epi8(from, bytes));
		__mmask8 wanted = (__mmask8)_bzhi_u32(0xff, nr - i);

		_mm512_mask_storeu_epi64(out + i, wanted, value);
		*any = _mm512_mask_or_epi64(*any, wanted, *any, value);
		lane = _mm512_add_epi8(lane, _mm512_set1_epi8(TFMT_LANES));
	}
}

/* The first 32 of a chunk at p, none of more than two bytes: the first bytes of all, then the second ones. */
TFMT_WIDE static inline void cut_short(const uint8_t *p, __m512i bytes, uint64_t stops, uint64_t *out)
{
	uint64_t starts = stops << 1 | 1;
	__m512i second = _mm512_maskz_mov_epi8(~stops, _mm512_loadu_si512(p + 1));
	__m512i low = _mm512_maskz_compress_epi8(starts, _mm512_and_si512(bytes, _mm512_set1_epi8(0x7f)));
	__m512i high = _mm512_maskz_compress_epi8(starts, second);

	low = _mm512_cvtepu8_epi16(_mm512_castsi512_si256(low));
	high = _mm512_cvtepu8_epi16(_mm512_castsi512_si256(high));
	low = _mm512_or_si512(low, _mm512_slli_epi16(high, 7));
	_mm512_storeu_si512(out, _mm512_cvtepu16_epi64(_mm512_castsi512_si128(low)));
	_mm512_storeu_si512(out + 8, _mm512_cvtepu16_epi64(_mm512_extracti32x4_epi32(low, 1)));
	_mm512_storeu_si512(out + 16, _mm512_cvtepu16_epi64(_mm512_extracti32x4_epi32(low, 2)));
	_mm512_storeu_si512(out + 24, _mm512_cvtepu16_epi64(_mm512_extracti32x4_epi32(low, 3)));
}

/* A chunk of which each is one byte. */
TFMT_WIDE static inline void widen(const uint8_t *p, uint64_t *out)
{
	for (uint32_t i = 0; i < CHUNK; i += TFMT_LANES)
		_mm512_storeu_si512(out + i, _mm512_cvtepu8_epi64(_mm_loadl_epi64((const __m128i *)(p + i))));
}

/*
 * At most nr that end in the next 64 bytes; 0: the next one may be too long, or is not there. Half a chunk of
 * values or a quarter is taken at once even where there are some more: how often a loop runs is then
 * foreseen.
 */
TFMT_WIDE static inline uint32_t get_chunk(struct tfmt_cursor *c, uint64_t *out, uint32_t nr, __m512i *any)
{
	size_t left = (size_t)(c->end - c->p);
	__m512i bytes = _mm512_loadu_si512(c->p);
	uint64_t inside = left < CHUNK ? (1ull << left) - 1 : UINT64_MAX;
	uint64_t stops = ~_mm512_movepi8_mask(bytes) & inside, row = ~stops & inside;
	uint32_t nr_stops = (uint32_t)_mm_popcnt_u64(stops);

	nr = nr < nr_stops ? nr : nr_stops;
	row &= row >> 1; /* two in a row are of one that has three bytes or more */
	if (nr == CHUNK) {
		widen(c->p, out);
		*any = _mm512_or_si512(*any, _mm512_set1_epi64(0x7f));
	} else if (!row && nr >= CHUNK / 2) {
		nr = CHUNK / 2;
		cut_short(c->p, bytes, stops, out);
		*any = _mm512_or_si512(*any, _mm512_set1_epi64(0x3fff));
	} else {
		row &= row >> 2;
		row &= row >> 4;
		if (row || !nr)
			return 0;
		if (nr >= CHUNK / 4)
			cut(bytes, stops, out, nr = CHUNK / 4, any);
		else
			cut(bytes, stops, out, nr, any);
	}
	c->p += _tzcnt_u64(_pdep_u64(1ull << (nr - 1), stops)) + 1; /* the byte after the last one's stop */
	return nr;
}

TFMT_WIDE uint32_t tfmt_varints_get_wide(struct tfmt_cursor *c, uint64_t *out, uint32_t nr, uint64_t *bound)
{
	__m512i any = _mm512_setzero_si512();
	uint32_t done = 0, got = 1;

	while (got && done < nr) {
		got = get_chunk(c, out + done, nr - done, &any);
		done += got;
	}
	*bound |= (uint64_t)_mm512_reduce_or_epi64(any);
	return done;
}
#else
uint32_t tfmt_varints_get_wide(struct tfmt_cursor *c, uint64_t *out, uint32_t nr, uint64_t *bound)
{
	(void)c, (void)out, (void)nr, (void)bound;
	return 0;
}
#endif
