/* SPDX-License-Identifier: MIT */
/*
 * Memory of the analyzer's own: there is enough, or the process ends with one message and CMD_TROUBLE. None of these
 * returns NULL; what they return is the caller's, for free(). May be called from any thread.
 */
#ifndef VT_HEAP_H
#define VT_HEAP_H

#include <stddef.h>

/* What malloc(), strdup() and the like have returned; does not return if that is NULL. */
void *heap_need(void *memory);

/* `n` elements of `size` bytes, all 0; also for n = 0. */
void *heap_alloc(size_t n, size_t size);

/* What heap_grow() does when there is not enough. */
void *heap_grow_more(void *array, size_t *room, size_t need, size_t size);

/*
 * An array that has room for *room elements of `size` bytes, moved to where it has room for `need` at least: twice as
 * many as before, or more. *room follows. What was added is not set. The array is NULL while *room is 0. Mostly there is
 * room: what is asked for each event pays for no call.
 */
static inline void *heap_grow(void *array, size_t *room, size_t need, size_t size)
{
	return need <= *room ? array : heap_grow_more(array, room, need, size);
}

/* A copy of a string. */
char *heap_copy(const char *text);

#endif
