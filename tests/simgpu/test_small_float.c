/* SPDX-License-Identifier: MIT */
/* Floating point of 8 and 16 bits: every number keeps its value, and what lies between two is rounded. */
#include "simgpu/small_float.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const struct small_float *const formats[] = {
	&small_float16, &small_bfloat16, &small_e4m3, &small_e5m2,
};

#define NR_FORMATS (sizeof(formats) / sizeof(*formats))

static void test_known_numbers(void **state)
{
	(void)state;
	assert_true(small_float_widen(&small_float16, 0x3c01) == 1 + 0x1p-10f);
	assert_true(small_float_widen(&small_float16, 0x7bff) == 65504);
	assert_true(small_float_widen(&small_float16, 0x0001) == 0x1p-24f);
	assert_true(small_float_widen(&small_bfloat16, 0xc049) == -3.140625f);
	assert_true(small_float_widen(&small_e4m3, 0x7e) == 448);
	assert_true(small_float_widen(&small_e4m3, 0x01) == 0x1p-9f);
	assert_true(small_float_widen(&small_e5m2, 0x7b) == 57344);
	assert_true(isinf(small_float_widen(&small_float16, 0x7c00)));
	assert_true(isnan(small_float_widen(&small_e4m3, 0xff)));
	assert_int_equal(small_float_narrow(&small_float16, 1e9f), 0x7c00);
	assert_int_equal(small_float_narrow(&small_e4m3, 1e9f), 0x7e);
	assert_int_equal(small_float_narrow(&small_e5m2, -INFINITY), 0xfb);
}

static void test_each_number_keeps_its_value(void **state)
{
	(void)state;
	for (size_t i = 0; i < NR_FORMATS; i++) {
		const struct small_float *format = formats[i];

		for (uint32_t bits = 0; bits <= largest(format); bits++) {
			uint32_t sign = 1u << (format->exponent_bits + format->mantissa_bits);
			float value = small_float_widen(format, bits);

			assert_int_equal(small_float_narrow(format, value), bits);
			assert_true(small_float_widen(format, bits | sign) == -value);
			assert_int_equal(small_float_narrow(format, -value), bits | sign);
		}
	}
}

/* The next float above (1) or below (-1) a positive one. */
static float neighbour(float value, int direction)
{
	union {
		float value;
		uint32_t bits;
	} as = { value };

	as.bits += (uint32_t)direction;
	return as.value;
}

static void test_between_two_numbers_the_nearest(void **state)
{
	(void)state;
	for (size_t i = 0; i < NR_FORMATS; i++) {
		const struct small_float *format = formats[i];

		for (uint32_t bits = 0; bits < largest(format); bits++) {
			float low = small_float_widen(format, bits);
			float high = small_float_widen(format, bits + 1);
			float middle = low + (high - low) / 2;

			if (middle == low || middle == high)
				continue;	/* a float has no number between them */
			assert_int_equal(small_float_narrow(format, middle), bits + (bits & 1));
			assert_int_equal(small_float_narrow(format, neighbour(middle, -1)), bits);
			assert_int_equal(small_float_narrow(format, neighbour(middle, 1)), bits + 1);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_known_numbers),
		cmocka_unit_test(test_each_number_keeps_its_value),
		cmocka_unit_test(test_between_two_numbers_the_nearest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
