/* SPDX-License-Identifier: MIT */
/* What an encoder counts, eight values at a time. */
#include "tracefmt/columns.h"

#ifdef __x86_64__
#include <immintrin.h>

/* As tfmt_varint_bytes(); 37 / 256 is a seventh, of up to 70. */
TFMT_WIDE static inline __m512i varint_bytes(__m512i value)
{
	__m512i zeros = _mm512_lzcnt_epi64(_mm512_or_si512(value, _mm512_set1_epi64(1)));
	__m512i bits = _mm512_sub_epi64(_mm512_set1_epi64(70), zeros);

	return _mm512_srli_epi64(_mm512_mul_epu32(bits, _mm512_set1_epi64(37)), 8);
}

/* Of the differences of addresses to those before. */
TFMT_WIDE static inline __m512i address_bytes(__m512i address, __m512i before)
{
	__m512i d = _mm512_sub_epi64(address, before);
	__m512i zigzag = _mm512_xor_si512(_mm512_slli_epi64(d, 1), _mm512_srai_epi64(d, 63));
	__mmask8 wraps = _mm512_movepi64_mask(_mm512_xor_si512(address, before));

	return _mm512_mask_mov_epi64(varint_bytes(zigzag), wraps, _mm512_set1_epi64(TFMT_VARINT_MAX));
}

TFMT_WIDE void tfmt_count_blocks_wide(struct tfmt_encoder *e, uint32_t from)
{
	__m512i any_address = _mm512_setzero_si512(), any_size = any_address, sum = any_address;
	__m512i last = _mm512_set1_epi64((int64_t)e->last_address);

	for (uint32_t i = from; i < e->nr_addresses; i += TFMT_LANES) {
		uint32_t left = e->nr_addresses - i;
		__mmask8 some = left < TFMT_LANES ? (__mmask8)_bzhi_u32(0xff, left) : 0xff;
		__m512i address = _mm512_maskz_loadu_epi64(some, e->address + i);
		__m512i size = _mm512_maskz_loadu_epi64(some, e->size + i);
		__m512i before = _mm512_alignr_epi64(address, last, TFMT_LANES - 1);

		sum = _mm512_mask_add_epi64(sum, some, sum, address_bytes(address, before));
		sum = _mm512_mask_add_epi64(sum, some, sum, varint_bytes(size));
		any_address = _mm512_or_si512(any_address, address);
		any_size = _mm512_or_si512(any_size, size);
		last = address;
	}
	e->bytes += (uint32_t)_mm512_reduce_add_epi64(sum);
	e->any_address |= (uint64_t)_mm512_reduce_or_epi64(any_address);
	e->any_size |= (uint64_t)_mm512_reduce_or_epi64(any_size);
	e->last_address = e->nr_addresses ? e->address[e->nr_addresses - 1] : 0;
}
#else
void tfmt_count_blocks_wide(struct tfmt_encoder *e, uint32_t from)
{
	(void)e, (void)from;
}
#endif
