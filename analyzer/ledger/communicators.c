/* SPDX-License-Identifier: MIT */
/* A list of communicators; see books.h. */
#include "analyzer/ledger/communicators.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"

#define NUMBER_MAX 65536 /* numbers come from a trace: a damaged one must not make us allocate by them */

void communicators_release(struct communicators *c)
{
	free(c->row);
	*c = (struct communicators){ 0 };
}

bool communicator_of(const char *function, uint32_t *number, uint32_t *nr_ranks)
{
	const char *at = strstr(function, ", communicator ");

	*number = *nr_ranks = 0;
	return at && sscanf(at, ", communicator %" SCNu32 " of %" SCNu32, number, nr_ranks) >= 1 && *number;
}

/* Where the number is, or belongs. A process has few, and the newest are asked for most. */
static size_t index_of(const struct communicators *c, uint32_t number)
{
	size_t i = c->nr_rows;

	while (i && c->row[i - 1].number >= number)
		i--;
	return i;
}

struct communicator *communicators_row(struct communicators *c, uint32_t number)
{
	size_t i;

	if (number > NUMBER_MAX)
		number = 0;
	i = index_of(c, number);
	if (i < c->nr_rows && c->row[i].number == number)
		return &c->row[i];
	c->row = heap_grow(c->row, &c->room, c->nr_rows + 1, sizeof(*c->row));
	memmove(&c->row[i + 1], &c->row[i], (c->nr_rows++ - i) * sizeof(*c->row));
	c->row[i] = (struct communicator){ .number = number, .rank = -1, .device = TFMT_DEVICE_NONE };
	return &c->row[i];
}

void communicators_event(struct communicators *c, const struct tfmt_event *ev, const char *function)
{
	struct communicator *row;
	uint32_t number, nr_ranks;

	if (!communicator_of(function, &number, &nr_ranks) || number > NUMBER_MAX)
		return;
	row = communicators_row(c, number);
	row->nr_ranks = nr_ranks ? nr_ranks : (uint32_t)ev->size;
	row->rank = (int64_t)ev->aux;
	row->device = ev->device;
}

int64_t communicators_rank(const struct communicators *c)
{
	for (size_t i = 0; i < c->nr_rows; i++)
		if (c->row[i].number && c->row[i].nr_ranks > 1 && c->row[i].rank >= 0)
			return c->row[i].rank;
	return -1;
}
