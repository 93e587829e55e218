/* SPDX-License-Identifier: MIT */
/* Compressing, and the page around it. */
#include "analyzer/picture/webpage.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "analyzer/base/heap.h"

#define GZIP_WINDOW (15 + 16) /* zlib's way to say gzip */

/* The page before the data and after it: the build has joined the files of page/ (picture.mk). */
__asm__(".pushsection .rodata\n"
	".global webpage_before\nwebpage_before:\n.incbin \"" PAGE_BEFORE "\"\n"
	".global webpage_before_end\nwebpage_before_end:\n"
	".global webpage_after\nwebpage_after:\n.incbin \"" PAGE_AFTER "\"\n"
	".global webpage_after_end\nwebpage_after_end:\n"
	".popsection\n");
extern const char webpage_before[], webpage_before_end[], webpage_after[], webpage_after_end[];

static unsigned char *compress_text(const char *text, size_t len, size_t *packed_len)
{
	z_stream z = { 0 };
	unsigned char *packed;
	size_t room;

	if (deflateInit2(&z, 6, Z_DEFLATED, GZIP_WINDOW, 9, Z_DEFAULT_STRATEGY) != Z_OK)
		heap_need(NULL);
	room = deflateBound(&z, len);
	packed = heap_alloc(room, 1);
	z.next_in = (z_const Bytef *)(uintptr_t)text;
	z.next_out = packed;
	*packed_len = 0;
	/* zlib counts what it is given in 32 bits. */
	while (len || z.avail_in) {
		uInt part = len < (1u << 30) ? (uInt)len : 1u << 30;

		z.avail_in = part;
		len -= part;
		z.avail_out = room - z.total_out < UINT32_MAX ? (uInt)(room - z.total_out) : UINT32_MAX;
		deflate(&z, len ? Z_NO_FLUSH : Z_FINISH);
	}
	*packed_len = z.total_out;
	deflateEnd(&z);
	return packed;
}

static char *base64(const unsigned char *from, size_t len, size_t *text_len)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	char *text = heap_alloc(len / 3 * 4 + 4, 1), *to = text;

	for (size_t i = 0; i < len; i += 3) {
		uint32_t bits = (uint32_t)from[i] << 16 | (i + 1 < len ? (uint32_t)from[i + 1] << 8 : 0) |
				(i + 2 < len ? from[i + 2] : 0u);

		*to++ = digits[bits >> 18];
		*to++ = digits[bits >> 12 & 63];
		*to++ = i + 1 < len ? digits[bits >> 6 & 63] : '=';
		*to++ = i + 2 < len ? digits[bits & 63] : '=';
	}
	*text_len = (size_t)(to - text);
	return text;
}

void webpage_pack(struct webpage *w, const char *json, size_t len)
{
	size_t packed_len;
	unsigned char *packed = compress_text(json, len, &packed_len);

	w->data = base64(packed, packed_len, &w->len);
	free(packed);
}

void webpage_release(struct webpage *w)
{
	free(w->data);
	*w = (struct webpage){ 0 };
}

size_t webpage_size(const struct webpage *w)
{
	return (size_t)(webpage_before_end - webpage_before) + w->len + (size_t)(webpage_after_end - webpage_after);
}

void webpage_write(FILE *out, const struct webpage *w)
{
	fwrite(webpage_before, 1, (size_t)(webpage_before_end - webpage_before), out);
	fwrite(w->data, 1, w->len, out);
	fwrite(webpage_after, 1, (size_t)(webpage_after_end - webpage_after), out);
}
