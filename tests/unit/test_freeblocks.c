/* SPDX-License-Identifier: MIT */
/* Free blocks against a plain array that is searched from its beginning. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "analyzer/allocator/freeblocks.h"

#define NR_MAX 700
#define NR_STEPS 40000

static struct freeblocks_entry plain[NR_MAX];
static size_t nr_plain;

static bool is_before(const struct freeblocks_entry *e, uint64_t size, uint64_t address)
{
	return e->size != size ? e->size < size : e->address < address;
}

/* The smallest that is not before (size, address); NULL if there is none. */
static const struct freeblocks_entry *plain_from(uint64_t size, uint64_t address)
{
	const struct freeblocks_entry *best = NULL;

	for (size_t i = 0; i < nr_plain; i++)
		if (!is_before(&plain[i], size, address) &&
		    (!best || is_before(&plain[i], best->size, best->address)))
			best = &plain[i];
	return best;
}

static void same(const struct freeblocks_entry *a, const struct freeblocks_entry *b)
{
	assert_int_equal(!a, !b);
	if (!a || !b)
		return;
	assert_int_equal(a->size, b->size);
	assert_int_equal(a->address, b->address);
	assert_int_equal(a->block, b->block);
}

/* All of them, from the first on, are in order and as many. */
static void walk(const struct freeblocks *f)
{
	const struct freeblocks_entry *e, *last = NULL;
	size_t nr = 0;

	for (struct freeblocks_place p = { 0 }; (e = freeblocks_at(f, p)); p = freeblocks_next(f, p), nr++) {
		assert_true(!last || is_before(last, e->size, e->address));
		last = e;
	}
	assert_int_equal(nr, nr_plain);
	same(freeblocks_last(f), last);
}

static void finds_what_a_plain_search_finds(void **state)
{
	struct freeblocks f = { 0 };

	(void)state;
	srand(5);
	for (unsigned step = 0; step < NR_STEPS; step++) {
		uint64_t size = 512ull * (unsigned)(rand() % 60), address = 512ull * (unsigned)rand();
		bool fills = step / 4000 % 2 == 0;

		same(freeblocks_at(&f, freeblocks_from(&f, size, address)), plain_from(size, address));
		if (nr_plain < NR_MAX && rand() % 10 < (fills ? 7 : 3)) {
			struct freeblocks_entry e = { size, address, step };

			if (plain_from(size, address) && plain_from(size, address)->address == address)
				continue;
			plain[nr_plain++] = e;
			freeblocks_add(&f, e);
		} else if (nr_plain) {
			size_t at = (size_t)rand() % nr_plain;

			freeblocks_remove(&f, plain[at].size, plain[at].address);
			plain[at] = plain[--nr_plain];
		}
		if (step % 500 == 0)
			walk(&f);
	}
	freeblocks_release(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(finds_what_a_plain_search_finds) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
