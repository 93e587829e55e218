/* SPDX-License-Identifier: MIT */
/* Which events are fragmentation that did harm, which are not, and who is named for it. */
#include "synthetic.h"

#include "analyzer/allocator/frag.h"

#define MiB (1ull << 20)
#define TRACE "host.1.1.vtr"
#define BASE 0x7f0000000000ull
#define TORCH_STACK 11
#define KEEPER_STACK 20
#define OTHER_STACK 21

static struct synthetic s;
static struct replay m;
static struct frag f;
static struct frag_device *d;
static uint64_t reserved, allocated;

static void begin(void)
{
	struct tfmt_header header = synthetic_header(1);

	synthetic_open(&s, TRACE, &header);
	synthetic_module(&s, 0, 0x10000, 0x20000, "/x/libcudart.so.13");
	synthetic_module(&s, 1, 0x20000, 0x30000, "/x/site-packages/torch/lib/libc10_cuda.so");
	synthetic_frame(&s, TORCH_STACK - 1, 0, TFMT_FRAME_NATIVE, 0x20010, 0);
	synthetic_frame(&s, TORCH_STACK, TORCH_STACK - 1, TFMT_FRAME_NATIVE, 0x10010, 0);
	synthetic_code(&s, 1, "keep", "/x/keeper.py", 7);
	synthetic_code(&s, 2, "other", "/x/other.py", 9);
	synthetic_frame(&s, KEEPER_STACK, 0, TFMT_FRAME_PYTHON, 1, 0);
	synthetic_frame(&s, OTHER_STACK, 0, TFMT_FRAME_PYTHON, 2, 0);
	s.native_stack = TORCH_STACK;
	s.python_stack = OTHER_STACK;
	reserved = allocated = 0;
}

static void take(uint64_t address, uint64_t bytes)
{
	reserved += bytes;
	synthetic_event(&s, TFMT_DRIVER_ALLOC, 0, address, bytes, 0);
}

static void give(uint64_t address, uint64_t bytes)
{
	reserved -= bytes;
	synthetic_event(&s, TFMT_DRIVER_FREE, 0, address, 0, 0);
}

static void alloc(uint64_t address, uint64_t bytes)
{
	allocated += bytes;
	synthetic_event(&s, TFMT_TENSOR_ALLOC, 0, address, bytes, reserved);
}

static void release(uint64_t address, uint64_t bytes)
{
	allocated -= bytes;
	synthetic_event(&s, TFMT_TENSOR_FREE, 0, address, 0, reserved);
}

static void oom(uint64_t bytes)
{
	synthetic_event(&s, TFMT_TENSOR_OOM, 0, allocated, bytes, reserved);
}

static void refuse(uint64_t bytes)
{
	synthetic_event(&s, TFMT_ALLOC_FAILED, 0, 0, bytes, 2);
}

static void told(uint64_t action, uint64_t address, uint64_t bytes)
{
	synthetic_event(&s, TFMT_ALLOCATOR, 0, address, bytes, action);
}

/* A segment of 100 MiB with a small block in the middle. */
static void fill(uint64_t address)
{
	take(address, 100 * MiB);
	alloc(address, 50 * MiB);
	s.python_stack = KEEPER_STACK;
	alloc(address + 50 * MiB, 2 * MiB);
	s.python_stack = OTHER_STACK;
	alloc(address + 52 * MiB, 48 * MiB);
}

/* Only the block in the middle stays live. */
static void empty(uint64_t address)
{
	release(address, 50 * MiB);
	release(address + 52 * MiB, 48 * MiB);
}

static void cut_up(uint64_t address)
{
	fill(address);
	empty(address);
}

static void load(void)
{
	struct replay_options options = { .quiet = true, .observe = frag_observe, .ctx = &f };

	synthetic_close(&s, 0);
	frag_init(&f);
	assert_int_equal(replay_load(&m, TRACE, &options), 0);
	frag_finish(&f);
	d = frag_of(&f, &m.device[0]);
	assert_non_null(d);
	assert_int_equal(d->disagreements, 0);
}

static void end(void)
{
	frag_release(&f);
	replay_release(&m);
}

static void a_failure_beside_enough_free_memory(void **state)
{
	struct blockers b;

	(void)state;
	begin();
	cut_up(BASE);
	oom(60 * MiB);
	load();
	assert_int_equal(d->failures, 1);
	assert_true(frag_is_finding(d, FRAG_FAILED));
	assert_int_equal(d->harm[FRAG_FAILED].asked, 60 * MiB);
	assert_int_equal(d->harm[FRAG_FAILED].free_bytes, 98 * MiB);
	assert_int_equal(d->harm[FRAG_FAILED].largest_free, 50 * MiB);
	assert_int_equal(d->moment[FRAG_FAILURE].figures.stuck, 98 * MiB);
	blockers_find(&b, &d->moment[FRAG_FAILURE].blocks, &m, &m.process[0]);
	assert_int_equal(b.nr_blockers, 1);
	assert_string_equal(b.blocker[0].site.file, "/x/keeper.py");
	assert_int_equal(b.blocker[0].kept_bytes, 98 * MiB);
	assert_int_equal(b.blocker[0].blocks, 1);
	assert_int_equal(b.blocker[0].alone_units, 1);
	blockers_release(&b);
	end();
}

static void a_failure_that_is_plainly_too_big(void **state)
{
	(void)state;
	begin();
	cut_up(BASE);
	oom(99 * MiB);
	oom(40 * MiB); /* a block would have held it: it was not at hand */
	load();
	assert_int_equal(d->failures, 2);
	assert_false(frag_is_finding(d, FRAG_FAILED));
	assert_false(d->moment[FRAG_FAILURE].reached);
	end();
}

static void fill_and_retry(void)
{
	take(BASE, 40 * MiB);
	alloc(BASE, 40 * MiB);
	take(BASE + 100 * MiB, 40 * MiB);
	alloc(BASE + 100 * MiB, 40 * MiB);
	release(BASE, 40 * MiB);
	release(BASE + 100 * MiB, 40 * MiB);
}

static void retry(void)
{
	refuse(60 * MiB);
	give(BASE, 40 * MiB);
	give(BASE + 100 * MiB, 40 * MiB);
	take(BASE + 200 * MiB, 60 * MiB);
	alloc(BASE + 200 * MiB, 60 * MiB);
}

static void a_retry_for_which_the_cache_held_enough(void **state)
{
	(void)state;
	begin();
	fill_and_retry();
	retry();
	load();
	assert_true(frag_is_finding(d, FRAG_RETRY));
	assert_int_equal(d->harm[FRAG_RETRY].free_bytes, 80 * MiB);
	assert_int_equal(d->harm[FRAG_RETRY].largest_free, 40 * MiB);
	end();

	begin();
	fill_and_retry();
	oom(500 * MiB); /* the cache holds what a failed attempt has left */
	retry();
	load();
	assert_false(frag_is_finding(d, FRAG_RETRY));
	end();
}

static void a_segment_taken_beside_stuck_memory(void **state)
{
	(void)state;
	begin();
	for (unsigned i = 0; i < 8; i++)
		fill(BASE + 200 * MiB * i);
	for (unsigned i = 0; i < 8; i++)
		empty(BASE + 200 * MiB * i);
	take(BASE + 4000 * MiB, 60 * MiB);
	alloc(BASE + 4000 * MiB, 60 * MiB);
	load();
	assert_int_equal(d->harm[FRAG_SEGMENT].count, 1);
	assert_int_equal(d->harm[FRAG_SEGMENT].free_bytes, 8 * 98 * MiB);
	assert_int_equal(d->moment[FRAG_PEAK].figures.forced, 60 * MiB);
	assert_true(frag_is_stuck(d));
	end();
}

/* What was stuck when a segment was taken is used at the peak: nothing was lost. */
static void a_segment_that_made_no_difference(void **state)
{
	(void)state;
	begin();
	cut_up(BASE);
	take(BASE + 200 * MiB, 60 * MiB);
	alloc(BASE + 200 * MiB, 60 * MiB);
	alloc(BASE, 50 * MiB);
	alloc(BASE + 52 * MiB, 48 * MiB);
	take(BASE + 300 * MiB, 40 * MiB);
	alloc(BASE + 300 * MiB, 40 * MiB);
	load();
	assert_int_equal(d->harm[FRAG_SEGMENT].count, 1);
	assert_false(frag_is_finding(d, FRAG_SEGMENT));
	assert_false(frag_is_stuck(d));
	end();
}

/* Batches of growing length: each leaves a segment that is wholly free, and could be given back for the next. */
static void a_segment_beside_as_much_that_could_be_given_back(void **state)
{
	(void)state;
	begin();
	cut_up(BASE);
	take(BASE + 200 * MiB, 60 * MiB);
	alloc(BASE + 200 * MiB, 60 * MiB);
	release(BASE + 200 * MiB, 60 * MiB);
	take(BASE + 400 * MiB, 80 * MiB);
	alloc(BASE + 400 * MiB, 80 * MiB);
	release(BASE + 400 * MiB, 80 * MiB);
	take(BASE + 600 * MiB, 300 * MiB);
	alloc(BASE + 600 * MiB, 300 * MiB);
	load();
	assert_int_equal(d->harm[FRAG_SEGMENT].count, 2);
	assert_int_equal(d->moment[FRAG_PEAK].figures.forced, 140 * MiB);
	assert_int_equal(d->moment[FRAG_PEAK].figures.empty_cache, 140 * MiB);
	assert_int_equal(frag_forced_bytes(d), 0);
	assert_false(frag_is_finding(d, FRAG_SEGMENT));
	end();

	begin(); /* the same, but that they are in use: they are there beside what is stuck */
	cut_up(BASE);
	take(BASE + 200 * MiB, 60 * MiB);
	alloc(BASE + 200 * MiB, 60 * MiB);
	take(BASE + 400 * MiB, 80 * MiB);
	alloc(BASE + 400 * MiB, 80 * MiB);
	take(BASE + 600 * MiB, 300 * MiB);
	alloc(BASE + 600 * MiB, 300 * MiB);
	load();
	assert_int_equal(frag_forced_bytes(d), (98 - 20) * MiB);
	assert_true(frag_is_finding(d, FRAG_SEGMENT));
	assert_false(frag_is_stuck(d));
	end();
}

/* What is stuck lies in pieces that are too small wherever the blocks are: it is not the segments' fault. */
static void a_segment_that_segments_that_grow_would_need_too(void **state)
{
	(void)state;
	begin();
	for (unsigned i = 0; i < 4; i++) {
		uint64_t at = BASE + 100 * MiB * i;

		take(at, 20 * MiB);
		alloc(at, 5 * MiB);
		alloc(at + 5 * MiB, 10 * MiB);
		alloc(at + 15 * MiB, 5 * MiB);
	}
	for (unsigned i = 0; i < 4; i++) {
		release(BASE + 100 * MiB * i, 5 * MiB);
		release(BASE + 100 * MiB * i + 15 * MiB, 5 * MiB);
	}
	for (unsigned i = 4; i < 9; i++) {
		take(BASE + 100 * MiB * i, 12 * MiB);
		alloc(BASE + 100 * MiB * i, 12 * MiB);
	}
	load();
	assert_int_equal(d->moment[FRAG_PEAK].figures.forced, 5 * 12 * MiB);
	assert_int_equal(frag_forced_bytes(d), 20 * MiB);
	assert_int_equal(frag_saved_by_growing(d), 0);
	assert_false(frag_is_finding(d, FRAG_SEGMENT));
	end();
}

static void a_graph_keeps_its_own(void **state)
{
	(void)state;
	begin();
	s.flags = TFMT_FLAG_CAPTURING;
	take(BASE, 100 * MiB);
	alloc(BASE, 100 * MiB);
	release(BASE, 100 * MiB);
	s.flags = 0;
	oom(60 * MiB);
	load();
	assert_false(frag_is_finding(d, FRAG_FAILED));
	assert_int_equal(d->moment[FRAG_END].figures.held, 100 * MiB);
	assert_int_equal(d->moment[FRAG_END].figures.empty_cache, 0);
	assert_int_equal(d->moment[FRAG_END].figures.stuck, 0);
	end();
}

static void what_another_stream_uses_is_pending(void **state)
{
	(void)state;
	begin();
	take(BASE, 100 * MiB);
	told(TFMT_ALLOCATOR_ALLOC, BASE, 50 * MiB - 7);
	alloc(BASE, 50 * MiB);
	told(TFMT_ALLOCATOR_ALLOC, BASE + 50 * MiB, 20 * MiB);
	alloc(BASE + 50 * MiB, 20 * MiB);
	told(TFMT_ALLOCATOR_FREE_REQUESTED, BASE, 50 * MiB - 7);
	release(BASE, 50 * MiB);
	told(TFMT_ALLOCATOR_FREE_REQUESTED, BASE + 50 * MiB, 20 * MiB);
	told(TFMT_ALLOCATOR_FREE_COMPLETED, BASE + 50 * MiB, 20 * MiB);
	release(BASE + 50 * MiB, 20 * MiB);
	load();
	assert_int_equal(d->moment[FRAG_END].figures.pending, 50 * MiB);
	assert_int_equal(d->moment[FRAG_END].figures.known - d->moment[FRAG_END].figures.requested, 7);
	assert_int_equal(d->moment[FRAG_END].figures.largest_free, 50 * MiB);
	end();
}

static void expandable_segments_need_no_room_for_the_freed(void **state)
{
	(void)state;
	begin();
	fill_and_retry();
	take(BASE + 200 * MiB, 80 * MiB);
	alloc(BASE + 200 * MiB, 80 * MiB);
	load();
	assert_int_equal(d->moment[FRAG_PEAK].figures.reserved, 160 * MiB);
	assert_int_equal(expandable_peak(&d->expandable), 80 * MiB);
	assert_false(frag_is_expandable(d));
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_failure_beside_enough_free_memory),
		cmocka_unit_test(a_failure_that_is_plainly_too_big),
		cmocka_unit_test(a_retry_for_which_the_cache_held_enough),
		cmocka_unit_test(a_segment_taken_beside_stuck_memory),
		cmocka_unit_test(a_segment_that_made_no_difference),
		cmocka_unit_test(a_segment_beside_as_much_that_could_be_given_back),
		cmocka_unit_test(a_segment_that_segments_that_grow_would_need_too),
		cmocka_unit_test(a_graph_keeps_its_own),
		cmocka_unit_test(what_another_stream_uses_is_pending),
		cmocka_unit_test(expandable_segments_need_no_room_for_the_freed),
	};

	return cmocka_run_group_tests(tests, synthetic_enter, synthetic_leave);
}
