/* SPDX-License-Identifier: MIT */
/* Floating point of 8 and 16 bits (small_float.h). */
#include "simgpu/small_float.h"

#include <math.h>

const struct small_float small_float16 = { 5, 10, false, false };
const struct small_float small_bfloat16 = { 8, 7, false, false };
const struct small_float small_e4m3 = { 4, 3, true, true };
const struct small_float small_e5m2 = { 5, 2, false, true };

static uint32_t all_ones(int nr_bits)
{
	return (1u << nr_bits) - 1;
}

static int bias(const struct small_float *format)
{
	return (int)all_ones(format->exponent_bits - 1);
}

/* The largest finite number, without its sign: the next one up is infinity, or not a number. */
static uint32_t largest(const struct small_float *format)
{
	uint32_t nan = all_ones(format->exponent_bits + format->mantissa_bits);

	return format->is_finite ? nan - 1 : nan - (1u << format->mantissa_bits);
}

float small_float_widen(const struct small_float *format, uint32_t bits)
{
	uint32_t magnitude = bits & all_ones(format->exponent_bits + format->mantissa_bits);
	uint32_t mantissa = magnitude & all_ones(format->mantissa_bits);
	int exponent = (int)(magnitude >> format->mantissa_bits);
	float value;

	if (magnitude > largest(format))
		value = format->is_finite || mantissa ? NAN : INFINITY;
	else if (exponent)
		value = ldexpf((float)(mantissa | 1u << format->mantissa_bits),
			       exponent - bias(format) - format->mantissa_bits);
	else
		value = ldexpf((float)mantissa, 1 - bias(format) - format->mantissa_bits);
	return bits >> (format->exponent_bits + format->mantissa_bits) & 1 ? -value : value;
}

/* Adding 2^23 leaves a float no room for a fraction: the sum is rounded, ties to even. */
static uint32_t nearest(float value)
{
	volatile float sum = value + 0x1p23f;

	return (uint32_t)(sum - 0x1p23f);
}

uint32_t small_float_narrow(const struct small_float *format, float value)
{
	uint32_t sign = (signbit(value) ? 1u : 0u) << (format->exponent_bits + format->mantissa_bits);
	uint32_t magnitude, units;
	int exponent;

	if (isnan(value))
		return sign | all_ones(format->exponent_bits + format->mantissa_bits);
	value = fabsf(value);
	if (isinf(value)) {
		magnitude = largest(format) + 1;
	} else {
		frexpf(value, &exponent);
		exponent--;		/* 1 <= value / 2^exponent < 2 */
		if (exponent < 1 - bias(format) || value == 0)
			exponent = 1 - bias(format);
		/* Exponent and mantissa are one number: rounding carries from one into the other. */
		units = nearest(ldexpf(value, format->mantissa_bits - exponent));
		magnitude = ((uint32_t)(exponent + bias(format) - 1) << format->mantissa_bits) + units;
	}
	if (magnitude > largest(format))
		magnitude = largest(format) + (format->saturates ? 0 : 1);
	return sign | magnitude;
}
