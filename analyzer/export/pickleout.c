/* SPDX-License-Identifier: MIT */
/* Opcodes of pickles. */
#include "analyzer/export/pickleout.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/export/utf8text.h"

enum { PROTO = 0x80, BININT1 = 'K', BININT2 = 'M', BININT = 'J', LONG1 = 0x8a, BINUNICODE = 'X', LONG_BINPUT = 'r',
       BINGET = 'h', LONG_BINGET = 'j' };

void pickleout_begin(struct pickleout *p)
{
	putc_unlocked(PROTO, p->out);
	putc_unlocked(4, p->out);
}

/* An opcode with a number of so many bytes, the lowest first. */
static void put(struct pickleout *p, uint8_t op, uint64_t value, size_t nr)
{
	uint8_t bytes[16] = { op };

	for (size_t i = 0; i < nr; i++)
		bytes[1 + i] = i < 8 ? (uint8_t)(value >> 8 * i) : 0;
	fwrite_unlocked(bytes, 1, 1 + nr, p->out);
}

/* LONG1 is signed: there must be room for the sign. */
static void put_long(struct pickleout *p, uint64_t value)
{
	size_t nr = 5;

	while (nr < 9 && value >> (8 * nr - 1))
		nr++;
	putc_unlocked(LONG1, p->out);
	put(p, (uint8_t)nr, value, nr);
}

void pickleout_number(struct pickleout *p, uint64_t value)
{
	if (value <= UINT8_MAX)
		put(p, BININT1, value, 1);
	else if (value <= UINT16_MAX)
		put(p, BININT2, value, 2);
	else if (value <= INT32_MAX)
		put(p, BININT, value, 4);
	else
		put_long(p, value);
}

void pickleout_text(struct pickleout *p, const char *text)
{
	size_t len = strlen(text);
	char *clean = memcpy(heap_alloc(len + 1, 1), text, len);

	utf8text_clean(clean, len);
	put(p, BINUNICODE, len, 4);
	fwrite_unlocked(clean, 1, len, p->out);
	free(clean);
}

uint32_t pickleout_keep(struct pickleout *p)
{
	put(p, LONG_BINPUT, ++p->nr_memo, 4);
	return p->nr_memo;
}

void pickleout_get(struct pickleout *p, uint32_t number)
{
	if (number <= UINT8_MAX)
		put(p, BINGET, number, 1);
	else
		put(p, LONG_BINGET, number, 4);
}
