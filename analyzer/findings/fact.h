/* SPDX-License-Identifier: MIT */
/*
 * fact: a figure or a name that a finding rests on, with its unit. Pages put it into a sentence in the unit's own way, JSON has
 * it as it is.
 */
#ifndef VT_FACT_H
#define VT_FACT_H

#include <stdbool.h>
#include <stdint.h>

#include "analyzer/stacks/stack.h"

#define FACT_TEXT_MAX 512 /* longer texts are cut */
#define FACT_FUNCTION_MAX 96

enum fact_unit {
	FACT_ABSENT,       /* not known, or not so: a part of a sentence in [brackets] that wants it is left out */
	FACT_BYTES,
	FACT_SIGNED_BYTES, /* may be below 0 */
	FACT_COUNT,
	FACT_MANY,         /* a count that may be large: "1,234" */
	FACT_STEP,         /* the number of a step, from 1 on */
	FACT_NS,
	FACT_SHARE,        /* of a whole that is 1 */
	FACT_RATIO,        /* how many times */
	FACT_NAME,         /* a name, or words */
	FACT_SITE,         /* a line of the program */
	FACT_FLAG,         /* it is so; no text of its own */
};

struct fact {
	const char *key; /* as the sentence has it in {braces}; static */
	enum fact_unit unit;
	union {
		uint64_t number; /* BYTES, COUNT, MANY, STEP, NS */
		int64_t signed_number;
		double ratio;    /* SHARE, RATIO */
		uint32_t line;   /* SITE */
	};
	char text[FACT_TEXT_MAX];         /* NAME; of a SITE its file; of a figure how it is shown, "" = in its unit's usual way */
	char function[FACT_FUNCTION_MAX]; /* of a SITE; "" = not known */
};

/* All copy what they are given. */
struct fact fact_bytes(const char *key, uint64_t bytes);
struct fact fact_signed_bytes(const char *key, int64_t bytes);
struct fact fact_count(const char *key, uint64_t count);
struct fact fact_many(const char *key, uint64_t count);
struct fact fact_step(const char *key, uint64_t step);
struct fact fact_ns(const char *key, uint64_t ns);
struct fact fact_share(const char *key, double part, double whole); /* whole 0: absent */
struct fact fact_ratio(const char *key, double ratio);
struct fact fact_name(const char *key, const char *name);           /* NULL: absent */
struct fact fact_flag(const char *key, bool is_so);                 /* false: absent */

/* A frame without a file is absent. */
struct fact fact_site(const char *key, const struct stack_frame *frame);
struct fact fact_line(const char *key, const char *file, uint32_t line, const char *function);

/* A figure that is shown in another way than its unit's: in gigabytes of 10^9 bytes, or as its source has it. */
struct fact fact_as(struct fact figure, const char *text);

/* The fact, or none of this key. */
struct fact fact_if(bool is_known, struct fact fact);

#endif
