/* SPDX-License-Identifier: MIT */
/* A recorder that gets no memory for a while: what could not be done is as if it had not been tried. */
#include "tests/unit/tracefmt_flight.h"

#include "tracefmt/ledger.h"
#include "tracefmt/pages.h"

#define NR_BLOCKS 5000
#define NR_EVENTS 20000

static long nr_before_failure = -1; /* allocations that are made before one fails; -1: all are */
static unsigned nr_failures;

static bool fails(void)
{
	if (nr_before_failure < 0 || nr_before_failure-- > 0)
		return false;
	nr_failures++;
	return true;
}

/* In the place of tracefmt/pages.c: of malloc, so that AddressSanitizer sees what goes beyond them. */
void *tfmt_pages_new(size_t bytes)
{
	size_t whole = (bytes + 63) & ~(size_t)63;
	void *p = fails() ? NULL : aligned_alloc(64, whole);

	return p ? memset(p, 0, whole) : NULL;
}

void tfmt_pages_free(void *p, size_t bytes)
{
	(void)bytes;
	free(p);
}

void *tfmt_pages_grow(void *p, size_t old_bytes, size_t new_bytes)
{
	void *q = tfmt_pages_new(new_bytes);

	if (q && p) {
		memcpy(q, p, old_bytes);
		free(p);
	}
	return q;
}

/* Make so many blocks; one that could not be made is made at the second try. */
static void make_blocks(struct tfmt_ledger *l)
{
	for (uint64_t i = 0; i < NR_BLOCKS; i++) {
		struct tfmt_event ev = { .kind = TFMT_TENSOR_ALLOC, .address = 512 * (i + 1), .size = 512, .time_ns = i };

		if (tfmt_ledger_record(l, &ev, i))
			assert_int_equal(tfmt_ledger_record(l, &ev, i), 0);
		assert_true(l->max_origins >= l->max_slots && l->nr_slots <= l->max_slots);
	}
}

static void test_more_blocks(void **state)
{
	unsigned nr = 0;

	(void)state;
	do {
		struct tfmt_ledger l = { 0 };

		nr_failures = 0;
		assert_int_equal(tfmt_ledger_init(&l, false), 0);
		assert_int_equal(tfmt_ledger_keep_history(&l, 0), 0);
		nr_before_failure = nr++;
		make_blocks(&l);
		nr_before_failure = -1;
		assert_int_equal(l.totals.allocated[0], NR_BLOCKS * 512);
		for (uint32_t i = 0; i < l.nr_slots; i++)
			assert_true(!l.block[i].live || l.origin[i].time_ns == l.block[i].ordinal);
		tfmt_ledger_release(&l);
	} while (nr_failures);
	assert_true(nr > 6); /* blocks, their origins and their index have grown, thrice or so */
}

/* There is no checkpoint then, nor is anything dropped; later there is again. */
static void test_checkpoints(void **state)
{
	static struct stream stream;
	struct tfmt_event ev, want;
	struct tfmt_reader *r;
	struct flight f;
	uint64_t before;
	unsigned nr = 0;

	(void)state;
	stream_init(&stream, 3, 6, false);
	flight_start(&f, 6);
	for (unsigned i = 0; i < NR_EVENTS; i++) {
		stream_next(&stream, &ev, &want);
		if (!tfmt_writer_event(f.w, &ev) && i % 200)
			continue;
		assert_int_equal(tfmt_writer_flush(f.w, NULL, 0), 0);
		before = tfmt_writer_bytes(f.w);
		nr_before_failure = 0;
		if (i)
			assert_int_equal(tfmt_writer_checkpoint(f.w, 0), TFMT_E_NOMEM);
		assert_int_equal(tfmt_writer_bytes(f.w), before);
		nr_before_failure = 0;
		if (f.other_fd < 0 && tfmt_writer_drop_bytes(f.w, 0, 0)) {
			assert_int_equal(tfmt_writer_drop_begin(f.w, f.fd, 0, 0), TFMT_E_NOMEM);
			tfmt_writer_drop_abort(f.w);
		}
		nr_before_failure = -1;
		flight_tend(&f, 10000, 40000);
	}
	flight_end(&f);
	assert_true(f.nr_drops > 1);
	assert_int_equal(tfmt_reader_open(&r, f.path, NULL), 0);
	while (tfmt_reader_next(r, &ev) > 0)
		nr += !ev.before;
	assert_int_equal(tfmt_reader_summary(r)->nr_damaged, 0);
	assert_int_equal(tfmt_reader_summary(r)->dropped_events + nr, NR_EVENTS);
	tfmt_reader_close(r);
	flight_forget(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_more_blocks),
		cmocka_unit_test(test_checkpoints),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
