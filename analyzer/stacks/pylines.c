/* SPDX-License-Identifier: MIT */
/* Decoders of CPython's three line tables: co_lnotab, PEP 626 and PEP 657. */
#include "analyzer/stacks/pylines.h"

#define NO_LINE INT64_MIN

/* 3.8, 3.9: pairs (bytes of code, signed change of line); the change applies after those bytes. */
static int64_t lnotab_line(const struct tfmt_code *code, int64_t wanted_byte)
{
	int64_t line = code->first_line, byte = 0;

	for (size_t i = 0; i + 1 < code->table_bytes; i += 2) {
		byte += code->table[i];
		if (byte > wanted_byte)
			break;
		line += (int8_t)code->table[i + 1];
	}
	return line;
}

/* 3.10: pairs (bytes of code, signed change of line); the change applies to those bytes, -128 = no line. */
static int64_t pep626_line(const struct tfmt_code *code, int64_t wanted_byte)
{
	int64_t computed = code->first_line, end = 0;

	for (size_t i = 0; i + 1 < code->table_bytes; i += 2) {
		int8_t delta = (int8_t)code->table[i + 1];

		if (delta != -128)
			computed += delta;
		end += code->table[i];
		if (end > wanted_byte)
			return delta == -128 ? NO_LINE : computed;
	}
	return NO_LINE;
}

/* A byte at a time out of a PEP 657 table; reading past the end gives 0 and sets `ended`. */
struct table_cursor {
	const uint8_t *at, *end;
	bool ended;
};

static uint8_t cursor_byte(struct table_cursor *c)
{
	if (c->at == c->end) {
		c->ended = true;
		return 0;
	}
	return *c->at++;
}

/* Six bits per byte, low ones first; bit 6 says that more follow. */
static uint64_t cursor_varint(struct table_cursor *c)
{
	uint64_t value = 0;
	uint8_t byte;
	int shift = 0;

	do {
		byte = cursor_byte(c);
		if (shift < 60)
			value |= (uint64_t)(byte & 0x3f) << shift;
		shift += 6;
	} while (byte & 0x40);
	return value;
}

static int64_t cursor_signed(struct table_cursor *c)
{
	uint64_t value = cursor_varint(c);

	return value & 1 ? -(int64_t)(value >> 1) : (int64_t)(value >> 1);
}

/* Read what follows an entry's first byte, columns into *span; returns its change of line. */
static int64_t cursor_delta(struct table_cursor *c, unsigned form, struct pylines_span *span)
{
	uint64_t end_line;
	int64_t delta;
	uint8_t byte;

	*span = (struct pylines_span){ 0 };
	switch (form) {
	case 15: /* no line at all */
		return 0;
	case 14: /* long form: line, end line, columns + 1 */
		delta = cursor_signed(c);
		end_line = cursor_varint(c);
		span->column = (uint32_t)cursor_varint(c) - 1;
		span->end_column = (uint32_t)cursor_varint(c) - 1;
		span->end_line = (uint32_t)end_line;
		span->known = span->column < UINT32_MAX && span->end_column < UINT32_MAX;
		return delta;
	case 13: /* no columns */
		return cursor_signed(c);
	case 10:
	case 11:
	case 12: /* one line, two column bytes */
		span->column = cursor_byte(c);
		span->end_column = cursor_byte(c);
		span->known = true;
		return form - 10;
	default: /* short form: same line, one column byte */
		byte = cursor_byte(c);
		span->column = form << 3 | byte >> 4;
		span->end_column = span->column + (byte & 15);
		span->known = true;
		return 0;
	}
}

/* 3.11 and later: entries of 1 to 8 code units, first byte 1ccccLLL. */
static int64_t pep657_line(const struct tfmt_code *code, int64_t wanted_unit, struct pylines_span *span)
{
	struct table_cursor c = { code->table, code->table + code->table_bytes, false };
	uint64_t line = code->first_line; /* unsigned: a damaged table may overflow it */
	int64_t end = 0;

	while (c.at < c.end) {
		uint8_t first = cursor_byte(&c);
		unsigned form = first >> 3 & 15;

		line += (uint64_t)cursor_delta(&c, form, span);
		end += (first & 7) + 1;
		if (c.ended)
			break;
		if (end > wanted_unit)
			return form == 15 ? NO_LINE : (int64_t)line;
	}
	return NO_LINE;
}

/*
 * The least column of the instructions from a position on that are on a line, or (`wanted` 0) on any but the first. false:
 * there are none.
 */
static bool least_column(const struct tfmt_code *code, int64_t from, int64_t wanted, uint32_t *column)
{
	struct table_cursor c = { code->table, code->table + code->table_bytes, false };
	uint64_t line = code->first_line;
	int64_t end = 0;
	bool found = false;

	while (code->table && code->table_kind == TFMT_LINES_PEP657 && c.at < c.end) {
		uint8_t first = cursor_byte(&c);
		struct pylines_span span;

		line += (uint64_t)cursor_delta(&c, first >> 3 & 15, &span);
		end += (first & 7) + 1;
		if (c.ended)
			break;
		if (end <= from || !span.known || (wanted ? (int64_t)line != wanted : line == code->first_line) ||
		    (found && span.column >= *column))
			continue;
		*column = span.column;
		found = true;
	}
	return found;
}

bool pylines_indentation(const struct tfmt_code *code, int32_t position, uint32_t *column)
{
	return position >= 0 && least_column(code, position, pylines_line(code, position), column);
}

bool pylines_body(const struct tfmt_code *code, uint32_t *column)
{
	return least_column(code, 0, 0, column);
}

bool pylines_span(const struct tfmt_code *code, int32_t position, struct pylines_span *span)
{
	int64_t line;

	*span = (struct pylines_span){ 0 };
	if (position < 0 || !code->table || code->table_kind != TFMT_LINES_PEP657)
		return false;
	line = pep657_line(code, position, span);
	if (line <= 0 || line > UINT32_MAX || !span->known)
		return false;
	span->line = (uint32_t)line;
	span->end_line += span->line;
	return true;
}

uint32_t pylines_line(const struct tfmt_code *code, int32_t position)
{
	struct pylines_span span;
	int64_t line = NO_LINE;

	if (position < 0 || !code->table)
		return code->first_line;
	switch (code->table_kind) {
	case TFMT_LINES_LNOTAB:
		line = lnotab_line(code, 2 * (int64_t)position);
		break;
	case TFMT_LINES_PEP626:
		line = pep626_line(code, 2 * (int64_t)position);
		break;
	case TFMT_LINES_PEP657:
		line = pep657_line(code, position, &span);
		break;
	}
	return line < 0 || line > UINT32_MAX ? code->first_line : (uint32_t)line;
}
