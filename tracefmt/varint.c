/* SPDX-License-Identifier: MIT */
/* Varints, zigzag and strings as bytes. */
#include "tracefmt/varint.h"
#include "tracefmt/tracefmt.h"

uint8_t *tfmt_put_varint(uint8_t *p, uint64_t value)
{
	return tfmt_varint_put(p, value);
}

uint8_t *tfmt_put_zigzag(uint8_t *p, int64_t value)
{
	return tfmt_varint_put(p, tfmt_zigzag(value));
}

uint8_t *tfmt_put_string(uint8_t *p, const char *s, size_t len)
{
	p = tfmt_varint_put(p, len);
	if (len)
		memcpy(p, s, len);
	return p + len;
}

uint64_t tfmt_varint_get_long(struct tfmt_cursor *c)
{
	uint64_t value = 0;
	unsigned shift = 0;

	while (c->p < c->end && shift < 64) {
		uint8_t byte = *c->p++;

		if (shift == 63 && byte > 1)
			break;
		value |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80)
			return value;
		shift += 7;
	}
	c->bad = true;
	c->p = c->end;
	return 0;
}

uint32_t tfmt_varint_get32(struct tfmt_cursor *c)
{
	uint64_t value = tfmt_varint_get(c);

	if (value > UINT32_MAX) {
		c->bad = true;
		return 0;
	}
	return (uint32_t)value;
}

const uint8_t *tfmt_bytes_get(struct tfmt_cursor *c, uint64_t len)
{
	const uint8_t *p = c->p;

	if (c->bad || len > (uint64_t)(c->end - p)) {
		c->bad = true;
		return NULL;
	}
	c->p += len;
	return p;
}

bool tfmt_string_get(struct tfmt_cursor *c, const uint8_t **s, size_t *len)
{
	uint64_t n = tfmt_varint_get(c);

	*s = tfmt_bytes_get(c, n);
	*len = *s ? (size_t)n : 0;
	return *s != NULL;
}
