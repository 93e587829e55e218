/* SPDX-License-Identifier: MIT */
/* Memory, or the end. */
#include "analyzer/base/heap.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/message.h"
#include "analyzer/command.h"

#define FIRST_ROOM 16 /* elements of an array that grows */

void *heap_need(void *memory)
{
	if (!memory) {
		message_error("out of memory");
		exit(CMD_TROUBLE);
	}
	return memory;
}

void *heap_alloc(size_t n, size_t size)
{
	return heap_need(calloc(n ? n : 1, size ? size : 1));
}

void *heap_grow_more(void *array, size_t *room, size_t need, size_t size)
{
	size_t more = *room ? *room : FIRST_ROOM;

	while (more < need && more <= SIZE_MAX / 2)
		more *= 2;
	array = heap_need(more >= need && more <= SIZE_MAX / size ? realloc(array, more * size) : NULL);
	*room = more;
	return array;
}

char *heap_copy(const char *text)
{
	return heap_need(strdup(text));
}
