/* SPDX-License-Identifier: MIT */
/* One set of calls, three renderings. */
#include "analyzer/ui/emit.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/base/human.h"
#include "analyzer/base/message.h"
#include "analyzer/command.h"
#include "analyzer/ui/jsonout.h"
#include "analyzer/ui/table.h"
#include "analyzer/ui/textout.h"

#define SCREEN_COLUMNS 80

enum format { TEXT, JSON, CSV };

struct emit {
	FILE *out;
	enum format format;
	bool raw, colored;
	bool is_stream; /* records without a top object */

	struct jsonout json;

	struct textout text;
	unsigned depth;  /* open objects and arrays */
	uint64_t titled; /* bit d: the scope at depth d has a title and is indented */

	struct table *table;               /* open table, text and CSV only */
	const struct emit_column *columns; /* of the open table, any format */
	bool in_row;
	unsigned row_depth; /* scopes open inside the row */
	unsigned nr_tables;
};

struct emit *emit_open(FILE *out, const struct emit_opts *opts, const char *schema)
{
	struct emit *e = heap_need(calloc(1, sizeof(*e)));

	e->out = out;
	e->format = opts->json ? JSON : opts->csv ? CSV : TEXT;
	e->raw = opts->raw;
	e->colored = e->format == TEXT && term_wants_color(out, opts->color);
	e->is_stream = !schema;
	e->text.out = out;
	e->text.colored = e->colored;
	e->json.out = out;
	if (e->format == JSON && schema) {
		jsonout_begin(&e->json, NULL, '{');
		jsonout_string(&e->json, "schema", schema);
	}
	return e;
}

bool emit_is_text(const struct emit *e)
{
	return e->format == TEXT;
}

bool emit_is_json(const struct emit *e)
{
	return e->format == JSON;
}

bool emit_is_csv(const struct emit *e)
{
	return e->format == CSV;
}

bool emit_is_raw(const struct emit *e)
{
	return e->raw;
}

bool emit_is_colored(const struct emit *e)
{
	return e->colored;
}

/* ---- text ------------------------------------------------------------------------------------ */

static void print_line(struct emit *e, enum term_style style, const char *format, va_list args)
{
	char *text;

	if (vasprintf(&text, format, args) < 0)
		heap_need(NULL);
	if (e->in_row) {
		term_make_printable(text, e->colored);
		table_add_line(e->table, text);
	} else {
		textout_line(&e->text, style, text);
	}
	free(text);
}

int emit_text_columns(const struct emit *e)
{
	return SCREEN_COLUMNS - e->text.indent - (e->in_row ? TABLE_LINE_INDENT : 0);
}

void emit_text(struct emit *e, const char *format, ...)
{
	va_list args;

	if (e->format != TEXT || e->row_depth)
		return;
	va_start(args, format);
	print_line(e, TERM_PLAIN, format, args);
	va_end(args);
}

void emit_heading(struct emit *e, const char *format, ...)
{
	va_list args;

	if (e->format != TEXT || e->in_row)
		return;
	va_start(args, format);
	print_line(e, TERM_BOLD, format, args);
	va_end(args);
}

int emit_wider(int width, const char *text)
{
	int n = (int)strlen(text);

	return n > width ? n : width;
}

void emit_blank(struct emit *e)
{
	if (e->format != TEXT || e->in_row)
		return;
	textout_flush(&e->text);
	putc('\n', e->out);
}

/* ---- nesting --------------------------------------------------------------------------------- */

static void begin_scope(struct emit *e, const char *key, const char *title, char bracket)
{
	if (e->format == JSON)
		jsonout_begin(&e->json, key, bracket);
	if (e->in_row) {
		e->row_depth++;
		return;
	}
	e->depth++;
	if (e->format != TEXT || !title)
		return;
	emit_heading(e, "%s", title);
	e->titled |= 1ull << e->depth;
	e->text.indent += 2;
}

static void end_scope(struct emit *e)
{
	if (e->format == JSON)
		jsonout_end(&e->json);
	if (e->in_row) {
		e->row_depth--;
		return;
	}
	if (e->titled & 1ull << e->depth) {
		textout_flush(&e->text);
		e->titled &= ~(1ull << e->depth);
		e->text.indent -= 2;
	}
	e->depth--;
}

void emit_object_begin(struct emit *e, const char *key, const char *title)
{
	begin_scope(e, key, title, '{');
}

void emit_object_end(struct emit *e)
{
	end_scope(e);
}

void emit_array_begin(struct emit *e, const char *key, const char *title)
{
	begin_scope(e, key, title, '[');
}

void emit_array_end(struct emit *e)
{
	end_scope(e);
}

void emit_record_begin(struct emit *e)
{
	if (e->format != JSON)
		return;
	e->json.compact = true;
	jsonout_begin(&e->json, NULL, '{');
}

void emit_record_end(struct emit *e)
{
	if (e->format != JSON)
		return;
	jsonout_end(&e->json);
	e->json.compact = false;
}

/* ---- values ---------------------------------------------------------------------------------- */

static const struct emit_column *find_column(const struct emit *e, const char *key)
{
	for (const struct emit_column *c = e->columns; c && key && c->key; c++) {
		if (!strcmp(c->key, key))
			return c;
	}
	return NULL;
}

static bool wants_json(const struct emit *e, const char *key)
{
	const struct emit_column *c;

	if (e->format != JSON || (!key && !jsonout_in_array(&e->json)))
		return false;
	c = e->in_row && !e->row_depth ? find_column(e, key) : NULL;
	return !c || !c->text_only;
}

static void set_cell(struct emit *e, const char *key, const char *text)
{
	int column = e->row_depth ? -1 : table_column(e->table, key);
	char *copy;

	if (column < 0)
		return;
	if (e->format == CSV) {
		table_set_cell(e->table, column, text);
		return;
	}
	copy = heap_need(strdup(text));
	term_make_printable(copy, e->colored);
	table_set_cell(e->table, column, copy);
	free(copy);
}

/* `exact` is the value for programs, `human` for people. */
static void show(struct emit *e, const char *key, const char *label, const char *exact, const char *human)
{
	const char *text = e->raw ? exact : human;

	if (e->format == JSON)
		return;
	if (e->in_row)
		set_cell(e, key, e->format == CSV ? exact : text);
	else if (e->format == TEXT && label)
		textout_pair(&e->text, label, text);
}

static void value(struct emit *e, const char *key, const char *label, const char *exact, const char *human)
{
	if (wants_json(e, key))
		jsonout_value(&e->json, key, exact);
	show(e, key, label, exact, human);
}

void emit_string(struct emit *e, const char *key, const char *label, const char *text)
{
	if (wants_json(e, key))
		jsonout_string(&e->json, key, text);
	show(e, key, label, text ? text : e->format == CSV ? "" : "-", text ? text : "-");
}

void emit_uint(struct emit *e, const char *key, const char *label, uint64_t n)
{
	char exact[24], human[HUMAN_MAX];

	snprintf(exact, sizeof(exact), "%" PRIu64, n);
	value(e, key, label, exact, human_count(human, n));
}

void emit_int(struct emit *e, const char *key, const char *label, int64_t n)
{
	char exact[24];

	snprintf(exact, sizeof(exact), "%" PRId64, n);
	value(e, key, label, exact, exact);
}

void emit_double(struct emit *e, const char *key, const char *label, double n)
{
	char exact[40], human[40];

	if (!isfinite(n)) {
		emit_null(e, key, label);
		return;
	}
	/* The shortest of the three that reads back as the same number. */
	for (int digits = 15; digits <= 17; digits++) {
		snprintf(exact, sizeof(exact), "%.*g", digits, n);
		if (strtod(exact, NULL) == n)
			break;
	}
	snprintf(human, sizeof(human), "%.4g", n);
	value(e, key, label, exact, human);
}

void emit_bool(struct emit *e, const char *key, const char *label, bool yes)
{
	if (wants_json(e, key))
		jsonout_value(&e->json, key, yes ? "true" : "false");
	show(e, key, label, e->format == TEXT ? (yes ? "yes" : "no") : (yes ? "true" : "false"),
	     yes ? "yes" : "no");
}

void emit_bytes(struct emit *e, const char *key, const char *label, uint64_t bytes)
{
	char exact[24], human[HUMAN_MAX];

	snprintf(exact, sizeof(exact), "%" PRIu64, bytes);
	value(e, key, label, exact, human_bytes(human, bytes));
}

void emit_signed_bytes(struct emit *e, const char *key, const char *label, int64_t bytes)
{
	char exact[24], human[HUMAN_MAX];

	snprintf(exact, sizeof(exact), "%" PRId64, bytes);
	value(e, key, label, exact, human_signed_bytes(human, bytes));
}

void emit_ns(struct emit *e, const char *key, const char *label, uint64_t ns)
{
	char exact[24], human[HUMAN_MAX];

	snprintf(exact, sizeof(exact), "%" PRIu64, ns);
	value(e, key, label, exact, human_ns(human, ns));
}

void emit_unix_ns(struct emit *e, const char *key, const char *label, uint64_t ns)
{
	char exact[24], human[HUMAN_MAX];

	snprintf(exact, sizeof(exact), "%" PRIu64, ns);
	value(e, key, label, exact, human_unix_ns(human, ns));
}

void emit_null(struct emit *e, const char *key, const char *label)
{
	if (wants_json(e, key))
		jsonout_value(&e->json, key, "null");
	show(e, key, label, e->format == CSV ? "" : "-", "-");
}

void emit_label(struct emit *e, const char *key, const char *label, const char *format, ...)
{
	va_list args;
	char *text;
	int n;

	if (e->format != TEXT)
		return;
	va_start(args, format);
	n = vasprintf(&text, format, args);
	va_end(args);
	if (n < 0)
		heap_need(NULL);
	show(e, key, label, text, text);
	free(text);
}

/* ---- tables ---------------------------------------------------------------------------------- */

void emit_table_begin(struct emit *e, const char *key, const struct emit_column *columns)
{
	e->columns = columns;
	if (e->format == JSON) {
		jsonout_begin(&e->json, key, '[');
		return;
	}
	textout_flush(&e->text);
	e->table = table_new(columns);
	if (e->format == CSV) {
		if (e->nr_tables++)
			putc('\n', e->out);
		table_print_csv_header(e->table, e->out);
	}
}

void emit_row_begin(struct emit *e)
{
	if (e->format == JSON)
		jsonout_begin(&e->json, NULL, '{');
	else
		table_add_row(e->table);
	e->in_row = true;
}

void emit_row_end(struct emit *e)
{
	if (e->format == JSON)
		jsonout_end(&e->json);
	else if (e->format == CSV)
		table_print_csv_row(e->table, e->out);
	e->in_row = false;
}

void emit_table_end(struct emit *e)
{
	e->columns = NULL;
	if (e->format == JSON) {
		jsonout_end(&e->json);
		return;
	}
	if (e->format == TEXT)
		table_print_text(e->table, e->out, e->text.indent, e->colored);
	table_free(e->table);
	e->table = NULL;
}

/* ---- the end --------------------------------------------------------------------------------- */

/* Close scopes until `depth` are left. An open table or row goes with them. */
static void unwind(struct emit *e, unsigned depth)
{
	if (e->format == JSON) {
		while (e->json.depth > depth)
			jsonout_end(&e->json);
		e->json.compact = false;
		return;
	}
	e->in_row = false;
	if (e->table)
		emit_table_end(e);
	textout_flush(&e->text);
}

int emit_close(struct emit *e)
{
	int status;

	unwind(e, 0);
	status = fflush(e->out) || ferror(e->out) ? CMD_TROUBLE : CMD_FINE;
	textout_release(&e->text);
	free(e);
	return status;
}

int emit_fail(struct emit *e, const char *format, ...)
{
	char text[2048];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	unwind(e, e->is_stream ? 0 : 1);
	if (e->format == JSON) {
		if (e->is_stream)
			emit_record_begin(e);
		jsonout_string(&e->json, "error", text);
	}
	emit_close(e);
	return message_error("%s", text);
}
