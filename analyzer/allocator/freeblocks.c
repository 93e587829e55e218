/* SPDX-License-Identifier: MIT */
/* Free blocks in short sorted runs, which are in order themselves: a change moves a few hundred bytes. */
#include "analyzer/allocator/freeblocks.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"

#define RUN_MAX 64

struct freeblocks_run {
	uint32_t nr;
	struct freeblocks_entry entry[RUN_MAX];
};

void freeblocks_release(struct freeblocks *f)
{
	for (size_t i = 0; i < f->nr_runs; i++)
		free(f->run[i]);
	free(f->run);
	*f = (struct freeblocks){ 0 };
}

static bool is_before(const struct freeblocks_entry *e, uint64_t size, uint64_t address)
{
	return e->size != size ? e->size < size : e->address < address;
}

/* The first run whose last entry is not before (size, address). */
static size_t find_run(const struct freeblocks *f, uint64_t size, uint64_t address)
{
	size_t from = 0, to = f->nr_runs;

	while (from < to) {
		size_t middle = (from + to) / 2;
		const struct freeblocks_run *r = f->run[middle];

		if (is_before(&r->entry[r->nr - 1], size, address))
			from = middle + 1;
		else
			to = middle;
	}
	return from;
}

static uint32_t find_in(const struct freeblocks_run *r, uint64_t size, uint64_t address)
{
	uint32_t from = 0, to = r->nr;

	while (from < to) {
		uint32_t middle = (from + to) / 2;

		if (is_before(&r->entry[middle], size, address))
			from = middle + 1;
		else
			to = middle;
	}
	return from;
}

/* A new run at this place of their order. */
static struct freeblocks_run *add_run(struct freeblocks *f, size_t at)
{
	f->run = heap_grow(f->run, &f->room, f->nr_runs + 1, sizeof(*f->run));
	memmove(&f->run[at + 1], &f->run[at], (f->nr_runs - at) * sizeof(*f->run));
	f->nr_runs++;
	f->run[at] = heap_alloc(1, sizeof(**f->run));
	return f->run[at];
}

static void split_run(struct freeblocks *f, size_t at)
{
	struct freeblocks_run *after = add_run(f, at + 1), *r = f->run[at];

	after->nr = r->nr / 2;
	r->nr -= after->nr;
	memcpy(after->entry, &r->entry[r->nr], after->nr * sizeof(*r->entry));
}

void freeblocks_add(struct freeblocks *f, struct freeblocks_entry e)
{
	size_t run = find_run(f, e.size, e.address);
	struct freeblocks_run *r;
	uint32_t at;

	if (!f->nr_runs)
		add_run(f, 0);
	else if (run == f->nr_runs)
		run--;
	if (f->run[run]->nr == RUN_MAX) {
		split_run(f, run);
		r = f->run[run];
		run += is_before(&r->entry[r->nr - 1], e.size, e.address);
	}
	r = f->run[run];
	at = find_in(r, e.size, e.address);
	memmove(&r->entry[at + 1], &r->entry[at], (r->nr - at) * sizeof(e));
	r->entry[at] = e;
	r->nr++;
}

void freeblocks_remove(struct freeblocks *f, uint64_t size, uint64_t address)
{
	size_t run = find_run(f, size, address);
	struct freeblocks_run *r = f->run[run];
	uint32_t at = find_in(r, size, address);

	memmove(&r->entry[at], &r->entry[at + 1], (r->nr - at - 1) * sizeof(*r->entry));
	if (--r->nr)
		return;
	free(r);
	f->nr_runs--;
	memmove(&f->run[run], &f->run[run + 1], (f->nr_runs - run) * sizeof(*f->run));
}

struct freeblocks_place freeblocks_from(const struct freeblocks *f, uint64_t size, uint64_t address)
{
	struct freeblocks_place p = { .run = find_run(f, size, address) };

	if (p.run < f->nr_runs)
		p.at = find_in(f->run[p.run], size, address);
	return p;
}

const struct freeblocks_entry *freeblocks_at(const struct freeblocks *f, struct freeblocks_place p)
{
	return p.run < f->nr_runs ? &f->run[p.run]->entry[p.at] : NULL;
}

struct freeblocks_place freeblocks_next(const struct freeblocks *f, struct freeblocks_place p)
{
	if (++p.at == f->run[p.run]->nr)
		p = (struct freeblocks_place){ .run = p.run + 1 };
	return p;
}

const struct freeblocks_entry *freeblocks_last(const struct freeblocks *f)
{
	const struct freeblocks_run *r = f->nr_runs ? f->run[f->nr_runs - 1] : NULL;

	return r ? &r->entry[r->nr - 1] : NULL;
}
