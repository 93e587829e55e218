/* SPDX-License-Identifier: MIT */
/* The fixed part of a frame header and its checksum, and bytes from and to anywhere in a file. */
#include "tracefmt/frame.h"
#include "tracefmt/varint.h"

#include <errno.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* Offsets in the fixed part. */
enum {
	CORE_TYPE = 4,
	CORE_COMPRESSION = 5,
	CORE_HEADER_BYTES = 6,
	CORE_SEQUENCE = 8,
	CORE_STORED_BYTES = 12,
	CORE_RAW_BYTES = 16,
	CORE_NR_RECORDS = 20,
	CORE_CHECKSUM = 24,
};

uint64_t tfmt_checksum(const uint8_t *p, size_t bytes, size_t place)
{
	size_t after = place + sizeof(uint64_t);
	XXH64_state_t state;

	XXH64_reset(&state, 0);
	XXH64_update(&state, p, place);
	XXH64_update(&state, p + after, bytes - after);
	return XXH64_digest(&state);
}

void tfmt_frame_seal(uint8_t *frame, const struct tfmt_frame_core *core)
{
	memcpy(frame, TFMT_FRAME_MAGIC, TFMT_FRAME_MAGIC_BYTES);
	frame[CORE_TYPE] = core->type;
	frame[CORE_COMPRESSION] = core->compression;
	tfmt_put16(frame + CORE_HEADER_BYTES, core->header_bytes);
	tfmt_put32(frame + CORE_SEQUENCE, core->sequence);
	tfmt_put32(frame + CORE_STORED_BYTES, core->stored_bytes);
	tfmt_put32(frame + CORE_RAW_BYTES, core->raw_bytes);
	tfmt_put32(frame + CORE_NR_RECORDS, core->nr_records);
	tfmt_put64(frame + CORE_CHECKSUM,
		   tfmt_checksum(frame, (size_t)core->header_bytes + core->stored_bytes, CORE_CHECKSUM));
}

enum tfmt_frame_state tfmt_frame_check(const uint8_t *bytes, size_t available, struct tfmt_frame_core *core)
{
	size_t magic = available < TFMT_FRAME_MAGIC_BYTES ? available : TFMT_FRAME_MAGIC_BYTES;
	size_t frame_bytes;

	if (memcmp(bytes, TFMT_FRAME_MAGIC, magic))
		return TFMT_FRAME_BAD;
	if (available < TFMT_FRAME_CORE)
		return TFMT_FRAME_SHORT;
	core->type = bytes[CORE_TYPE];
	core->compression = bytes[CORE_COMPRESSION];
	core->header_bytes = tfmt_get16(bytes + CORE_HEADER_BYTES);
	core->sequence = tfmt_get32(bytes + CORE_SEQUENCE);
	core->stored_bytes = tfmt_get32(bytes + CORE_STORED_BYTES);
	core->raw_bytes = tfmt_get32(bytes + CORE_RAW_BYTES);
	core->nr_records = tfmt_get32(bytes + CORE_NR_RECORDS);
	if (core->header_bytes < TFMT_FRAME_CORE || core->raw_bytes > TFMT_FRAME_RAW_MAX ||
	    core->stored_bytes > core->raw_bytes || core->nr_records > TFMT_FRAME_RAW_MAX)
		return TFMT_FRAME_BAD;
	frame_bytes = (size_t)core->header_bytes + core->stored_bytes;
	if (available < frame_bytes)
		return TFMT_FRAME_SHORT;
	if (tfmt_get64(bytes + CORE_CHECKSUM) != tfmt_checksum(bytes, frame_bytes, CORE_CHECKSUM))
		return TFMT_FRAME_BAD;
	return TFMT_FRAME_GOOD;
}

/* Count what a read or write has moved: nothing if a signal came first. Returns 0, or TFMT_E_IO with errno set. */
static int count_moved(ssize_t n, size_t *done)
{
	if (n < 0 && errno == EINTR)
		return 0;
	if (n <= 0) {
		errno = n ? errno : EIO;
		return TFMT_E_IO;
	}
	*done += (size_t)n;
	return 0;
}

int tfmt_read_at(int fd, uint8_t *to, size_t len, uint64_t offset)
{
	size_t done = 0;
	int err = 0;

	while (!err && done < len)
		err = count_moved(pread(fd, to + done, len - done, (off_t)(offset + done)), &done);
	return err;
}

int tfmt_write_at(int fd, const uint8_t *from, size_t len, uint64_t offset)
{
	size_t done = 0;
	int err = 0;

	while (!err && done < len)
		err = count_moved(pwrite(fd, from + done, len - done, (off_t)(offset + done)), &done);
	return err;
}
