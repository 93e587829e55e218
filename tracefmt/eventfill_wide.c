/* SPDX-License-Identifier: MIT */
/* Values to events, eight at a time. A column that only some events have is spread to these by a mask of
 * them. */
#include "tracefmt/eventfill.h"

#ifdef __x86_64__
#include <immintrin.h>
#include <stddef.h>

TFMT_WIDE static inline __m512i unzigzag(__m512i x)
{
	__m512i sign = _mm512_sub_epi64(_mm512_setzero_si512(), _mm512_and_si512(x, _mm512_set1_epi64(1)));

	return _mm512_xor_si512(_mm512_srli_epi64(x, 1), sign);
}

/* Each lane becomes the sum of itself, those before it, and *sum; *sum becomes the last. */
TFMT_WIDE static inline __m512i add_up(__m512i x, __m512i *sum)
{
	const __m512i zero = _mm512_setzero_si512();

	x = _mm512_add_epi64(x, _mm512_alignr_epi64(x, zero, TFMT_LANES - 1));
	x = _mm512_add_epi64(x, _mm512_alignr_epi64(x, zero, TFMT_LANES - 2));
	x = _mm512_add_epi64(x, _mm512_alignr_epi64(x, zero, TFMT_LANES - 4));
	x = _mm512_add_epi64(x, *sum);
	*sum = _mm512_permutexvar_epi64(_mm512_set1_epi64(TFMT_LANES - 1), x);
	return x;
}

/* Which of these classes are of frees: a look into a table of bits that fits two registers. */
TFMT_WIDE static inline __mmask8 find_frees(const struct tfmt_decoder *d, __m512i class)
{
	__m512i low = _mm512_loadu_si512(d->free_classes),
		high = _mm512_loadu_si512(d->free_classes + TFMT_LANES);
	__m512i word = _mm512_permutex2var_epi64(low, _mm512_srli_epi64(class, 6), high);

	word = _mm512_srlv_epi64(word, _mm512_and_si512(class, _mm512_set1_epi64(63)));
	return _mm512_test_epi64_mask(word, _mm512_set1_epi64(1));
}

TFMT_WIDE bool tfmt_count_frees_wide(const struct tfmt_decoder *d, uint32_t nr, uint32_t *nr_frees)
{
	const __m512i nr_classes = _mm512_set1_epi64(d->nr_classes);
	uint32_t counted = 0;
	__mmask8 unknown = 0;

	for (uint32_t i = 0; i < nr; i += TFMT_LANES) {
		__mmask8 are_there = nr - i < TFMT_LANES ? (__mmask8)((1u << (nr - i)) - 1) : 0xff;
		__m512i class = _mm512_loadu_si512(&d->value[TFMT_COLUMN_CLASS][i]);

		unknown |= _mm512_mask_cmpge_epu64_mask(are_there, class, nr_classes);
		counted += (uint32_t)_mm_popcnt_u32(find_frees(d, class) & are_there);
	}
	*nr_frees = counted;
	return !unknown;
}

/* The values of a column from i on, each in the lane of an event that has one; the other lanes get 0. */
TFMT_WIDE static inline __m512i spread(const struct tfmt_decoder *d, enum tfmt_column column, uint32_t i,
				       __mmask8 where)
{
	return _mm512_maskz_expandloadu_epi64(where, &d->value[column][i]);
}

/* A row is the first 64 bytes of an event; what follows them is another row of two values. */
_Static_assert(offsetof(struct tfmt_event, time_ns) == 0 && offsetof(struct tfmt_event, address) == 8 &&
		       offsetof(struct tfmt_event, size) == 16 && offsetof(struct tfmt_event, shape) == 48 &&
		       offsetof(struct tfmt_event, ordinal) == 64 &&
		       offsetof(struct tfmt_event, alloc_ordinal) == 72,
	       "rows are laid out as events are");

/* Of event 2 * k or 2 * k + 1: pairs of time and address, and of size and shape, go to where it has them. */
TFMT_WIDE static inline __m512i make_row(__m512i place, __m512i content, int k)
{
	__m512i from = _mm512_add_epi64(_mm512_set_epi64(0, 9, 0, 0, 0, 8, 1, 0), _mm512_set1_epi64(2 * k));

	return _mm512_maskz_permutex2var_epi64(0x47, place, from, content);
}

TFMT_WIDE static inline void put_event(struct tfmt_decoder *d, uint32_t i, __m512i row, __m128i ordinals)
{
	const struct tfmt_event *pattern = &tfmt_pattern(d, i)->event;
	struct tfmt_event *ev = &d->event[i];

	_mm512_storeu_si512(ev, _mm512_or_si512(row, _mm512_loadu_si512(pattern)));
	_mm_storeu_si128((__m128i *)&ev->ordinal, ordinals);
	ev->python_stack = (uint32_t)d->value[TFMT_COLUMN_PYTHON][i];
	ev->native_stack = (uint32_t)d->value[TFMT_COLUMN_NATIVE][i];
	ev->before = false;
	ev->called_stack = 0;
}

/* Eight events from i on. */
TFMT_WIDE static inline void put_events(struct tfmt_decoder *d, uint32_t i, const __m512i *place,
					const __m512i *content, const __m512i *ordinals)
{
	put_event(d, i, make_row(place[0], content[0], 0), _mm512_extracti64x2_epi64(ordinals[0], 0));
	put_event(d, i + 1, make_row(place[1], content[1], 0), _mm512_extracti64x2_epi64(ordinals[1], 0));
	put_event(d, i + 2, make_row(place[0], content[0], 1), _mm512_extracti64x2_epi64(ordinals[0], 1));
	put_event(d, i + 3, make_row(place[1], content[1], 1), _mm512_extracti64x2_epi64(ordinals[1], 1));
	put_event(d, i + 4, make_row(place[0], content[0], 2), _mm512_extracti64x2_epi64(ordinals[0], 2));
	put_event(d, i + 5, make_row(place[1], content[1], 2), _mm512_extracti64x2_epi64(ordinals[1], 2));
	put_event(d, i + 6, make_row(place[0], content[0], 3), _mm512_extracti64x2_epi64(ordinals[0], 3));
	put_event(d, i + 7, make_row(place[1], content[1], 3), _mm512_extracti64x2_epi64(ordinals[1], 3));
}

/* Of two vectors the pairs of equal lanes: pair[0] those of even lanes, pair[1] of odd ones. */
TFMT_WIDE static inline void make_pairs(__m512i a, __m512i b, __m512i *pair)
{
	pair[0] = _mm512_unpacklo_epi64(a, b);
	pair[1] = _mm512_unpackhi_epi64(a, b);
}

TFMT_WIDE struct tfmt_filled tfmt_fill_wide(struct tfmt_decoder *d, uint32_t nr)
{
	const __m128i time_shift = _mm_cvtsi32_si128(d->time_shift);
	const __m128i address_shift = _mm_cvtsi32_si128(d->address_shift);
	const __m128i size_shift = _mm_cvtsi32_si128(d->size_shift);
	__m512i time_sum = _mm512_set1_epi64((int64_t)d->time);
	__m512i address_sum = _mm512_set1_epi64((int64_t)d->address);
	__m512i ordinal = _mm512_add_epi64(_mm512_set1_epi64((int64_t)(d->ordinal + d->index)),
					   _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0));
	struct tfmt_filled f = { 0 };

	for (; f.nr + TFMT_LANES <= nr; f.nr += TFMT_LANES) {
		__mmask8 frees = find_frees(d, _mm512_loadu_si512(&d->value[TFMT_COLUMN_CLASS][f.nr]));
		__m512i age = spread(d, TFMT_COLUMN_AGE, f.nr_ages, frees);
		__mmask8 blocks = _mm512_testn_epi64_mask(age, age);
		__m512i time =
			add_up(unzigzag(_mm512_loadu_si512(&d->value[TFMT_COLUMN_TIME][f.nr])), &time_sum);
		__m512i address =
			add_up(unzigzag(spread(d, TFMT_COLUMN_ADDRESS, f.nr_blocks, blocks)), &address_sum);
		__m512i size = spread(d, TFMT_COLUMN_SIZE, f.nr_blocks, blocks);
		__m512i shape = spread(d, TFMT_COLUMN_SHAPE, f.nr_blocks, blocks);
		__m512i alloc_ordinal = _mm512_mask_set1_epi64(_mm512_sub_epi64(ordinal, age), blocks, -1);
		__m512i place[2], content[2], ordinals[2];

		make_pairs(_mm512_sll_epi64(time, time_shift),
			   _mm512_maskz_sll_epi64(blocks, address, address_shift), place);
		make_pairs(_mm512_sll_epi64(size, size_shift), shape, content);
		make_pairs(ordinal, alloc_ordinal, ordinals);
		put_events(d, f.nr, place, content, ordinals);
		ordinal = _mm512_add_epi64(ordinal, _mm512_set1_epi64(TFMT_LANES));
		f.nr_ages += (uint32_t)_mm_popcnt_u32(frees);
		f.nr_blocks += (uint32_t)_mm_popcnt_u32(blocks);
	}
	d->time = (uint64_t)_mm_cvtsi128_si64(_mm512_castsi512_si128(time_sum));
	d->address = (uint64_t)_mm_cvtsi128_si64(_mm512_castsi512_si128(address_sum));
	return f;
}
#else
bool tfmt_count_frees_wide(const struct tfmt_decoder *d, uint32_t nr, uint32_t *nr_frees)
{
	(void)d, (void)nr, (void)nr_frees;
	return false;
}

struct tfmt_filled tfmt_fill_wide(struct tfmt_decoder *d, uint32_t nr)
{
	(void)d, (void)nr;
	return (struct tfmt_filled){ 0 };
}
#endif
