/* SPDX-License-Identifier: MIT */
/* NVTX ranges in text, JSON and CSV. */
#include "analyzer/pages/print_ranges.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/base/human.h"
#include "analyzer/ledger/books.h"

#define TEXT_MAX 1024

const char *print_range_path(char *buf, size_t size, const struct books *books, uint32_t range)
{
	uint32_t depth;
	struct range *list = books_range_list(books, range, &depth);
	size_t n = 0;

	buf[0] = 0;
	for (uint32_t k = 0; k < depth && n < size; k++) {
		char name[TEXT_MAX];

		range_label(name, sizeof(name), books_reader(books), list[k]);
		n += (size_t)snprintf(buf + n, size - n, "%s%s", k ? " > " : "", name);
	}
	free(list);
	return buf;
}

void print_range_array(struct emit *e, const char *key, const struct books *books, uint32_t range)
{
	uint32_t depth;
	struct range *list = books_range_list(books, range, &depth);

	emit_array_begin(e, key, NULL);
	for (uint32_t k = 0; !emit_is_text(e) && k < depth; k++) {
		char name[TEXT_MAX];

		emit_string(e, NULL, NULL, range_label(name, sizeof(name), books_reader(books), list[k]));
	}
	free(list);
	emit_array_end(e);
}

/* ---- the table -------------------------------------------------------------------------------- */

static const struct emit_column columns[] = {
	{ "bytes", "bytes", EMIT_RIGHT, false },
	{ "share", "share", EMIT_RIGHT, true },
	{ "count", "blocks", EMIT_RIGHT, false },
	{ "device", NULL, EMIT_RIGHT, false },
	{ "pid", NULL, EMIT_RIGHT, false },
	{ "range", "range", EMIT_LEFT, false },
	{ NULL, NULL, EMIT_LEFT, false },
};

struct row {
	struct group_figures figures;
	uint32_t range; /* 0 = the rest */
};

/* Largest first; ties by which was met first. */
static int compare_rows(const void *va, const void *vb)
{
	const struct row *a = va, *b = vb;

	if (a->figures.bytes != b->figures.bytes)
		return (int64_t)a->figures.bytes < (int64_t)b->figures.bytes ? 1 : -1;
	return (a->range > b->range) - (a->range < b->range);
}

static void print_row(struct emit *e, const struct print_ranges_query *q, const struct row *row)
{
	char text[TEXT_MAX];

	emit_row_begin(e);
	emit_signed_bytes(e, "bytes", NULL, (int64_t)row->figures.bytes);
	emit_label(e, "share", NULL, "%s",
		   human_percent(text, (double)(int64_t)row->figures.bytes, (double)q->total.bytes));
	emit_uint(e, "count", NULL, row->figures.blocks);
	emit_uint(e, "device", NULL, q->device);
	emit_uint(e, "pid", NULL, tfmt_reader_header(books_reader(q->books))->pid);
	print_range_path(text, sizeof(text), q->books, row->range);
	if (emit_is_text(e) || emit_is_csv(e))
		emit_string(e, "range", NULL, *text ? text : emit_is_csv(e) ? "" : "(in no range)");
	else
		print_range_array(e, "ranges", q->books, row->range);
	emit_row_end(e);
}

void print_ranges(struct emit *e, const struct print_ranges_query *q)
{
	uint32_t nr_ranges = books_nr_ranges(q->books);
	uint64_t left_out = books_ranges_left_out(q->books);
	struct row *row = heap_alloc((size_t)nr_ranges + 1, sizeof(*row));
	struct group_figures rest = q->total;
	uint32_t nr = 0, shown;

	for (uint32_t range = 1; range <= nr_ranges; range++) {
		const struct group *g = books_range(q->books, range);
		struct group_figures figures = group_figures_at(g, q->mark);

		if (g->device != q->device || g->tensor != q->tensors || !figures.blocks)
			continue;
		row[nr++] = (struct row){ figures, range };
		rest.bytes -= figures.bytes;
		rest.blocks -= figures.blocks;
	}
	if (rest.blocks || rest.bytes) /* what damage has changed is in no block */
		row[nr++] = (struct row){ rest, 0 };
	qsort(row, nr, sizeof(*row), compare_rows);
	shown = q->top && q->top < nr ? (uint32_t)q->top : nr;
	emit_uint(e, "ranges_left_out", NULL, left_out);
	emit_table_begin(e, "ranges", columns);
	for (uint32_t i = 0; i < shown; i++)
		print_row(e, q, &row[i]);
	emit_table_end(e);
	if (shown < nr)
		emit_text(e, "(%" PRIu32 " more ranges: --top N)", nr - shown);
	if (left_out)
		emit_text(e, "(%" PRIu64 " ranges that may end on any thread are left out: too many were open)",
			  left_out);
	free(row);
}
