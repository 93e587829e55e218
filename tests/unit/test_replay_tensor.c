/* SPDX-License-Identifier: MIT */
/* The tensor ledger: counts, peaks, requested and reserved bytes, what teardown leaves out, and marks. */
#include "synthetic.h"

#include "analyzer/holders/holders.h"
#include "analyzer/ledger/books_inside.h"
#include "analyzer/replay/replay.h"

#define MiB (1ull << 20)
#define TRACE "host.1.1.vtr"

static struct synthetic s;
static struct replay m;
static const struct replay_options quiet = { .quiet = true };

static void begin(void)
{
	struct tfmt_header header = synthetic_header(1);

	synthetic_open(&s, TRACE, &header);
	synthetic_device(&s, 0, 80 * 1024 * MiB);
}

/* Close the trace and load it: the books of device 0. */
static const struct device_books *load(const struct replay_options *options)
{
	synthetic_close(&s, 0);
	assert_int_equal(replay_load(&m, TRACE, options ? options : &quiet), 0);
	assert_int_equal(m.nr_devices, 1);
	return m.device[0].books;
}

static void alloc(uint64_t address, uint64_t size, uint64_t reserved)
{
	synthetic_event(&s, TFMT_TENSOR_ALLOC, 0, address, size, reserved);
}

static void release(uint64_t address, uint64_t reserved)
{
	synthetic_event(&s, TFMT_TENSOR_FREE, 0, address, 0, reserved);
}

static void the_peak_is_the_first_event_that_reaches_it(void **state)
{
	const struct device_books *b;

	(void)state;
	begin();
	alloc(0x1000, 3 * MiB, 20 * MiB);
	alloc(0x2000, 2 * MiB, 20 * MiB); /* 1000 ns: 5 MiB */
	release(0x2000, 20 * MiB);
	alloc(0x3000, 2 * MiB, 20 * MiB); /* 5 MiB again: not a new peak */
	release(0x1000, 20 * MiB);
	b = load(NULL);
	assert_int_equal(b->tensor_allocs, 3);
	assert_int_equal(b->tensor_frees, 2);
	assert_int_equal(b->allocated_peak_bytes, 5 * MiB);
	assert_int_equal(b->allocated_bytes, 2 * MiB);
	assert_int_equal(replay_time(m.device[0].process, b->moment[MARK_TENSOR_PEAK].time_ns),
			 SYNTHETIC_STEP);
	assert_int_equal(b->reserved_peak_bytes, 20 * MiB);
	assert_true(m.complete);
	assert_int_equal(m.end, REPLAY_END_EXIT);
	assert_int_equal(m.device[0].capacity_bytes, 80 * 1024 * MiB);
	replay_release(&m);
}

static void requested_bytes_are_known_while_every_shape_is(void **state)
{
	const struct device_books *b;

	(void)state;
	begin();
	synthetic_shape(&s, 1, 6, 1000, 250);
	s.shape = 1;
	alloc(0x1000, 1024, 2 * MiB);
	alloc(0x2000, 1024, 2 * MiB);
	release(0x1000, 2 * MiB);
	b = load(NULL);
	assert_false(b->has_unshaped);
	assert_int_equal(b->requested_peak_bytes, 2000);
	replay_release(&m);

	begin();
	alloc(0x1000, 1024, 2 * MiB);
	b = load(NULL);
	assert_true(b->has_unshaped);
	replay_release(&m);
}

static void teardown_counts_in_no_figure(void **state)
{
	const struct device_books *b;

	(void)state;
	begin();
	alloc(0x1000, 3 * MiB, 20 * MiB);
	alloc(0x2000, 2 * MiB, 20 * MiB);
	release(0x1000, 20 * MiB);
	s.flags = TFMT_FLAG_TEARDOWN;
	release(0x2000, 20 * MiB);
	b = load(NULL);
	assert_int_equal(b->tensor_frees, 1);
	assert_int_equal(b->allocated_bytes, 2 * MiB);
	assert_int_equal(m.process[0].books->teardown_events, 1);
	replay_release(&m);
}

static void an_oom_keeps_who_was_live_then(void **state)
{
	struct holders h;
	struct holders_query q = { .of = HOLDERS_TENSORS, .by = HOLDERS_BY_STACK, .mark = MARK_OOM };
	const struct device_books *b;

	(void)state;
	begin();
	s.python_stack = TFMT_STACK_NO_PYTHON;
	alloc(0x1000, 3 * MiB, 20 * MiB);
	synthetic_event(&s, TFMT_TENSOR_OOM, 0, 3 * MiB, 90 * MiB, 20 * MiB);
	alloc(0x2000, 2 * MiB, 20 * MiB);
	synthetic_event(&s, TFMT_TENSOR_OOM, 0, 5 * MiB, 91 * MiB, 20 * MiB);
	release(0x1000, 20 * MiB);
	alloc(0x3000, 1 * MiB, 20 * MiB);
	b = load(NULL);
	assert_int_equal(b->tensor_ooms, 2);
	assert_int_equal(b->oom_asked_bytes, 91 * MiB);
	assert_int_equal(b->moment[MARK_OOM].allocated_bytes, 5 * MiB);
	q.process = &m.process[0];
	holders_find(&h, &m, &q);
	assert_int_equal(h.total.bytes, 5 * MiB);
	assert_int_equal(h.total.blocks, 2);
	holders_release(&h);
	replay_release(&m);
}

/* Random allocations of several groups; at every peak a snapshot is taken the slow way. */
static void marks_equal_a_snapshot_taken_at_the_peak(void **state)
{
	enum { NR_GROUPS = 7, NR_BLOCKS = 50, NR_STEPS = 5000 };
	uint64_t live[NR_GROUPS] = { 0}, at_peak[NR_GROUPS] = { 0}, size[NR_BLOCKS] = { 0}, total = 0, peak = 0;
	int group[NR_BLOCKS] = { 0 };
	struct books *books;

	(void)state;
	begin();
	srandom(7);
	for (int step = 0; step < NR_STEPS; step++) {
		int i = (int)(random() % NR_BLOCKS);

		if (size[i]) {
			release(0x1000 * (1 + (uint64_t)i), 0);
			total -= size[i];
			live[group[i]] -= size[i];
			size[i] = 0;
			continue;
		}
		size[i] = 512 * (1 + (uint64_t)random() % 64);
		group[i] = (int)(random() % NR_GROUPS);
		s.python_stack = TFMT_STACK_FIRST + (uint32_t)group[i];
		alloc(0x1000 * (1 + (uint64_t)i), size[i], 0);
		total += size[i];
		live[group[i]] += size[i];
		if (total > peak) {
			peak = total;
			memcpy(at_peak, live, sizeof(live));
		}
	}
	assert_int_equal(load(NULL)->allocated_peak_bytes, peak);
	books = m.process[0].books;
	assert_int_equal(books_nr_groups(books), NR_GROUPS);
	for (uint32_t i = 0; i < NR_GROUPS; i++) {
		const struct group *g = books_group(books, i);

		assert_int_equal(group_figures_at(g, MARK_TENSOR_PEAK).bytes,
				 at_peak[g->python_stack - TFMT_STACK_FIRST]);
		assert_int_equal(group_figures_at(g, MARK_END).bytes,
				 live[g->python_stack - TFMT_STACK_FIRST]);
	}
	replay_release(&m);
}

static void a_time_can_be_asked_for(void **state)
{
	struct replay_options at = { .quiet = true, .has_at = true, .at_ns = SYNTHETIC_STEP };
	const struct device_books *b;

	(void)state;
	begin();
	alloc(0x1000, 3 * MiB, 20 * MiB);
	alloc(0x2000, 2 * MiB, 20 * MiB); /* at 1000 ns: belongs to it */
	release(0x1000, 20 * MiB);
	b = load(&at);
	assert_int_equal(b->moment[MARK_TIME].allocated_bytes, 5 * MiB);
	assert_int_equal(group_figures_at(books_group(m.process[0].books, 0), MARK_TIME).bytes, 5 * MiB);
	replay_release(&m);

	at.at_ns = 3600000000000ull; /* long after the end: the state at the end */
	assert_int_equal(replay_load(&m, TRACE, &at), 0);
	assert_int_equal(m.device[0].books->moment[MARK_TIME].allocated_bytes, 2 * MiB);
	assert_int_equal(group_figures_at(books_group(m.process[0].books, 0), MARK_TIME).bytes, 2 * MiB);
	replay_release(&m);
}

static void an_address_handed_out_twice_counts_once(void **state)
{
	const struct device_books *b;

	(void)state;
	begin();
	alloc(0x1000, 3 * MiB, 20 * MiB);
	alloc(0x1000, 2 * MiB, 20 * MiB);
	release(0x9000, 20 * MiB); /* never seen */
	b = load(NULL);
	assert_int_equal(b->tensor_allocs, 2);
	assert_int_equal(b->allocated_bytes, 2 * MiB);
	assert_int_equal(m.process[0].books->unmatched_frees, 1);
	replay_release(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_peak_is_the_first_event_that_reaches_it),
		cmocka_unit_test(requested_bytes_are_known_while_every_shape_is),
		cmocka_unit_test(teardown_counts_in_no_figure),
		cmocka_unit_test(an_oom_keeps_who_was_live_then),
		cmocka_unit_test(marks_equal_a_snapshot_taken_at_the_peak),
		cmocka_unit_test(a_time_can_be_asked_for),
		cmocka_unit_test(an_address_handed_out_twice_counts_once),
	};

	return cmocka_run_group_tests(tests, synthetic_enter, synthetic_leave);
}
