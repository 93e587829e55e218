/* SPDX-License-Identifier: MIT */
/* pytext: Python's strings, read from memory. Nothing here calls Python or allocates. */
#ifndef IP_PYTEXT_H
#define IP_PYTEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pylayout.h"

/* In a str's state: its characters follow the object, and all are ASCII. */
#define PYTEXT_COMPACT (1u << 5)
#define PYTEXT_PLAIN (PYTEXT_COMPACT | 1u << 6)

struct pytext {
	const uint8_t *data;
	uint32_t length; /* characters */
	uint8_t width;   /* bytes of each: 1, 2, 4 */
	bool ascii;
};

/* The first `most` characters of a str; none of one that cannot be read. */
struct pytext pytext_of(const struct pylayout *l, const void *str, uint32_t most);

/* Character i in UTF-8, and how many bytes that is; what is no character (a lone surrogate) becomes U+FFFD. */
size_t pytext_char(const struct pytext *t, uint32_t i, uint8_t out[4]);

/* How many bytes it takes in UTF-8, and these: returns the byte after them. */
size_t pytext_bytes(const struct pytext *t);
uint8_t *pytext_put(uint8_t *p, const struct pytext *t);

/* Is it this text, of ASCII characters? */
bool pytext_is(const struct pylayout *l, const void *str, const char *text);

#endif
