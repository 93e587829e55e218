/* SPDX-License-Identifier: MIT */
/*
 * What the fuzzers of the reader share: an input is a trace; after it, if a second header begins there, a census of the same
 * process; and at its end, if the last four bytes say so, a ring file without the padding of its pages: 144 bytes of status,
 * the definition ring, and per ring head, tail, thread, owner and its records.
 * Checksums are made right after each mutation, or hardly any would get past them.
 */
#ifndef FUZZ_READER_INPUT_H
#define FUZZ_READER_INPUT_H

#include <stddef.h>
#include <stdint.h>

struct reader_input {
	const uint8_t *trace, *census, *ring;
	size_t trace_bytes, census_bytes, ring_bytes; /* 0 = there is none */
};

/* Take an input apart. The last four bytes, little endian, are the ring file's length if that is possible. */
struct reader_input reader_input_split(const uint8_t *data, size_t size);

/* Make the census one of the trace's process: else it is only refused. The checksum of its header is no longer right. */
void reader_input_pair_census(uint8_t *data, size_t size);

/* Give the header and every frame of a trace or a census the checksum that its bytes have. */
void reader_input_seal(uint8_t *trace, size_t size);

/*
 * Make the ring file that of the trace, laid out as a recorder does, and its records whole; of version 1 if it says so,
 * else of 2, with its checks.
 */
void reader_input_pair(uint8_t *data, size_t size);

/*
 * Store the frames of an input uncompressed, as the format allows: then a mutation changes a column, not noise that
 * no decompressor takes. Returns the new size; `size` when nothing changed or it does not fit.
 */
size_t reader_input_expand(uint8_t *data, size_t size, size_t max_size);

/*
 * What a fuzzer's own mutator does: expand, mutate by what libFuzzer offers, and make most checksums right. AFL++ calls
 * no mutator: there reader_input_store() makes them right.
 */
size_t reader_input_mutate(uint8_t *data, size_t size, size_t max_size, unsigned seed,
			   size_t (*mutate)(uint8_t *data, size_t size, size_t max_size));

/* Store the files, named for this process and NAME. Returns the trace's path, valid until the next call. */
const char *reader_input_store(const struct reader_input *in, const char *name);
void reader_input_remove(const struct reader_input *in, const char *name);

#endif
