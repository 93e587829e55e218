/* SPDX-License-Identifier: MIT */
/*
 * Executable graphs with allocation nodes. The driver reserves memory of a device for all of them together,
 * so that only a sample tells how much; the books give it to the graph that was launched when it was first
 * reserved, at the place where that graph was made.
 */
#include "analyzer/ledger/books_driver.h"

/* The group of what is reserved for graphs made, or launched, at this event's place. */
static uint32_t graph_group(struct books *books, const struct tfmt_event *ev)
{
	struct tfmt_event like = *ev;

	like.flags = TFMT_SPACE_GRAPH;
	return books_group_graphs(books, &like);
}

void books_graph_new(struct books *books, const struct tfmt_event *ev)
{
	struct block b = { .address = ev->address, .space = BLOCK_GRAPH, .references = 1 };
	struct block *stale = blocks_find(&books->blocks, BLOCK_GRAPH, ev->address);
	uint32_t group;

	if (stale)
		blocks_remove(&books->blocks, stale);
	if (!ev->aux)
		return;
	group = graph_group(books, ev);
	b.group = group;
	blocks_insert(&books->blocks, &b);
}

void books_graph_gone(struct books *books, const struct tfmt_event *ev)
{
	struct block *b = blocks_find(&books->blocks, BLOCK_GRAPH, ev->address);

	if (b)
		blocks_remove(&books->blocks, b);
}

void books_graph_launch(struct books *books, const struct tfmt_event *ev)
{
	struct device_ledger *d = &books->device[event_device(ev)];
	const struct block *b = blocks_find(&books->blocks, BLOCK_GRAPH, ev->address);
	uint32_t group = b ? b->group : graph_group(books, ev);

	d->launched_graph = group + 1;
}

void books_graph_reserved(struct books *books, const struct tfmt_event *ev)
{
	uint8_t device = event_device(ev);
	struct device_ledger *d = &books->device[device];
	struct block *live = blocks_find(&books->blocks, BLOCK_GRAPH_POOL, device);
	struct block b = { .address = device, .size = ev->size, .space = BLOCK_GRAPH_POOL, .references = 1 };
	uint32_t group = live                ? live->group
			: d->launched_graph ? d->launched_graph - 1
					    : graph_group(books, ev);

	b.group = group;
	if (live) {
		books_leave(books, live);
		blocks_remove(&books->blocks, live);
	}
	if (!b.size)
		return;
	blocks_insert(&books->blocks, &b);
	books_enter(books, &b, ev->time_ns);
}
