/* SPDX-License-Identifier: MIT */
/*
 * Rows of text cells: held and aligned for people, or written one by one as CSV. Used by emit.c only.
 * Memory running out ends the process.
 */
#ifndef VT_TABLE_H
#define VT_TABLE_H

#include <stdbool.h>
#include <stdio.h>

#include "analyzer/ui/emit.h"

struct table;

struct table *table_new(const struct emit_column *columns);
void table_free(struct table *t);

/* Index of the column with that key, -1 if there is none. */
int table_column(const struct table *t, const char *key);

/* Begin a row; set its cells (copied); add lines that are printed below it. */
void table_add_row(struct table *t);
void table_set_cell(struct table *t, int column, const char *text);
void table_add_line(struct table *t, const char *text);

#define TABLE_LINE_INDENT 4 /* of the lines below a row */

/* Print all rows aligned, each line after `indent` blanks. */
void table_print_text(const struct table *t, FILE *out, int indent, bool colored);

/* CSV, quoted as RFC 4180 has it: the header; then the last row, which is forgotten again. */
void table_print_csv_header(const struct table *t, FILE *out);
void table_print_csv_row(struct table *t, FILE *out);

#endif
