/* SPDX-License-Identifier: MIT */
/*
 * Blocks as the framework's allocator tells of them.
 *
 * An allocation for which there is no room is tried again after the whole cache has been given back. What
 * shows that: the driver refuses memory to PyTorch, or (if a limit of PyTorch's own was in the way) a
 * segment is given back while a tensor is being made; the thread's next allocation or failure is then one
 * retry.
 */
#include "analyzer/ledger/books_tracker.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/ledger/books_inside.h"

#define THREADS_MAX (1u << 20)

static bool *thread_flag(struct told_threads *t, uint32_t thread)
{
	uint32_t room = t->nr_threads ? t->nr_threads : 64;
	bool *grown;

	if (thread >= THREADS_MAX)
		return NULL;
	if (thread < t->nr_threads)
		return &t->short_of_memory[thread];
	while (room <= thread)
		room *= 2;
	grown = heap_need(realloc(t->short_of_memory, room * sizeof(*grown)));
	memset(grown + t->nr_threads, 0, (room - t->nr_threads) * sizeof(*grown));
	t->short_of_memory = grown;
	t->nr_threads = room;
	return &grown[thread];
}

static void told_action(struct told_books *b, const struct tfmt_event *ev, bool *short_of_memory)
{
	switch (ev->aux & (TFMT_ALLOCATOR_IN_TENSOR - 1)) {
	case TFMT_ALLOCATOR_ALLOC:
		b->allocs++;
		b->requested_bytes += ev->size;
		if (b->requested_bytes > b->requested_peak_bytes)
			b->requested_peak_bytes = b->requested_bytes;
		b->retries += *short_of_memory;
		*short_of_memory = false;
		break;
	case TFMT_ALLOCATOR_FREE_COMPLETED:
		b->requested_bytes -= ev->size < b->requested_bytes ? ev->size : b->requested_bytes;
		break;
	case TFMT_ALLOCATOR_SEGMENT_FREE:
	case TFMT_ALLOCATOR_SEGMENT_UNMAP:
		*short_of_memory |= !!(ev->aux & TFMT_ALLOCATOR_IN_TENSOR);
		break;
	case TFMT_ALLOCATOR_OOM: /* never without having tried again */
		b->retries++;
		*short_of_memory = false;
		break;
	default:
		break;
	}
}

void books_told(struct books *books, const struct tfmt_event *ev)
{
	bool *flag = thread_flag(&books->told_threads, ev->thread), none = false;

	if (!flag)
		flag = &none;
	if (ev->kind == TFMT_ALLOCATOR && ev->device < TFMT_NR_DEVICES)
		told_action(&books->device[ev->device].books.told, ev, flag);
	else if (ev->kind == TFMT_ALLOC_FAILED && books_owner(books, ev->native_stack, 0).owner == OWNER_TORCH)
		*flag = true;
}

bool books_told_all(const struct device_books *d)
{
	return d->told.allocs && d->told.allocs == d->tensor_allocs;
}

bool books_told_retries(const struct device_books *d, const char *conf)
{
	return books_told_all(d) &&
	       !(conf && (strstr(conf, "max_split_size_mb") || strstr(conf, "garbage_collection_threshold")));
}
