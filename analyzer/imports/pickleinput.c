/* SPDX-License-Identifier: MIT */
/* A buffer over a descriptor. */
#include "analyzer/imports/pickleinput.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/base/heap.h"

#define READ_AHEAD (1u << 20)

void pickleinput_open(struct pickleinput *in, int fd)
{
	*in = (struct pickleinput){ .fd = fd };
}

void pickleinput_release(struct pickleinput *in)
{
	free(in->buf);
	in->buf = NULL;
}

/* Have one byte more at least; false at the end. Room follows what has come, not what a length says will come. */
static bool fill(struct pickleinput *in)
{
	ssize_t n;

	if (in->at) {
		memmove(in->buf, in->buf + in->at, in->end - in->at);
		in->before += in->at;
		in->end -= in->at;
		in->at = 0;
	}
	in->buf = heap_grow(in->buf, &in->room, in->end + READ_AHEAD, 1);
	do
		n = read(in->fd, in->buf + in->end, in->room - in->end);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		in->error = errno;
	in->end += n > 0 ? (size_t)n : 0;
	return n > 0;
}

const uint8_t *pickleinput_take(struct pickleinput *in, size_t n)
{
	const uint8_t *taken;

	while (in->end - in->at < n)
		if (!fill(in))
			return NULL;
	taken = in->buf + in->at;
	in->at += n;
	return taken;
}

const uint8_t *pickleinput_line(struct pickleinput *in, size_t max, size_t *len)
{
	size_t seen = 0;
	const uint8_t *end;

	for (;;) {
		end = in->end > in->at + seen ? memchr(in->buf + in->at + seen, '\n', in->end - in->at - seen) : NULL;
		if (end)
			break;
		seen = in->end - in->at;
		if (seen > max || !fill(in))
			return NULL;
	}
	*len = (size_t)(end - in->buf) - in->at;
	in->at += *len + 1;
	return end - *len;
}
