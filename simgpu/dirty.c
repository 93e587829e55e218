/* SPDX-License-Identifier: MIT */
/*
 * Which bytes of device memory are anything but 0. No kernel runs, so it is those that the host side wrote
 * ("dirty"). When a block is handed out afresh its dirty bytes become 0 again: a program may read a count or
 * a size from memory that, on a GPU, a kernel would have filled, and old bytes there would be nonsense.
 */
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "simgpu/internal.h"

#define PAGE ((uintptr_t)4096)
#define ZERO_BY_HAND SIM_KIB(32)	/* below this, writing zeros is cheaper than giving pages back */

/* Disjoint, sorted by address. The lock is the innermost of all. */
struct range {
	uintptr_t start, end;
};

static struct {
	struct range *v;
	size_t nr, room;
} dirty;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void (*sim_before_read)(const void *p, size_t bytes);
void (*sim_before_overwrite)(const void *p, size_t bytes);

/* Index of the first range that ends after ADDRESS. */
static size_t first_after(uintptr_t address)
{
	size_t low = 0, high = dirty.nr;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (dirty.v[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Replace the OLD ranges from index AT by the NEW ones of WITH. */
static void splice(size_t at, size_t old, const struct range *with, size_t new)
{
	if (dirty.nr + new - old > dirty.room) {
		dirty.room = 2 * dirty.room + 64;
		dirty.v = sim_realloc(dirty.v, dirty.room * sizeof(*dirty.v));
	}
	memmove(dirty.v + at + new, dirty.v + at + old, (dirty.nr - at - old) * sizeof(*dirty.v));
	memcpy(dirty.v + at, with, new * sizeof(*with));
	dirty.nr += new - old;
}

void sim_dirty(const void *p, size_t bytes)
{
	struct range all = { (uintptr_t)p, (uintptr_t)p + bytes };
	size_t at, n = 0;

	if (!bytes)
		return;
	pthread_mutex_lock(&lock);
	at = first_after(all.start);
	if (at && dirty.v[at - 1].end == all.start)
		at--;
	for (; at + n < dirty.nr && dirty.v[at + n].start <= all.end; n++) {
		if (dirty.v[at + n].start < all.start)
			all.start = dirty.v[at + n].start;
		if (dirty.v[at + n].end > all.end)
			all.end = dirty.v[at + n].end;
	}
	splice(at, n, &all, 1);
	pthread_mutex_unlock(&lock);
}

bool sim_is_dirty(const void *p, size_t bytes)
{
	uintptr_t start = (uintptr_t)p;
	bool found;
	size_t at;

	pthread_mutex_lock(&lock);
	at = first_after(start);
	found = at < dirty.nr && dirty.v[at].start < start + bytes;
	pthread_mutex_unlock(&lock);
	return found;
}

/* Zero [START, END); whole pages go back to the host. Shared memory needs REMOVE, private memory DONTNEED. */
static void zero(uintptr_t start, uintptr_t end)
{
	uintptr_t first = (start + PAGE - 1) & ~(PAGE - 1), last = end & ~(PAGE - 1);

	if (end - start < ZERO_BY_HAND || first >= last) {
		memset((void *)start, 0, end - start);
		return;
	}
	memset((void *)start, 0, first - start);
	memset((void *)last, 0, end - last);
	if (madvise((void *)first, last - first, MADV_REMOVE) &&
	    madvise((void *)first, last - first, MADV_DONTNEED))
		memset((void *)first, 0, last - first);
}

/* Take [START, END) out of the dirty ranges, zeroing what is taken out if CLEAN. */
static void take_out(uintptr_t start, uintptr_t end, bool clean)
{
	struct range keep[2];
	size_t at, n, nr_keep = 0;

	if (sim_before_overwrite)
		sim_before_overwrite((void *)start, end - start);
	pthread_mutex_lock(&lock);
	at = first_after(start);
	for (n = 0; at + n < dirty.nr && dirty.v[at + n].start < end; n++) {
		struct range r = dirty.v[at + n];

		if (r.start < start)
			keep[nr_keep++] = (struct range){ r.start, start };
		if (r.end > end)
			keep[nr_keep++] = (struct range){ end, r.end };
		if (clean)
			zero(r.start < start ? start : r.start, r.end > end ? end : r.end);
	}
	if (n)
		splice(at, n, keep, nr_keep);
	pthread_mutex_unlock(&lock);
}

void sim_fresh(void *p, size_t bytes)
{
	take_out((uintptr_t)p, (uintptr_t)p + bytes, true);
}

void sim_forget(const void *p, size_t bytes)
{
	take_out((uintptr_t)p, (uintptr_t)p + bytes, false);
}
