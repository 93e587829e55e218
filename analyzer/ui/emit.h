/* SPDX-License-Identifier: MIT */
/*
 * One set of calls, three renderings: text for people, JSON for programs, CSV for spreadsheets.
 *
 * The printer of a command describes its result once, as a JSON document:
 *
 *	struct emit *e = emit_open(stdout, &o.emit, "vramtrace/leaks/2");
 *
 *	emit_heading(e, "live at the end of %s", name);              // text only
 *	emit_bytes(e, "live_bytes", "live at end", bytes);           // JSON key, text label, value
 *	emit_table_begin(e, "groups", leaks_columns);
 *	for (...) {
 *		emit_row_begin(e);
 *		emit_bytes(e, "bytes", NULL, g->bytes);              // fills the column with that key
 *		emit_uint(e, "count", NULL, g->count);
 *		emit_uint(e, "device", NULL, g->device);             // not a column: JSON only
 *		emit_array_begin(e, "frames", NULL);                 // nested in a row: JSON only
 *		emit_string(e, NULL, NULL, frame);
 *		emit_array_end(e);
 *		emit_text(e, "allocated at %s", frame);              // in a row: an indented line below it
 *		emit_row_end(e);
 *	}
 *	emit_table_end(e);
 *	return emit_close(e);
 *
 * Rules
 *   JSON   the top is an object whose first member is "schema". Values need a key inside an object and take
 *          none (NULL) inside an array. Integers are exact. Strings are escaped; what is not UTF-8 becomes
 *          U+FFFD. A double that is not finite becomes null. Two blanks of indentation.
 *   text   a value with a label is a line "label   value", labels of consecutive lines aligned; without a
 *          label it is not shown. Counts have commas, bytes and times are human ("1.50 GiB"); all exact with
 *          --raw. Control characters show as '?', but for colour sequences where output is coloured.
 *   CSV    only tables are printed: a header line of column keys, one line per row, exact numbers; a second
 *          table follows after an empty line. Fields are quoted as RFC 4180 has it.
 *
 * All functions may be called in every format; those that do not apply to it do nothing. Single-threaded.
 * Memory running out ends the process with a message and CMD_TROUBLE.
 */
#ifndef VT_EMIT_H
#define VT_EMIT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "analyzer/base/term.h"

/* What the user asked for; zero is text, colour where it fits. EMIT_OPTIONS gives a command the options. */
struct emit_opts {
	bool json, csv, raw;
	int color; /* enum term_color */
};
#define EMIT_OPTIONS(type, field) \
	OPT_FLAG(0, "json", type, field.json, "print JSON"), \
	OPT_FLAG(0, "csv", type, field.csv, "print the tables as CSV"), EMIT_TEXT_OPTIONS(type, field)
/* The same without CSV: for commands whose result is no table. */
#define EMIT_JSON_OPTIONS(type, field) \
	OPT_FLAG(0, "json", type, field.json, "print JSON"), EMIT_TEXT_OPTIONS(type, field)
#define EMIT_TEXT_OPTIONS(type, field) \
	OPT_FLAG(0, "raw", type, field.raw, "print exact bytes and nanoseconds"), \
	OPT_ENUM(0, "color", type, field.color, term_color_names, "colour the text")

enum emit_align { EMIT_LEFT, EMIT_RIGHT };

/* A column of a table; the array ends with a row whose key is NULL. */
struct emit_column {
	const char *key;  /* JSON and CSV */
	const char *head; /* text; NULL = not shown as text */
	enum emit_align align;
	bool text_only; /* in text, but neither in JSON nor CSV */
};

struct emit;

/* Begin a document. schema NULL: a stream of records (emit_record_begin) without a top object. */
struct emit *emit_open(FILE *out, const struct emit_opts *opts, const char *schema);

/* Close whatever is open, write the end and free. Returns CMD_FINE, or CMD_TROUBLE if `out` failed. */
int emit_close(struct emit *e);

/*
 * End a document with trouble: the message goes to stderr (message_error) and, in JSON, into a member "error"
 * of the top object, so that the document stays valid. Closes and frees. Returns CMD_TROUBLE.
 */
int emit_fail(struct emit *e, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* For printers whose text is no lines and tables (a plot): which format is it, and are there colours? */
bool emit_is_text(const struct emit *e);
bool emit_is_json(const struct emit *e);
bool emit_is_csv(const struct emit *e);
bool emit_is_raw(const struct emit *e);
bool emit_is_colored(const struct emit *e);

/* The larger one of a column's width so far and of how long a text is. */
int emit_wider(int width, const char *text);

/* Nesting. In text, an object or array with a title prints it as a heading and indents its lines. */
void emit_object_begin(struct emit *e, const char *key, const char *title);
void emit_object_end(struct emit *e);
void emit_array_begin(struct emit *e, const char *key, const char *title);
void emit_array_end(struct emit *e);

/* Values. label NULL: JSON only; key NULL inside an object: text only. A NULL string is null, as text "-". */
void emit_string(struct emit *e, const char *key, const char *label, const char *value);
void emit_uint(struct emit *e, const char *key, const char *label, uint64_t value);
void emit_int(struct emit *e, const char *key, const char *label, int64_t value);
void emit_double(struct emit *e, const char *key, const char *label, double value); /* text: %.4g */
void emit_bool(struct emit *e, const char *key, const char *label, bool value);     /* text: yes, no */
void emit_bytes(struct emit *e, const char *key, const char *label, uint64_t bytes);
void emit_signed_bytes(struct emit *e, const char *key, const char *label, int64_t bytes);
void emit_ns(struct emit *e, const char *key, const char *label, uint64_t ns);        /* a duration */
void emit_unix_ns(struct emit *e, const char *key, const char *label, uint64_t ns);   /* a point in time */
void emit_null(struct emit *e, const char *key, const char *label);                   /* text: - */

/* The text of a value whose JSON is emitted apart, without a label. In a row, key names the column. */
void emit_label(struct emit *e, const char *key, const char *label, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* How many columns emit_text() has for a line, so that it ends within 80. */
int emit_text_columns(const struct emit *e);

/* Text only: a line of prose (in a row: an indented line below it), and a bold one. */
void emit_text(struct emit *e, const char *format, ...) __attribute__((format(printf, 2, 3)));
void emit_heading(struct emit *e, const char *format, ...) __attribute__((format(printf, 2, 3)));
void emit_blank(struct emit *e); /* an empty line */

/* Tables: an array of objects in JSON. Rows are held until the table ends, because columns are aligned. */
void emit_table_begin(struct emit *e, const char *key, const struct emit_column *columns);
void emit_row_begin(struct emit *e);
void emit_row_end(struct emit *e);
void emit_table_end(struct emit *e);

/* Records of a stream (dump): JSON: one object on one line; text: the caller prints with emit_text(). */
void emit_record_begin(struct emit *e);
void emit_record_end(struct emit *e);

#endif
