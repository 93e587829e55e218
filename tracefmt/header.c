/* SPDX-License-Identifier: MIT */
/* The file header to bytes and back. */
#include "tracefmt/frame.h"
#include "tracefmt/varint.h"

/*
 * As PNG's: the high bit tells a 7-bit transfer, CR LF and the last LF tell line-end conversion, ^Z ends
 * the file for `type`.
 */
static const uint8_t header_magic[8] = { 0x89, 'V', 'T', 'F', '\r', '\n', 0x1a, '\n' };

/* Offsets of the fixed fields. */
enum {
	HEADER_VERSION = 8,
	HEADER_BYTES = 12,
	HEADER_CHECKSUM = 16,
	HEADER_PID = 24,
	HEADER_TIME_SHIFT = 28,
	HEADER_STORAGE = 29,
	HEADER_SIMULATED = 30,
	HEADER_MUST = 31,
	HEADER_START_MONO = 32,
	HEADER_START_REAL = 40,
	HEADER_IMAGE_START = 48,
	HEADER_TIME_NS = 56,
	HEADER_BOOT_ID = 64,
	HEADER_STRINGS = 80,
};

size_t tfmt_header_put(uint8_t *p, const struct tfmt_header *h)
{
	uint8_t *end = p + HEADER_STRINGS;
	size_t bytes;

	memcpy(p, header_magic, sizeof(header_magic));
	tfmt_put32(p + HEADER_VERSION, TFMT_VERSION);
	tfmt_put32(p + HEADER_PID, h->pid);
	p[HEADER_TIME_SHIFT] = h->time_shift;
	p[HEADER_STORAGE] = h->storage;
	p[HEADER_SIMULATED] = h->simulated;
	p[HEADER_MUST] = h->must;
	tfmt_put64(p + HEADER_START_MONO, h->start_mono_ns);
	tfmt_put64(p + HEADER_START_REAL, h->start_real_ns);
	tfmt_put64(p + HEADER_IMAGE_START, h->image_start_ns);
	tfmt_put64(p + HEADER_TIME_NS, h->time_ns_inode);
	memcpy(p + HEADER_BOOT_ID, h->boot_id, sizeof(h->boot_id));
	end = tfmt_put_string(end, h->host, strnlen(h->host, sizeof(h->host) - 1));
	end = tfmt_put_string(end, h->job, strnlen(h->job, sizeof(h->job) - 1));
	end = tfmt_put_string(end, h->ring_path, strnlen(h->ring_path, sizeof(h->ring_path) - 1));
	end = tfmt_put_string(end, h->recorder, strnlen(h->recorder, sizeof(h->recorder) - 1));
	end = tfmt_put_string(end, h->commit, strnlen(h->commit, sizeof(h->commit) - 1));
	bytes = (size_t)(end - p);
	tfmt_put32(p + HEADER_BYTES, (uint32_t)bytes);
	tfmt_put64(p + HEADER_CHECKSUM, tfmt_checksum(p, bytes, HEADER_CHECKSUM));
	return bytes;
}

static void header_string(char *to, size_t room, struct tfmt_cursor *c)
{
	const uint8_t *s;
	size_t len;

	if (!tfmt_string_get(c, &s, &len))
		return;
	if (len >= room) {
		c->bad = true;
		return;
	}
	memcpy(to, s, len);
}

static bool header_fields(struct tfmt_header *h, const uint8_t *p, size_t bytes)
{
	struct tfmt_cursor c = { p + HEADER_STRINGS, p + bytes, false };

	memset(h, 0, sizeof(*h));
	h->version = tfmt_get32(p + HEADER_VERSION);
	h->pid = tfmt_get32(p + HEADER_PID);
	h->time_shift = p[HEADER_TIME_SHIFT];
	h->storage = p[HEADER_STORAGE];
	h->simulated = p[HEADER_SIMULATED];
	h->must = p[HEADER_MUST];
	h->start_mono_ns = tfmt_get64(p + HEADER_START_MONO);
	h->start_real_ns = tfmt_get64(p + HEADER_START_REAL);
	h->image_start_ns = tfmt_get64(p + HEADER_IMAGE_START);
	h->time_ns_inode = tfmt_get64(p + HEADER_TIME_NS);
	memcpy(h->boot_id, p + HEADER_BOOT_ID, sizeof(h->boot_id));
	header_string(h->host, sizeof(h->host), &c);
	header_string(h->job, sizeof(h->job), &c);
	header_string(h->ring_path, sizeof(h->ring_path), &c);
	if (c.p < c.end) { /* older recorders did not tell these */
		header_string(h->recorder, sizeof(h->recorder), &c);
		header_string(h->commit, sizeof(h->commit), &c);
	}
	return !c.bad && h->time_shift < 32;
}

int tfmt_header_get(struct tfmt_header *h, const uint8_t *p, size_t available, size_t *bytes,
		    uint64_t *offset)
{
	size_t i;

	*offset = 0;
	if (!available)
		return TFMT_E_EMPTY;
	for (i = 0; i < sizeof(header_magic) && i < available; i++) {
		if (p[i] != header_magic[i]) {
			*offset = i;
			return TFMT_E_NOT_TRACE;
		}
	}
	*offset = available;
	if (available < HEADER_PID)
		return TFMT_E_CUT;
	*offset = HEADER_VERSION;
	if (tfmt_get32(p + HEADER_VERSION) != TFMT_VERSION)
		return TFMT_E_VERSION;
	*bytes = tfmt_get32(p + HEADER_BYTES);
	*offset = HEADER_BYTES;
	if (*bytes < HEADER_STRINGS || *bytes > TFMT_HEADER_MAX)
		return TFMT_E_DAMAGED;
	*offset = available;
	if (available < *bytes)
		return TFMT_E_CUT;
	*offset = HEADER_CHECKSUM;
	if (tfmt_get64(p + HEADER_CHECKSUM) != tfmt_checksum(p, *bytes, HEADER_CHECKSUM))
		return TFMT_E_DAMAGED;
	*offset = HEADER_STRINGS;
	if (!header_fields(h, p, *bytes))
		return TFMT_E_DAMAGED;
	*offset = HEADER_MUST;
	return h->must & ~TFMT_MUST_KNOWN ? TFMT_E_FEATURE : 0;
}
