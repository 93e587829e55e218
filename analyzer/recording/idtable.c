/* SPDX-License-Identifier: MIT */
/* Growing arrays by id, within what a trace has definitions for. */
#include "analyzer/recording/idtable.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"

#define ROWS_MIN 256
/* Where definitions are lost to damage, ids go beyond their number. */
#define ROWS_ANYWAY 65536u
#define ROWS_PER_DEFINITION 2

void *idtable_grown(void *array, uint32_t *nr, uint32_t id, size_t row_bytes, const struct tfmt_reader *reader)
{
	size_t room = *nr ? *nr : ROWS_MIN;
	char *grown;

	if (id < *nr || (id >= ROWS_ANYWAY && id / ROWS_PER_DEFINITION >= tfmt_reader_nr_definitions(reader)))
		return array;
	while (room <= id)
		room *= 2;
	grown = heap_need(realloc(array, room * row_bytes));
	memset(grown + *nr * row_bytes, 0, (room - *nr) * row_bytes);
	*nr = (uint32_t)room;
	return grown;
}
