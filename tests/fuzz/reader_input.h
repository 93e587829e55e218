/* SPDX-License-Identifier: MIT */
/*
 * What the fuzzers of the reader share: an input is a trace, and behind it, if its last four bytes say so, a ring file.
 * Checksums are made right after each mutation, or hardly any would get past them.
 */
#ifndef FUZZ_READER_INPUT_H
#define FUZZ_READER_INPUT_H

#include <stddef.h>
#include <stdint.h>

struct reader_input {
	const uint8_t *trace, *ring;
	size_t trace_bytes, ring_bytes; /* ring_bytes 0 = there is none */
};

/* Take an input apart. The last four bytes, little endian, are the ring file's length if that is possible. */
struct reader_input reader_input_split(const uint8_t *data, size_t size);

/* Give the header and every frame of the trace the checksum that its bytes have. */
void reader_input_seal(uint8_t *trace, size_t size);

/*
 * Store the frames of an input uncompressed, as the format allows: then a mutation changes a column, not noise that
 * no decompressor takes. Returns the new size; `size` when nothing changed or it does not fit.
 */
size_t reader_input_expand(uint8_t *data, size_t size, size_t max_size);

#endif
