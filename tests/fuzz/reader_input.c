/* SPDX-License-Identifier: MIT */
/* Inputs of the reader's fuzzers; see reader_input.h. The offsets are FORMAT.md's. */
#include "tests/fuzz/reader_input.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include <zstd.h>

#define HEADER_MIN 80
#define FRAME_MIN 32
#define PAYLOAD_MAX 65536

static const uint8_t frame_magic[4] = { 0xb6, 0x56, 0x46, 0xe9 };

static uint32_t u32_at(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* XXH64 of [0, skip) and [skip + 8, size) of p, stored at p + skip. */
static void put_checksum(uint8_t *p, size_t skip, size_t size)
{
	XXH64_state_t *state = XXH64_createState();
	uint64_t sum;

	XXH64_reset(state, 0);
	XXH64_update(state, p, skip);
	XXH64_update(state, p + skip + 8, size - skip - 8);
	sum = XXH64_digest(state);
	XXH64_freeState(state);
	for (unsigned i = 0; i < 8; i++)
		p[skip + i] = (uint8_t)(sum >> 8 * i);
}

struct reader_input reader_input_split(const uint8_t *data, size_t size)
{
	struct reader_input in = { .trace = data, .trace_bytes = size };
	uint32_t ring = size >= 4 ? u32_at(data + size - 4) : 0;

	if (ring && ring <= size - 4) {
		in.ring_bytes = ring;
		in.trace_bytes = size - 4 - ring;
		in.ring = data + in.trace_bytes;
	}
	return in;
}

/* The bytes of the whole frame at p, 0 if there is none. */
static size_t frame_bytes(const uint8_t *p, size_t size)
{
	size_t bytes;

	if (size < FRAME_MIN || memcmp(p, frame_magic, sizeof(frame_magic)))
		return 0;
	bytes = ((size_t)p[6] | (size_t)p[7] << 8) + u32_at(p + 12);
	return bytes >= FRAME_MIN && bytes <= size ? bytes : 0;
}

void reader_input_seal(uint8_t *trace, size_t size)
{
	size_t at, bytes = size >= HEADER_MIN ? u32_at(trace + 12) : 0;

	if (bytes < HEADER_MIN || bytes > size)
		return;
	put_checksum(trace, 16, bytes);
	for (at = bytes; at < size; at += bytes ? bytes : 1) {
		bytes = frame_bytes(trace + at, size - at);
		if (bytes)
			put_checksum(trace + at, 24, bytes);
	}
}

/* Append the frame f with its payload as it is before compression; false if it does not fit or is not whole. */
static bool put_expanded(uint8_t *out, size_t *used, size_t max_size, const uint8_t *f)
{
	size_t before = (size_t)f[6] | (size_t)f[7] << 8, stored = u32_at(f + 12), raw;
	uint8_t *to = out + *used;

	if (f[5] != 1 || *used + before + PAYLOAD_MAX > max_size)
		return false;
	raw = ZSTD_decompress(to + before, PAYLOAD_MAX, f + before, stored);
	if (ZSTD_isError(raw))
		return false;
	memcpy(to, f, before);
	to[5] = 0;
	for (unsigned i = 0; i < 4; i++)
		to[12 + i] = to[16 + i] = (uint8_t)(raw >> 8 * i);
	*used += before + raw;
	return true;
}

size_t reader_input_expand(uint8_t *data, size_t size, size_t max_size)
{
	struct reader_input in = reader_input_split(data, size);
	size_t used = 0, bytes, behind = size - in.trace_bytes;
	uint8_t *out = malloc(max_size);
	bool changed = false;

	for (size_t at = 0; out && at < in.trace_bytes; at += bytes) {
		bytes = frame_bytes(data + at, in.trace_bytes - at);
		if (bytes && put_expanded(out, &used, max_size, data + at)) {
			changed = true;
			continue;
		}
		bytes = bytes ? bytes : 1;
		if (used + bytes > max_size)
			break;
		memcpy(out + used, data + at, bytes);
		used += bytes;
	}
	if (changed && used + behind <= max_size) {
		memcpy(out + used, data + in.trace_bytes, behind);
		size = used + behind;
		memcpy(data, out, size);
	}
	free(out);
	return size;
}
