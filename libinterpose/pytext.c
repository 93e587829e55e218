/* SPDX-License-Identifier: MIT */
/* Python's strings as UTF-8. */
#include "pytext.h"

#include <string.h>

struct pytext pytext_of(const struct pylayout *l, const void *str, uint32_t most)
{
	uint32_t state = (uint32_t)py_int(str, PY_STR_STATE);
	int64_t length = py_long(str, PY_STR_LENGTH);
	bool ascii = (state & PYTEXT_PLAIN) == PYTEXT_PLAIN;
	struct pytext t = { .width = (uint8_t)(state >> 2 & 7), .ascii = ascii };

	t.length = length < 0 ? 0 : length > most ? most : (uint32_t)length;
	if (!(state & PYTEXT_COMPACT))
		t.data = py_pointer(str, l->str_wide);
	else
		t.data = (const uint8_t *)str + (ascii ? l->str_ascii : l->str_wide);
	if (!t.data || (t.width != 1 && t.width != 2 && t.width != 4))
		t.length = 0;
	return t;
}

size_t pytext_char(const struct pytext *t, uint32_t i, uint8_t out[4])
{
	uint32_t c = t->width == 1 ? t->data[i] : t->width == 2 ? ((const uint16_t *)t->data)[i] :
								  ((const uint32_t *)t->data)[i];

	if ((c >= 0xd800 && c < 0xe000) || c > 0x10ffff)
		c = 0xfffd;
	if (c < 0x80) {
		out[0] = (uint8_t)c;
		return 1;
	}
	if (c < 0x800) {
		out[0] = (uint8_t)(0xc0 | c >> 6);
		out[1] = (uint8_t)(0x80 | (c & 63));
		return 2;
	}
	if (c < 0x10000) {
		out[0] = (uint8_t)(0xe0 | c >> 12);
		out[1] = (uint8_t)(0x80 | (c >> 6 & 63));
		out[2] = (uint8_t)(0x80 | (c & 63));
		return 3;
	}
	out[0] = (uint8_t)(0xf0 | c >> 18);
	out[1] = (uint8_t)(0x80 | (c >> 12 & 63));
	out[2] = (uint8_t)(0x80 | (c >> 6 & 63));
	out[3] = (uint8_t)(0x80 | (c & 63));
	return 4;
}

size_t pytext_bytes(const struct pytext *t)
{
	size_t n = 0;
	uint8_t c[4];

	if (t->ascii)
		return t->length;
	for (uint32_t i = 0; i < t->length; i++)
		n += pytext_char(t, i, c);
	return n;
}

uint8_t *pytext_put(uint8_t *p, const struct pytext *t)
{
	if (t->ascii) {
		memcpy(p, t->data, t->length);
		return p + t->length;
	}
	for (uint32_t i = 0; i < t->length; i++)
		p += pytext_char(t, i, p);
	return p;
}

bool pytext_is(const struct pylayout *l, const void *str, const char *text)
{
	size_t len = strlen(text);

	return ((uint32_t)py_int(str, PY_STR_STATE) & PYTEXT_PLAIN) == PYTEXT_PLAIN &&
	       py_long(str, PY_STR_LENGTH) == (int64_t)len && !memcmp((const char *)str + l->str_ascii, text, len);
}
