/* SPDX-License-Identifier: MIT */
/* What of the wire format is not done for each event. */
#include "analyzer/export/wire.h"

#include <stdlib.h>

#include "analyzer/export/utf8text.h"

void wire_text(struct wire *w, uint32_t field, const char *text)
{
	size_t len = strlen(text);

	wire_bytes(w, field, text, len);
	utf8text_clean((char *)w->byte + w->nr_bytes - len, len);
}

void wire_release(struct wire *w)
{
	free(w->byte);
	*w = (struct wire){ 0 };
}
