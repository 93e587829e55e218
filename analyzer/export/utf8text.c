/* SPDX-License-Identifier: MIT */
/* Looking for bytes that are no UTF-8. */
#include "analyzer/export/utf8text.h"

#include <stdint.h>

#include "analyzer/base/term.h"

void utf8text_clean(char *text, size_t len)
{
	uint32_t point;

	for (size_t i = 0; i < len;) {
		int nr = (unsigned char)text[i] < 0x80 ? 1 : term_decode_utf8(text + i, len - i, &point);

		if (!nr)
			text[i] = '?';
		i += nr ? (size_t)nr : 1;
	}
}
