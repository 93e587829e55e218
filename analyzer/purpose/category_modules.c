/* SPDX-License-Identifier: MIT */
/* Modules by shape and order. */
#include "analyzer/purpose/category_modules.h"

#include <stdlib.h>

#include "analyzer/purpose/shapekey.h"
#include "analyzer/recording/sorted.h"
#include "analyzer/ui/heap.h"

/* A block, or a gradient that may have been freed, by what makes it alike to others. */
struct item {
	uint64_t key;   /* of its shape */
	uint32_t stack; /* of optimizer state: each of its kinds has one; else 0 */
	uint64_t ordinal;
	uint32_t module;
	struct category_block *block;
};

/* What makes shapes alike: shapekey_exact(), shapekey_of(). */
typedef uint64_t shapekey(const struct books *books, const struct group *g);

struct items {
	struct item *item;
	size_t nr;
};

static int by_kind_and_time(const void *va, const void *vb)
{
	const struct item *a = va, *b = vb;

	if (a->stack != b->stack)
		return a->stack < b->stack ? -1 : 1;
	if (a->key != b->key)
		return a->key < b->key ? -1 : 1;
	return (a->ordinal > b->ordinal) - (a->ordinal < b->ordinal);
}

static void sort(struct items *items)
{
	if (items->nr)
		qsort(items->item, items->nr, sizeof(*items->item), by_kind_and_time);
}

/* The blocks of a category; each kind of optimizer state apart. */
static void collect(struct items *out, struct categories *c, const struct books *books, enum category category,
		    shapekey *key_of)
{
	out->nr = 0;
	out->item = heap_alloc(c->nr_blocks, sizeof(*out->item));
	for (size_t i = 0; i < c->nr_blocks; i++) {
		struct category_block *b = &c->block[i];
		uint64_t key = key_of(books, books_group(books, b->life.group));

		if (b->category == category && key)
			out->item[out->nr++] = (struct item){
				.key = key,
				.stack = category == CATEGORY_OPTIMIZER_STATE ? b->life.birth.stack : 0,
				.ordinal = b->life.birth.ordinal,
				.module = b->module,
				.block = b,
			};
	}
	sort(out);
}

/* The gradients of one pass: those of the latest that are live, else of the latest whose have been freed. */
static void collect_gradients(struct items *out, const struct replay_process *process, shapekey *key_of)
{
	const struct books *books = process->books;
	const struct lives *l = process->lives;
	uint32_t pass = 0;

	out->nr = 0;
	out->item = heap_alloc(l->nr_gradients + l->nr_lives, sizeof(*out->item));
	for (size_t i = 0; i < l->nr_gradients; i++)
		out->item[out->nr++] = (struct item){
			.key = key_of(books, books_group(books, l->gradient[i].group)),
			.ordinal = l->gradient[i].ordinal,
			.module = modulepaths_settled(process->modulepaths, l->gradient[i].module),
		};
	for (size_t i = 0; i < l->nr_lives && !l->nr_gradients; i++) {
		const struct life *life = &l->life[i];

		if (!life->is_live || life->birth.phase != PHASE_BACKWARD || !life->module)
			continue;
		pass = pass ? pass : life->birth.nr_begun;
		if (life->birth.nr_begun == pass)
			out->item[out->nr++] = (struct item){
				.key = key_of(books, books_group(books, life->group)),
				.ordinal = life->birth.ordinal,
				.module = modulepaths_settled(process->modulepaths, life->module),
			};
	}
	sort(out);
}

/* The end of the items alike that begin at `from`. */
static size_t kind_end(const struct items *items, size_t from)
{
	size_t to = from + 1;

	while (to < items->nr && items->item[to].key == items->item[from].key &&
	       items->item[to].stack == items->item[from].stack)
		to++;
	return to;
}

/* The first item of a shape, items->nr if there is none; of items that have no stacks. */
static size_t kind_find(const struct items *items, uint64_t key)
{
	size_t at = sorted_below(items->item, items->nr, sizeof(*items->item), offsetof(struct item, key), key);

	return at < items->nr && items->item[at].key == key ? at : items->nr;
}

/* Give each of `to` without a module that of its like in `from`. */
static void match(struct items *to, const struct items *from, bool opposite)
{
	size_t first, end, other, nr;

	for (first = 0; first < to->nr; first = end) {
		end = kind_end(to, first);
		nr = end - first;
		other = kind_find(from, to->item[first].key);
		if (other == from->nr || kind_end(from, other) - other != nr)
			continue;
		for (size_t i = 0; i < nr; i++) {
			struct item *item = &to->item[first + i];

			if (item->module)
				continue;
			item->module = from->item[other + (opposite ? nr - 1 - i : i)].module;
			item->block->module = item->module;
			item->block->matched |= item->module != 0;
		}
	}
}

static void match_all(struct categories *c, const struct replay_process *process, shapekey *key_of)
{
	const struct books *books = process->books;
	struct items parameters = { 0 }, states = { 0 }, gradients = { 0 };

	collect(&parameters, c, books, CATEGORY_PARAMETER, key_of);
	collect(&states, c, books, CATEGORY_OPTIMIZER_STATE, key_of);
	collect_gradients(&gradients, process, key_of);
	match(&parameters, &gradients, true);
	match(&states, &parameters, false);
	free(parameters.item);
	free(states.item);
	free(gradients.item);
}

void category_find_modules(struct categories *c, const struct replay_process *process)
{
	/* Two projections back and forth differ in nothing but the order of their sizes. */
	match_all(c, process, shapekey_exact);
	match_all(c, process, shapekey_of);
}
