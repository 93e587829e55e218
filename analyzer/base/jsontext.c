/* SPDX-License-Identifier: MIT */
/* Escaping for JSON, one code point after the other. */
#include "analyzer/base/jsontext.h"

#include <stdint.h>
#include <string.h>

#include "analyzer/base/term.h"

static void write_ascii(FILE *out, char c)
{
	static const char named[] = "\"\\\n\r\t", letters[] = "\"\\nrt";
	const char *found = c ? strchr(named, c) : NULL;

	if (found)
		fprintf(out, "\\%c", letters[found - named]);
	else if ((unsigned char)c < 0x20 || c == 0x7f)
		fprintf(out, "\\u%04x", (unsigned)c);
	else
		putc_unlocked(c, out);
}

void jsontext_write(FILE *out, const char *text)
{
	size_t left = text ? strlen(text) : 0;

	if (!text) {
		fputs("null", out);
		return;
	}
	putc_unlocked('"', out);
	while (left) {
		uint32_t point;
		int len = (unsigned char)*text < 0x80 ? 1 : term_decode_utf8(text, left, &point);

		if (len == 1)
			write_ascii(out, *text);
		else if (len)
			fwrite_unlocked(text, 1, (size_t)len, out);
		else
			fputs("\\ufffd", out);
		text += len ? len : 1;
		left -= (size_t)(len ? len : 1);
	}
	putc_unlocked('"', out);
}
