/* SPDX-License-Identifier: MIT */
/* Inputs of the reader's fuzzers; see reader_input.h. The offsets are FORMAT.md's. */
#include "tests/fuzz/reader_input.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>
#include <zstd.h>

#define HEADER_MIN 80
#define PROCESS_ID 24
#define PROCESS_ID_BYTES 4
#define IMAGE_START 48
#define IMAGE_START_BYTES 8
#define FRAME_MIN 32
#define PAYLOAD_MAX 65536
#define PAGE 4096
#define STATUS_USED 144
#define RING_PAIR 8 /* head, tail, and thread with owner */
#define RING_USED (3 * RING_PAIR)
#define RECORD_BYTES 64
#define ENTRY_BYTES 32 /* before the payload, in version 2 */
#define ENTRIES_MAX 64

static const uint8_t header_magic[8] = { 0x89, 'V', 'T', 'F', 0x0d, 0x0a, 0x1a, 0x0a };
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
	if (in.trace_bytes > HEADER_MIN)
		in.census = memmem(data + HEADER_MIN, in.trace_bytes - HEADER_MIN, header_magic, sizeof(header_magic));
	if (in.census) {
		in.census_bytes = in.trace_bytes - (size_t)(in.census - data);
		in.trace_bytes -= in.census_bytes;
	}
	return in;
}

void reader_input_pair_census(uint8_t *data, size_t size)
{
	struct reader_input in = reader_input_split(data, size);
	uint8_t *census = data + in.trace_bytes;

	if (in.census_bytes < HEADER_MIN)
		return;
	memcpy(census + PROCESS_ID, data + PROCESS_ID, PROCESS_ID_BYTES);
	memcpy(census + IMAGE_START, data + IMAGE_START, IMAGE_START_BYTES);
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
	size_t used = 0, bytes, files = in.trace_bytes + in.census_bytes, behind = size - files;
	uint8_t *out = malloc(max_size);
	bool changed = false;

	for (size_t at = 0; out && at < files; at += bytes) {
		bytes = frame_bytes(data + at, files - at);
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
		memcpy(out + used, data + files, behind);
		size = used + behind;
		memcpy(data, out, size);
	}
	free(out);
	return size;
}

/* ---- ring files ------------------------------------------------------------------------------- */

/* Where the parts of an input's ring file lie in it; what it has no room for is left out. */
struct ring_layout {
	size_t definition_bytes, ring_bytes, nr_rings;
	uint32_t capacity;
};

static struct ring_layout ring_layout(const uint8_t *ring, size_t size)
{
	struct ring_layout l = { 0 };

	if (size < STATUS_USED)
		return l;
	l.capacity = ring[56] == 16 ? 16 : ring[56] == 8 ? 8 : 4;
	l.definition_bytes = ring[33] == 4 ? 1024 : ring[33] == 2 ? 512 : 256;
	if (l.definition_bytes > size - STATUS_USED)
		return (struct ring_layout){ 0 };
	l.ring_bytes = RING_USED + (size_t)l.capacity * RECORD_BYTES;
	l.nr_rings = (size - STATUS_USED - l.definition_bytes) / l.ring_bytes;
	return l;
}

static void put_bytes(uint8_t *p, uint64_t value, unsigned nr)
{
	for (unsigned i = 0; i < nr; i++)
		p[i] = (uint8_t)(value >> 8 * i);
}

static uint64_t u64_at(const uint8_t *p)
{
	return u32_at(p) | (uint64_t)u32_at(p + 4) << 32;
}

static uint64_t step(uint64_t check, uint64_t a, uint64_t b)
{
	check += a;
	return ((check << 29 | check >> 35) ^ b) * 0x9e3779b97f4a7c15u;
}

/* `valid` of a record at a position, in version 2. */
static uint32_t record_check(const uint8_t *r, uint64_t position)
{
	uint64_t check = position + 1;

	for (unsigned i = 0; i < 6; i += 2)
		check = step(check, u64_at(r + 8 * i), u64_at(r + 8 * i + 8));
	return (uint32_t)(step(check, u64_at(r + 48), u32_at(r + 56)) >> 32);
}

/* The checks of the entries that lie one after another from the beginning of the definition ring on. */
static void check_definitions(uint8_t *area, size_t bytes)
{
	size_t at = 0, payload;

	for (unsigned i = 0; i < ENTRIES_MAX && at + ENTRY_BYTES <= bytes; i++) {
		payload = u32_at(area + at + 4);
		if (payload > bytes - at - ENTRY_BYTES)
			return;
		put_bytes(area + at + 24,
			  XXH64(area + at + ENTRY_BYTES, payload, XXH64(area + at, 24, (uint64_t)at)), 8);
		at += ENTRY_BYTES + (payload + 7) / 8 * 8;
	}
}

void reader_input_pair(uint8_t *data, size_t size)
{
	struct reader_input in = reader_input_split(data, size);
	struct ring_layout l = ring_layout(in.ring, in.ring_bytes);
	bool checks = in.ring_bytes > 8 && in.ring[8] != 1;
	uint8_t *ring = data + in.trace_bytes + in.census_bytes, *at = ring + STATUS_USED + l.definition_bytes;

	if (!l.capacity || in.trace_bytes < HEADER_MIN)
		return;
	memcpy(ring, "VVTRING1", 8);
	put_bytes(ring + 8, checks ? 2 : 1, 4);
	if (checks)
		check_definitions(ring + STATUS_USED, l.definition_bytes);
	memcpy(ring + 12, data + PROCESS_ID, PROCESS_ID_BYTES);
	memcpy(ring + 16, data + IMAGE_START, IMAGE_START_BYTES);
	put_bytes(ring + 24, PAGE, 8);
	put_bytes(ring + 32, l.definition_bytes, 8);
	put_bytes(ring + 40, PAGE + l.definition_bytes, 8);
	put_bytes(ring + 48, PAGE + (uint64_t)l.capacity * RECORD_BYTES, 8);
	put_bytes(ring + 56, l.capacity, 4);
	put_bytes(ring + 60, l.nr_rings, 4);
	for (size_t i = 0; i < l.nr_rings; i++, at += l.ring_bytes) {
		uint32_t head = u32_at(at), first = head > l.capacity ? head - l.capacity : 0;

		for (uint32_t p = first; p != head; p++) {
			uint8_t *r = at + RING_USED + p % l.capacity * RECORD_BYTES;

			put_bytes(r + RECORD_BYTES - 4, checks ? record_check(r, p) : p + 1, 4);
		}
	}
}

/* The ring file with its pages, in memory; the caller frees it. */
static uint8_t *ring_file(const uint8_t *ring, size_t size, size_t *bytes)
{
	struct ring_layout l = ring_layout(ring, size);
	const uint8_t *from = ring + STATUS_USED;
	uint8_t *file, *to;

	*bytes = PAGE + l.definition_bytes + l.nr_rings * (PAGE - RING_USED + l.ring_bytes);
	file = calloc(1, *bytes);
	memcpy(file, ring, size < STATUS_USED ? size : STATUS_USED);
	put_bytes(file + STATUS_USED, XXH64(file + 8, 52, 0), 8);
	to = file + PAGE;
	memcpy(to, from, l.definition_bytes);
	from += l.definition_bytes;
	to += l.definition_bytes;
	for (size_t i = 0; i < l.nr_rings; i++) {
		memcpy(to, from, RING_PAIR);
		memcpy(to + 64, from + RING_PAIR, RING_PAIR);
		memcpy(to + 128, from + 2 * RING_PAIR, RING_PAIR);
		put_bytes(to + 136, step(1, u32_at(to + 128), 0) >> 32, 4);
		memcpy(to + PAGE, from + RING_USED, l.ring_bytes - RING_USED);
		from += l.ring_bytes;
		to += PAGE + l.ring_bytes - RING_USED;
	}
	return file;
}

/* ---- mutations and files ------------------------------------------------------------------------ */

size_t reader_input_mutate(uint8_t *data, size_t size, size_t max_size, unsigned seed,
			   size_t (*mutate)(uint8_t *data, size_t size, size_t max_size))
{
	struct reader_input in;

	size = mutate(data, reader_input_expand(data, size, max_size), max_size);
	if (seed / 32 % 8)
		reader_input_pair_census(data, size);
	in = reader_input_split(data, size);
	if (seed % 8) { /* now and then a wrong checksum is the point */
		reader_input_seal(data, in.trace_bytes);
		reader_input_seal(data + in.trace_bytes, in.census_bytes);
	}
	if (seed / 8 % 4)
		reader_input_pair(data, size);
	return size;
}

static void store(const char *path, const uint8_t *bytes, size_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0 || write(fd, bytes, size) != (ssize_t)size || close(fd)) {
		perror(path);
		exit(2);
	}
}

static const char *path_of(const char *name, const char *suffix)
{
	static char path[128];

	snprintf(path, sizeof(path), "/dev/shm/fuzz-%s.%d.%s", name, (int)getpid(), suffix);
	return path;
}

static void store_sealed(const char *path, const uint8_t *bytes, size_t size)
{
#ifdef __AFL_COMPILER
	uint8_t *sealed = malloc(size + 1);

	memcpy(sealed, bytes, size);
	reader_input_seal(sealed, size);
	store(path, sealed, size);
	free(sealed);
#else
	store(path, bytes, size);
#endif
}

const char *reader_input_store(const struct reader_input *in, const char *name)
{
	const char *path;

	if (in->ring_bytes) {
		size_t bytes;
		uint8_t *file = ring_file(in->ring, in->ring_bytes, &bytes);

		store(path_of(name, "ring"), file, bytes);
		free(file);
	}
	if (in->census_bytes)
		store_sealed(path_of(name, "1.names"), in->census, in->census_bytes);
	path = path_of(name, "vtr");
	store_sealed(path, in->trace, in->trace_bytes);
	return path;
}

void reader_input_remove(const struct reader_input *in, const char *name)
{
	unlink(path_of(name, "vtr"));
	if (in->census_bytes)
		unlink(path_of(name, "1.names"));
	if (in->ring_bytes)
		unlink(path_of(name, "ring"));
}
