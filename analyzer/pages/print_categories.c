/* SPDX-License-Identifier: MIT */
/* Tables of categories and of blocks. */
#include "analyzer/pages/print_categories.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/base/human.h"
#include "analyzer/purpose/namedblocks.h"
#include "analyzer/stacks/element.h"

static uint64_t total_bytes(const struct categories *c)
{
	uint64_t total = 0;

	for (int i = 0; i < NR_CATEGORIES; i++)
		total += c->sum[i].bytes;
	return total;
}

/* The category with the most bytes that is not in `done`. */
static int largest(const struct categories *c, const bool done[static NR_CATEGORIES])
{
	int best = -1;

	for (int i = 0; i < NR_CATEGORIES; i++)
		if (!done[i] && (best < 0 || (int64_t)c->sum[i].bytes > (int64_t)c->sum[best].bytes))
			best = i;
	return best;
}

void print_categories(struct emit *e, const struct categories *c)
{
	static const struct emit_column columns[] = {
		{ "category", "category", EMIT_LEFT, false }, { "bytes", "bytes", EMIT_RIGHT, false },
		{ "share", "share", EMIT_RIGHT, true },       { "count", "blocks", EMIT_RIGHT, false },
		{ NULL, NULL, EMIT_LEFT, false },
	};
	bool done[NR_CATEGORIES] = { false };
	char share[HUMAN_MAX];

	emit_table_begin(e, "categories", columns);
	for (int i = largest(c, done); i >= 0; i = largest(c, done)) {
		done[i] = true;
		if (!category_has_row(i, c->sum[i].bytes) || (emit_is_text(e) && !c->sum[i].bytes))
			continue;
		emit_row_begin(e);
		emit_string(e, "category", NULL, category_names[i]);
		emit_signed_bytes(e, "bytes", NULL, (int64_t)c->sum[i].bytes);
		emit_label(e, "share", NULL, "%s",
			   human_percent(share, (double)(int64_t)c->sum[i].bytes, (double)total_bytes(c)));
		emit_uint(e, "count", NULL, c->sum[i].blocks);
		emit_row_end(e);
	}
	emit_table_end(e);
	emit_uint(e, "rounding_bytes", NULL, c->rounding_bytes);
	if (c->rounding_bytes)
		emit_text(e, "(%s of the unknown is the allocator's rounding)", human_bytes(share, c->rounding_bytes));
}

static int by_size(const void *va, const void *vb)
{
	const struct category_block *a = *(const struct category_block *const *)va;
	const struct category_block *b = *(const struct category_block *const *)vb;

	if (a->life.size != b->life.size)
		return a->life.size < b->life.size ? 1 : -1;
	return (a->life.birth.ordinal > b->life.birth.ordinal) - (a->life.birth.ordinal < b->life.birth.ordinal);
}

/* What the program calls it; JSON alone, and only where a census was taken. */
static void block_name(struct emit *e, const struct replay_process *p, const struct category_block *b,
		       enum lives_moment moment)
{
	struct named named;

	if (!p->names || !emit_is_json(e))
		return;
	if (namedblocks_name(&named, p, &b->life, moment))
		emit_string(e, "name", NULL, named.name.text);
	else
		emit_null(e, "name", NULL);
}

static void block_row(struct emit *e, const struct replay_process *p, const struct category_block *b,
		      enum lives_moment moment)
{
	const struct group *g = books_group(p->books, b->life.group);
	char text[SHAPE_TEXT_MAX], address[32], path[512];
	struct tfmt_shape shape;

	emit_row_begin(e);
	emit_bytes(e, "bytes", NULL, b->life.size);
	snprintf(address, sizeof(address), "0x%" PRIx64, b->life.address);
	emit_string(e, "address", NULL, address);
	emit_string(e, "category", NULL, category_names[b->category]);
	emit_bool(e, "fact", NULL, b->is_fact);
	emit_string(e, "phase", NULL, phase_names[b->life.birth.phase]);
	if (b->step)
		emit_uint(e, "step", NULL, b->step);
	else
		emit_null(e, "step", NULL);
	emit_string(e, "shape", NULL,
		    g->shape && tfmt_reader_shape(p->reader, g->shape, &shape) ? shape_text(text, &shape) : NULL);
	if (p->modulepaths && b->module)
		emit_string(e, "module", NULL, modulepaths_text(p->modulepaths, b->module, 0, path, sizeof(path)));
	else
		emit_null(e, "module", NULL);
	block_name(e, p, b, moment);
	emit_uint(e, "ordinal", NULL, b->life.birth.ordinal);
	if (b->life.death.ordinal == TFMT_NO_ORDINAL)
		emit_null(e, "freed_ordinal", NULL);
	else
		emit_uint(e, "freed_ordinal", NULL, b->life.death.ordinal);
	emit_row_end(e);
}

void print_blocks(struct emit *e, const struct replay_process *p, const struct categories *c, enum lives_moment moment,
		  uint64_t top)
{
	static const struct emit_column columns[] = {
		{ "bytes", "bytes", EMIT_RIGHT, false },      { "address", "address", EMIT_LEFT, false },
		{ "category", "category", EMIT_LEFT, false }, { "fact", NULL, EMIT_LEFT, false },
		{ "phase", "phase", EMIT_LEFT, false },
		{ "step", "step", EMIT_RIGHT, false },	      { "shape", "shape", EMIT_LEFT, false },
		{ "module", "module", EMIT_LEFT, false },
		{ "ordinal", NULL, EMIT_RIGHT, false },	      { "freed_ordinal", NULL, EMIT_RIGHT, false },
		{ NULL, NULL, EMIT_LEFT, false },
	};
	const struct category_block **order = heap_alloc(c->nr_blocks, sizeof(*order));

	for (size_t i = 0; i < c->nr_blocks; i++)
		order[i] = &c->block[i];
	qsort(order, c->nr_blocks, sizeof(*order), by_size);
	emit_table_begin(e, "blocks", columns);
	for (size_t i = 0; i < c->nr_blocks && (!top || i < top); i++)
		block_row(e, p, order[i], moment);
	emit_table_end(e);
	free(order);
	if (top && c->nr_blocks > top)
		emit_text(e, "(%" PRIu64 " more blocks: --top N)", (uint64_t)c->nr_blocks - top);
}
