/* SPDX-License-Identifier: MIT */
/* Who holds what of a device at the driver's peak; see outside.h. */
#include "analyzer/holders/outside.h"

#include <string.h>

void outside_owners(const struct replay_device *d, uint64_t bytes[static NR_OWNERS])
{
	struct books *books = d->process->books;

	memset(bytes, 0, NR_OWNERS * sizeof(*bytes));
	for (uint32_t i = 0; i < books_nr_groups(books); i++) {
		const struct group *g = books_group(books, i);

		if (!g->tensor && g->device == d->ordinal && group_is_device_memory(g))
			bytes[books_group_owner(books, g)] += group_figures_at(g, MARK_DRIVER_PEAK).bytes;
	}
}

bool outside_modelled(const struct replay_device *d, uint64_t bytes[static NR_OWNERS])
{
	const struct books *books = d->process->books;
	bool any = false;

	memset(bytes, 0, NR_OWNERS * sizeof(*bytes));
	for (uint32_t i = 0; i < books_nr_groups(books); i++) {
		const struct group *g = books_group(books, i);

		if (!g->modelled || g->device != d->ordinal)
			continue;
		bytes[g->owner] += group_figures_at(g, MARK_DRIVER_PEAK).bytes;
		any = true;
	}
	return any;
}

/* Communicators that were made on the device, also those that hold nothing. */
static void list_communicators(struct outside *o, const struct replay_device *d)
{
	const struct communicators *made = books_communicators(d->process->books);

	for (size_t i = 0; i < made->nr_rows; i++) {
		if (made->row[i].device == d->ordinal)
			*communicators_row(&o->nccl, made->row[i].number) = made->row[i];
	}
}

/*
 * NCCL takes memory in threads of its own, too, where the recorder does not know for which communicator: if this
 * process has made but one, it is that one's.
 */
static void settle_unassigned(struct communicators *c)
{
	if (c->nr_rows != 2 || c->row[0].number)
		return;
	c->row[1].bytes += c->row[0].bytes;
	c->row[0] = c->row[1];
	c->nr_rows = 1;
}

static void find_communicators(struct outside *o, const struct replay_device *d)
{
	struct books *books = d->process->books;

	list_communicators(o, d);
	for (uint32_t i = 0; i < books_nr_groups(books); i++) {
		const struct group *g = books_group(books, i);
		uint64_t bytes = group_figures_at(g, MARK_DRIVER_PEAK).bytes;
		struct communicator *row;
		uint32_t number, nr_ranks;

		if (g->tensor || g->device != d->ordinal || !bytes || !group_is_device_memory(g) ||
		    books_group_owner(books, g) != OWNER_NCCL)
			continue;
		communicator_of(tfmt_reader_function(books_reader(books), g->function), &number, &nr_ranks);
		row = communicators_row(&o->nccl, number);
		row->bytes += bytes;
		if (row->number && !row->nr_ranks)
			row->nr_ranks = nr_ranks;
	}
	settle_unassigned(&o->nccl);
}

void outside_find(struct outside *o, const struct replay_device *d)
{
	*o = (struct outside){ 0 };
	outside_owners(d, o->owner);
	o->is_modelled = outside_modelled(d, o->modelled);
	o->is_sampled = books_residual_at_peak(d->process->books, d->ordinal, &o->parts);
	o->has_process =
	    o->is_sampled && residual_process(&o->parts, &o->process_bytes, &o->is_measured);
	find_communicators(o, d);
}

void outside_release(struct outside *o)
{
	communicators_release(&o->nccl);
}
