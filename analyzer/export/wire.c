/* SPDX-License-Identifier: MIT */
/* What of the wire format is not done for each event. */
#include "analyzer/export/wire.h"

#include <stdlib.h>

#include "analyzer/base/term.h"

void wire_text(struct wire *w, uint32_t field, const char *text)
{
	size_t len = strlen(text), at;
	uint32_t point;

	wire_bytes(w, field, text, len);
	for (size_t i = 0; i < len;) {
		int nr = (unsigned char)text[i] < 0x80 ? 1 : term_decode_utf8(text + i, len - i, &point);

		at = w->nr_bytes - len + i;
		if (!nr)
			w->byte[at] = '?';
		i += nr ? (size_t)nr : 1;
	}
}

void wire_release(struct wire *w)
{
	free(w->byte);
	*w = (struct wire){ 0 };
}
