/* SPDX-License-Identifier: MIT */
/* Tables: aligned text and CSV. */
#include "analyzer/ui/table.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"

struct row {
	char **cells; /* one per column, NULL = empty */
	char **lines;
	size_t nr_lines;
};

struct table {
	const struct emit_column *columns;
	int nr_columns;
	struct row *rows;
	size_t nr_rows, room;
};

struct table *table_new(const struct emit_column *columns)
{
	struct table *t = heap_need(calloc(1, sizeof(*t)));

	t->columns = columns;
	while (columns[t->nr_columns].key)
		t->nr_columns++;
	return t;
}

static void row_release(struct row *r, int nr_columns)
{
	for (int i = 0; i < nr_columns; i++)
		free(r->cells[i]);
	for (size_t i = 0; i < r->nr_lines; i++)
		free(r->lines[i]);
	free(r->cells);
	free(r->lines);
}

void table_free(struct table *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->nr_rows; i++)
		row_release(&t->rows[i], t->nr_columns);
	free(t->rows);
	free(t);
}

int table_column(const struct table *t, const char *key)
{
	for (int i = 0; key && i < t->nr_columns; i++) {
		if (!strcmp(t->columns[i].key, key))
			return i;
	}
	return -1;
}

void table_add_row(struct table *t)
{
	struct row *r;

	if (t->nr_rows == t->room) {
		t->room = t->room ? 2 * t->room : 16;
		t->rows = heap_need(reallocarray(t->rows, t->room, sizeof(*t->rows)));
	}
	r = &t->rows[t->nr_rows++];
	memset(r, 0, sizeof(*r));
	r->cells = heap_need(calloc((size_t)t->nr_columns, sizeof(*r->cells)));
}

void table_set_cell(struct table *t, int column, const char *text)
{
	char **cell = &t->rows[t->nr_rows - 1].cells[column];

	free(*cell);
	*cell = heap_need(strdup(text));
}

void table_add_line(struct table *t, const char *text)
{
	struct row *r = &t->rows[t->nr_rows - 1];

	r->lines = heap_need(reallocarray(r->lines, r->nr_lines + 1, sizeof(*r->lines)));
	r->lines[r->nr_lines++] = heap_need(strdup(text));
}

/* ---- text ------------------------------------------------------------------------------------ */

static int text_width(const char *text)
{
	return text ? term_text_width(text, strlen(text)) : 0;
}

static int column_width(const struct table *t, int column)
{
	int width = text_width(t->columns[column].head);

	for (size_t i = 0; i < t->nr_rows; i++) {
		int w = text_width(t->rows[i].cells[column]);

		width = w > width ? w : width;
	}
	return width;
}

/* One line of the table; blanks after its last cell are not printed. */
static void print_cells(const struct table *t, char *const *cells, const int *widths, int indent, FILE *out)
{
	int pending = indent;

	for (int i = 0; i < t->nr_columns; i++) {
		const char *text = cells ? cells[i] : t->columns[i].head;
		int blanks;

		if (!t->columns[i].head)
			continue;
		blanks = widths[i] - text_width(text);
		if (t->columns[i].align == EMIT_RIGHT)
			pending += blanks;
		if (text && *text) {
			fprintf(out, "%*s%s", pending, "", text);
			pending = 0;
		}
		if (t->columns[i].align == EMIT_LEFT)
			pending += blanks;
		pending += 2;
	}
}

void table_print_text(const struct table *t, FILE *out, int indent, bool colored)
{
	int *widths = heap_need(calloc((size_t)t->nr_columns + 1, sizeof(*widths)));

	for (int i = 0; i < t->nr_columns; i++)
		widths[i] = column_width(t, i);
	fputs(term_style(TERM_BOLD, colored), out);
	print_cells(t, NULL, widths, indent, out);
	fprintf(out, "%s\n", term_style(TERM_PLAIN, colored));
	for (size_t i = 0; i < t->nr_rows; i++) {
		print_cells(t, t->rows[i].cells, widths, indent, out);
		putc('\n', out);
		for (size_t l = 0; l < t->rows[i].nr_lines; l++)
			fprintf(out, "%*s%s\n", indent + TABLE_LINE_INDENT, "", t->rows[i].lines[l]);
	}
	free(widths);
}

/* ---- CSV ------------------------------------------------------------------------------------- */

static void print_field(const char *text, FILE *out)
{
	if (!text)
		return;
	if (!text[strcspn(text, ",\"\r\n")]) {
		fputs(text, out);
		return;
	}
	putc('"', out);
	for (; *text; text++) {
		if (*text == '"')
			putc('"', out);
		putc(*text, out);
	}
	putc('"', out);
}

static void print_record(const struct table *t, char *const *cells, FILE *out)
{
	bool is_first = true;

	for (int i = 0; i < t->nr_columns; i++) {
		if (t->columns[i].text_only)
			continue;
		if (!is_first)
			putc(',', out);
		is_first = false;
		print_field(cells ? cells[i] : t->columns[i].key, out);
	}
	putc('\n', out);
}

void table_print_csv_header(const struct table *t, FILE *out)
{
	print_record(t, NULL, out);
}

void table_print_csv_row(struct table *t, FILE *out)
{
	struct row *r = &t->rows[--t->nr_rows];

	print_record(t, r->cells, out);
	row_release(r, t->nr_columns);
}
