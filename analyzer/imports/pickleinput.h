/* SPDX-License-Identifier: MIT */
/* The bytes of a pickle: read ahead in pieces, never more in memory than the longest text takes. */
#ifndef VT_PICKLEINPUT_H
#define VT_PICKLEINPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pickleinput {
	int fd;
	uint8_t *buf;
	size_t room, at, end; /* bytes [at, end) of buf come next */
	uint64_t before;      /* bytes of the file before buf */
	int error;            /* errno of a failed read */
};

void pickleinput_open(struct pickleinput *in, int fd);
void pickleinput_release(struct pickleinput *in);

/* The next n bytes, valid until the next call; NULL: there are not so many, or they cannot be read (in->error). */
const uint8_t *pickleinput_take(struct pickleinput *in, size_t n);

/* The next line, of at most `max` bytes, without its end; NULL as above, or it is longer. */
const uint8_t *pickleinput_line(struct pickleinput *in, size_t max, size_t *len);

/* Offset of the next byte. */
static inline uint64_t pickleinput_offset(const struct pickleinput *in)
{
	return in->before + in->at;
}

#endif
