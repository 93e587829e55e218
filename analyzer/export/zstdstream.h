/* SPDX-License-Identifier: MIT */
/* A stream that compresses what is written to it, as one frame of zstd. */
#ifndef VT_ZSTDSTREAM_H
#define VT_ZSTDSTREAM_H

#include <stdio.h>

/* Begin; what is compressed goes to `to`, which stays the caller's. */
FILE *zstdstream_open(FILE *to);

/* End the frame, and the stream. Returns 0, or -1 with errno set if anything could not be written. */
int zstdstream_close(FILE *stream);

#endif
