/* SPDX-License-Identifier: MIT */
/* Floating point of 8 and 16 bits, converted in software: no compiler here has all four types. */
#ifndef SIMGPU_SMALL_FLOAT_H
#define SIMGPU_SMALL_FLOAT_H

#include <stdbool.h>
#include <stdint.h>

/* A sign, EXPONENT_BITS biased as in IEEE 754, MANTISSA_BITS. */
struct small_float {
	int exponent_bits, mantissa_bits;
	bool is_finite;		/* no infinity: the largest exponent has numbers, and all ones is none */
	bool saturates;		/* what is too large becomes the largest number */
};

/* The formats of CUDA's types __half, __nv_bfloat16, __nv_fp8_e4m3 and __nv_fp8_e5m2. */
extern const struct small_float small_float16, small_bfloat16, small_e4m3, small_e5m2;

/* The value of the number in the low bits of BITS; exact. */
float small_float_widen(const struct small_float *format, uint32_t bits);

/* VALUE as the nearest number of the format, ties to even. */
uint32_t small_float_narrow(const struct small_float *format, float value);

#endif
