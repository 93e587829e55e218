/* SPDX-License-Identifier: MIT */
/* What the books are asked for. */
#include "analyzer/ledger/books_inside.h"

uint32_t books_nr_groups(const struct books *books)
{
	return books->groups.nr_groups;
}

const struct group *books_group(const struct books *books, uint32_t index)
{
	return &books->groups.group[index];
}

struct owner_answer books_owner(struct books *books, uint32_t native_stack, uint32_t python_stack)
{
	return owner_of_call(&books->owners, books->mapping, native_stack, python_stack);
}

enum owner books_group_owner(struct books *books, const struct group *g)
{
	if (g->modelled || g->before)
		return (enum owner)g->owner;
	return books_owner(books, g->native_stack, g->python_stack).owner;
}

const struct block *books_block(const struct books *books, enum block_space space, uint64_t address)
{
	return blocks_find(&books->blocks, (uint8_t)space, address);
}

const struct device_books *books_device(const struct books *books, uint32_t device)
{
	return &books->device[device].books;
}

const struct host_books *books_host(const struct books *books)
{
	return &books->host;
}

const struct residual_figures *books_residual(const struct books *books, uint32_t device)
{
	return &books->device[device].residual.figures;
}

bool books_residual_at_peak(const struct books *books, uint32_t device, struct residual_parts *out)
{
	return residual_at_peak(&books->device[device].residual, out);
}

uint32_t books_nr_ranges(const struct books *books)
{
	return books->by_range.nr_groups;
}

const struct group *books_range(const struct books *books, uint32_t range)
{
	return &books->by_range.group[range - 1];
}

struct range *books_range_list(const struct books *books, uint32_t range, uint32_t *nr)
{
	uint32_t path = range ? books_range(books, range)->python_stack : 0;

	*nr = ranges_depth(&books->ranges, path);
	return ranges_list(&books->ranges, path);
}

uint64_t books_ranges_left_out(const struct books *books)
{
	return books->ranges.figures.nr_left_out;
}

const struct communicators *books_communicators(const struct books *books)
{
	return &books->communicators;
}

const struct unhooked *books_unhooked(const struct books *books)
{
	return &books->unhooked;
}

const struct value_read *books_value_reads(const struct books *books, uint32_t *nr)
{
	*nr = books->value_reads.nr_reads;
	return books->value_reads.read;
}

bool books_is_calm(const struct books *books)
{
	return books->is_calm;
}

bool books_has_past(const struct books *books)
{
	return books->past_entered;
}

bool books_is_past_untold(const struct books *books)
{
	return books->past_untold;
}

bool books_is_damaged(const struct books *books)
{
	return books->damage.any;
}

const struct tfmt_reader *books_reader(const struct books *books)
{
	return books->reader;
}
