/* SPDX-License-Identifier: MIT */
/* Opcodes of pickles. */
#include "analyzer/export/pickle.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/export/utf8text.h"

enum { PROTO = 0x80, BININT1 = 'K', BININT2 = 'M', BININT = 'J', LONG1 = 0x8a, BINUNICODE = 'X', LONG_BINPUT = 'r',
       BINGET = 'h', LONG_BINGET = 'j' };

void pickle_begin(struct pickle *p)
{
	putc_unlocked(PROTO, p->out);
	putc_unlocked(4, p->out);
}

/* An opcode with a number of so many bytes, the lowest first. */
static void put(struct pickle *p, uint8_t op, uint64_t value, size_t nr)
{
	uint8_t bytes[16] = { op };

	for (size_t i = 0; i < nr; i++)
		bytes[1 + i] = i < 8 ? (uint8_t)(value >> 8 * i) : 0;
	fwrite_unlocked(bytes, 1, 1 + nr, p->out);
}

/* LONG1 is signed: there must be room for the sign. */
static void put_long(struct pickle *p, uint64_t value)
{
	size_t nr = 5;

	while (nr < 9 && value >> (8 * nr - 1))
		nr++;
	putc_unlocked(LONG1, p->out);
	put(p, (uint8_t)nr, value, nr);
}

void pickle_number(struct pickle *p, uint64_t value)
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

void pickle_text(struct pickle *p, const char *text)
{
	size_t len = strlen(text);
	char *clean = memcpy(heap_alloc(len + 1, 1), text, len);

	utf8text_clean(clean, len);
	put(p, BINUNICODE, len, 4);
	fwrite_unlocked(clean, 1, len, p->out);
	free(clean);
}

uint32_t pickle_keep(struct pickle *p)
{
	put(p, LONG_BINPUT, ++p->nr_memo, 4);
	return p->nr_memo;
}

void pickle_get(struct pickle *p, uint32_t number)
{
	if (number <= UINT8_MAX)
		put(p, BINGET, number, 1);
	else
		put(p, LONG_BINGET, number, 4);
}
