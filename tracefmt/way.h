/* SPDX-License-Identifier: MIT */
/*
 * How a decoder and an encoder do what they do most: as the processor at hand can. All ways give the same.
 * Internal to tracefmt.
 */
#ifndef TFMT_WAY_H
#define TFMT_WAY_H

enum tfmt_way {
	TFMT_WAY_PORTABLE,
	TFMT_WAY_EXTRACT, /* x86-64 with BMI2: one instruction cuts out a varint */
	TFMT_WAY_WIDE,    /* AVX-512 with VBMI2, of Intel since 2019, of AMD since 2022: eight values at a time */
};

/* The fastest that the processor has; it has those before it, too. */
enum tfmt_way tfmt_way_best(void);

#ifdef __x86_64__
/* Of functions that only TFMT_WAY_WIDE may call. */
#define TFMT_WIDE \
	__attribute__((target("avx512f,avx512cd,avx512dq,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi,bmi2,popcnt")))
#define TFMT_LANES 8 /* values of 64 bits that one instruction takes */
#endif

#endif
