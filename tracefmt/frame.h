/* SPDX-License-Identifier: MIT */
/*
 * The fixed part of a frame header, and the file header: sizes, kinds and checksums. Internal to tracefmt.
 */
#ifndef TFMT_FRAME_H
#define TFMT_FRAME_H

#include "tracefmt/tracefmt.h"

/* The first bytes of a frame: not ASCII, not UTF-8, and the same byte order on every machine. */
#define TFMT_FRAME_MAGIC "\xb6VF\xe9"
#define TFMT_FRAME_MAGIC_BYTES 4
#define TFMT_FRAME_CORE 32 /* bytes of the fixed part */
#define TFMT_FRAME_MAX (0xffffu + TFMT_FRAME_RAW_MAX)

enum tfmt_frame_type {
	TFMT_TYPE_EVENTS = 1,
	TFMT_TYPE_DEFINITIONS = 2,
	TFMT_TYPE_END = 3,
	TFMT_TYPE_CHECKPOINT = 4,
	TFMT_TYPE_INDEX = 5,
};

enum tfmt_compression { TFMT_COMPRESSION_NONE = 0, TFMT_COMPRESSION_ZSTD = 1 };

struct tfmt_frame_core {
	uint8_t type;
	uint8_t compression;
	uint16_t header_bytes; /* fixed part and fields */
	uint32_t sequence;
	uint32_t stored_bytes; /* payload as it lies in the file */
	uint32_t raw_bytes;    /* payload uncompressed */
	uint32_t nr_records;
};

/* Write the fixed part at frame, in front of its fields and payload, and seal all of it with a checksum. */
void tfmt_frame_seal(uint8_t *frame, const struct tfmt_frame_core *core);

/* What tfmt_frame_check() found at some bytes. */
enum tfmt_frame_state {
	TFMT_FRAME_GOOD,
	TFMT_FRAME_SHORT, /* may be the beginning of a frame, but the bytes end too early */
	TFMT_FRAME_BAD,
};

/* Look at available bytes; *core is filled if the frame is good. */
enum tfmt_frame_state tfmt_frame_check(const uint8_t *bytes, size_t available, struct tfmt_frame_core *core);

/* Read len bytes of a file from an offset on. Returns 0, or TFMT_E_IO with errno set (EIO: it ends there). */
int tfmt_read_at(int fd, uint8_t *to, size_t len, uint64_t offset);

/* Write len bytes to a file from an offset on. Returns 0, or TFMT_E_IO with errno set: then some may be written. */
int tfmt_write_at(int fd, const uint8_t *from, size_t len, uint64_t offset);

/* XXH64 of the bytes of a header, or of a frame, but for the 8 in which it is stored, at this place. */
uint64_t tfmt_checksum(const uint8_t *p, size_t bytes, size_t place);

/* Bytes of the largest file header. */
#define TFMT_HEADER_MAX 4096

/* Write the file header at p (TFMT_HEADER_MAX bytes); returns its length. */
size_t tfmt_header_put(uint8_t *p, const struct tfmt_header *h);

/*
 * Read the file header from the file's first `available` bytes; *bytes becomes its length. Returns 0, or
 * TFMT_E_EMPTY, _NOT_TRACE, _VERSION, _CUT, _DAMAGED or _FEATURE (*h is filled) with *offset = the first byte not
 * understood.
 */
int tfmt_header_get(struct tfmt_header *h, const uint8_t *p, size_t available, size_t *bytes,
		    uint64_t *offset);

#endif
