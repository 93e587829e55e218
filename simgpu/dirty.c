/* SPDX-License-Identifier: MIT */
/*
 * What the host side knows of device memory, as two sets of bytes. "Dirty" are those that may be anything
 * but 0: no kernel runs, so it is what the host side wrote. When a block is handed out afresh its dirty
 * bytes become 0 again: a program may read a count or a size from memory that, on a GPU, a kernel would
 * have filled, and old bytes there would be nonsense. "Known" are those that hold what they would hold on
 * a GPU: a result that no kernel computed reads 0 but is not known to be 0.
 */
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "simgpu/internal.h"

#define PAGE ((uintptr_t)4096)
#define ZERO_BY_HAND SIM_KIB(32)	/* below this, writing zeros is cheaper than giving pages back */

struct range {
	uintptr_t start, end;
};

/* Disjoint, sorted by address, never adjacent. */
struct ranges {
	struct range *v;
	size_t nr, room;
};

static struct ranges dirty, known;

/* Guards both. The innermost lock of all. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void (*sim_before_read)(const void *p, size_t bytes);
void (*sim_before_overwrite)(const void *p, size_t bytes);

/* ---- ranges ---------------------------------------------------------------------------------- */

/* Index of the first range that ends after ADDRESS. */
static size_t first_after(const struct ranges *set, uintptr_t address)
{
	size_t low = 0, high = set->nr;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (set->v[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Replace the OLD ranges from index AT by the NEW ones of WITH. */
static void splice(struct ranges *set, size_t at, size_t old, const struct range *with, size_t new)
{
	if (set->nr + new - old > set->room) {
		set->room = 2 * set->room + 64;
		set->v = sim_realloc(set->v, set->room * sizeof(*set->v));
	}
	memmove(set->v + at + new, set->v + at + old, (set->nr - at - old) * sizeof(*set->v));
	memcpy(set->v + at, with, new * sizeof(*with));
	set->nr += new - old;
}

static void add(struct ranges *set, struct range all)
{
	size_t at = first_after(set, all.start), n = 0;

	if (at && set->v[at - 1].end == all.start)
		at--;
	for (; at + n < set->nr && set->v[at + n].start <= all.end; n++) {
		if (set->v[at + n].start < all.start)
			all.start = set->v[at + n].start;
		if (set->v[at + n].end > all.end)
			all.end = set->v[at + n].end;
	}
	splice(set, at, n, &all, 1);
}

/* Take GONE out of SET, telling GIVE, if there is one, of every part that was in it. */
static void take_out(struct ranges *set, struct range gone, void (*give)(uintptr_t start, uintptr_t end))
{
	size_t at = first_after(set, gone.start), n, nr_keep = 0;
	struct range keep[2];

	for (n = 0; at + n < set->nr && set->v[at + n].start < gone.end; n++) {
		struct range r = set->v[at + n];

		if (r.start < gone.start)
			keep[nr_keep++] = (struct range){ r.start, gone.start };
		if (r.end > gone.end)
			keep[nr_keep++] = (struct range){ gone.end, r.end };
		if (give)
			give(r.start < gone.start ? gone.start : r.start, r.end > gone.end ? gone.end : r.end);
	}
	if (n)
		splice(set, at, n, keep, nr_keep);
}

static struct range range(const void *p, size_t bytes)
{
	return (struct range){ (uintptr_t)p, (uintptr_t)p + bytes };
}

/* ---- contents -------------------------------------------------------------------------------- */

void sim_dirty(const void *p, size_t bytes)
{
	if (!bytes)
		return;
	pthread_mutex_lock(&lock);
	add(&dirty, range(p, bytes));
	add(&known, range(p, bytes));
	pthread_mutex_unlock(&lock);
}

bool sim_is_dirty(const void *p, size_t bytes)
{
	struct range all = range(p, bytes);
	bool found;
	size_t at;

	pthread_mutex_lock(&lock);
	at = first_after(&dirty, all.start);
	found = at < dirty.nr && dirty.v[at].start < all.end;
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

void sim_fresh(void *p, size_t bytes)
{
	if (sim_before_overwrite)
		sim_before_overwrite(p, bytes);
	pthread_mutex_lock(&lock);
	take_out(&dirty, range(p, bytes), zero);
	take_out(&known, range(p, bytes), NULL);
	pthread_mutex_unlock(&lock);
}

void sim_forget(const void *p, size_t bytes)
{
	if (sim_before_overwrite)
		sim_before_overwrite(p, bytes);
	pthread_mutex_lock(&lock);
	take_out(&dirty, range(p, bytes), NULL);
	take_out(&known, range(p, bytes), NULL);
	pthread_mutex_unlock(&lock);
}

/* ---- what is known of them ------------------------------------------------------------------- */

void sim_known(const void *p, size_t bytes, bool is_known)
{
	if (!bytes)
		return;
	pthread_mutex_lock(&lock);
	if (is_known)
		add(&known, range(p, bytes));
	else
		take_out(&known, range(p, bytes), NULL);
	pthread_mutex_unlock(&lock);
}

bool sim_is_known(const void *p, size_t bytes)
{
	struct range all = range(p, bytes);
	bool found;
	size_t at;

	pthread_mutex_lock(&lock);
	at = first_after(&known, all.start);
	found = at < known.nr && known.v[at].start <= all.start && known.v[at].end >= all.end;
	pthread_mutex_unlock(&lock);
	return found;
}

void sim_known_copy(const void *dst, const void *src, size_t bytes)
{
	struct range to = range(dst, bytes), from = range(src, bytes), part;
	uintptr_t at = from.start;
	size_t i;

	if (dst == src)
		return;
	pthread_mutex_lock(&lock);
	/* Adding to the set moves its ranges: the next one is looked up anew, by the address reached. */
	take_out(&known, to, NULL);
	while ((i = first_after(&known, at)) < known.nr && known.v[i].start < from.end) {
		part = known.v[i];
		at = part.end;
		if (part.start < from.start)
			part.start = from.start;
		if (part.end > from.end)
			part.end = from.end;
		part.start = part.start - from.start + to.start;
		part.end = part.end - from.start + to.start;
		add(&known, part);
	}
	pthread_mutex_unlock(&lock);
}
