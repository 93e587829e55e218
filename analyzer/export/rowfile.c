/* SPDX-License-Identifier: MIT */
/* Rows as CSV or NDJSON. */
#include "analyzer/export/rowfile.h"

#include <string.h>

#include "analyzer/base/jsontext.h"

static void write_text(FILE *out, const char *text)
{
	fwrite_unlocked(text, 1, strlen(text), out);
}

/* What comes before a value. */
static void next_value(struct rowfile *r)
{
	if (r->is_json)
		putc_unlocked(r->nr_values ? ',' : '{', r->out);
	else if (r->nr_values)
		putc_unlocked(',', r->out);
	if (r->is_json) {
		putc_unlocked('"', r->out);
		write_text(r->out, r->column[r->nr_values]);
		fwrite_unlocked("\":", 1, 2, r->out);
	}
	r->nr_values++;
}

void rowfile_begin(const struct rowfile *r)
{
	if (r->is_json)
		return;
	for (unsigned i = 0; r->column[i]; i++) {
		if (i)
			putc_unlocked(',', r->out);
		write_text(r->out, r->column[i]);
	}
	fputs("\n", r->out);
}

static void write_number(FILE *out, uint64_t value)
{
	char digits[20], *at = digits + sizeof(digits);

	do
		*--at = (char)('0' + value % 10);
	while (value /= 10);
	fwrite_unlocked(at, 1, (size_t)(digits + sizeof(digits) - at), out);
}

void rowfile_uint(struct rowfile *r, uint64_t value)
{
	next_value(r);
	write_number(r->out, value);
}

void rowfile_int(struct rowfile *r, int64_t value)
{
	next_value(r);
	if (value < 0)
		putc_unlocked('-', r->out);
	write_number(r->out, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

static void write_field(FILE *out, const char *text)
{
	if (!strpbrk(text, ",\"\r\n")) {
		write_text(out, text);
		return;
	}
	putc_unlocked('"', out);
	for (; *text; text++) {
		if (*text == '"')
			putc_unlocked('"', out);
		putc_unlocked(*text, out);
	}
	putc_unlocked('"', out);
}

void rowfile_text(struct rowfile *r, const char *text)
{
	next_value(r);
	if (r->is_json)
		jsontext_write(r->out, text);
	else if (text)
		write_field(r->out, text);
}

void rowfile_none(struct rowfile *r)
{
	rowfile_text(r, NULL);
}

void rowfile_end(struct rowfile *r)
{
	write_text(r->out, r->is_json ? "}\n" : "\n");
	r->nr_values = 0;
}
