/* SPDX-License-Identifier: MIT */
/* A trace that lacks a frame: totals and peaks after it are those of the headers, and holders add up to them. */
#include "synthetic.h"

#include "analyzer/holders/holders.h"
#include "analyzer/replay/replay.h"

#define MiB (1ll << 20)
#define TRACE "host.1.1.vtr"

static const struct replay_options quiet = { .quiet = true };
static struct synthetic s;
static struct replay m;
static off_t lost; /* where the frame begins that is to be damaged */

static void begin(void)
{
	struct tfmt_header header = synthetic_header(1);

	synthetic_open(&s, TRACE, &header);
	synthetic_device(&s, 0, 80 * 1024 * MiB);
}

static off_t file_size(void)
{
	struct stat st;

	synthetic_flush(&s);
	assert_int_equal(fstat(s.fd, &st), 0);
	return st.st_size;
}

static void alloc(uint64_t address, int64_t size)
{
	synthetic_event(&s, TFMT_DRIVER_ALLOC, 0, address, (uint64_t)size, 0);
}

static void release(uint64_t address)
{
	synthetic_event(&s, TFMT_DRIVER_FREE, 0, address, 0, 0);
}

static void tensor(uint64_t address, int64_t size, int64_t reserved)
{
	synthetic_event(&s, TFMT_TENSOR_ALLOC, 0, address, (uint64_t)size, (uint64_t)reserved);
}

static void tensor_release(uint64_t address, int64_t reserved)
{
	synthetic_event(&s, TFMT_TENSOR_FREE, 0, address, 0, (uint64_t)reserved);
}

/* Load the trace with one bit of the lost frame changed: the books of device 0. */
static const struct device_books *load(void)
{
	uint8_t byte;

	synthetic_flush(&s);
	assert_int_equal(pread(s.fd, &byte, 1, lost + 20), 1);
	byte ^= 4;
	assert_int_equal(pwrite(s.fd, &byte, 1, lost + 20), 1);
	synthetic_close(&s, 0);
	assert_int_equal(replay_load(&m, TRACE, &quiet), 0);
	assert_true(*m.process[0].damage);
	assert_int_equal(m.nr_devices, 1);
	return m.device[0].books;
}

/* The holders at a moment add up to its total, whatever was lost. */
static void check_sum(enum holders_of of, enum group_mark mark, int64_t bytes)
{
	struct holders_query q = { &m.process[0], 0, of, HOLDERS_BY_STACK, mark };
	struct holders h = HOLDERS_INIT;
	int64_t sum = 0;

	holders_find(&h, &m, &q);
	for (uint32_t i = 0; i < h.nr_holders; i++)
		sum += (int64_t)h.holder[i].figures.bytes;
	assert_int_equal((int64_t)h.total.bytes, bytes);
	assert_int_equal(sum, bytes);
	holders_release(&h);
}

static void lost_frees_of_the_driver(void **state)
{
	const struct device_books *b;

	(void)state;
	begin();
	alloc(0x100000, 60 * MiB);
	alloc(0x200000, 5 * MiB);
	lost = file_size();
	release(0x100000);
	synthetic_flush(&s);
	alloc(0x300000, 50 * MiB); /* 55: was 115 */
	synthetic_flush(&s);
	alloc(0x100000, 8 * MiB); /* where the one lay whose free was lost */
	alloc(0x400000, 1 * MiB);
	b = load();
	assert_int_equal(b->driver_peak_bytes, 65 * MiB);
	assert_int_equal(b->driver_bytes, 64 * MiB);
	assert_int_equal(books_residual(m.process[0].books, 0)->ledger, 64 * MiB);
	check_sum(HOLDERS_DRIVER, MARK_DRIVER_PEAK, 65 * MiB);
	check_sum(HOLDERS_DRIVER, MARK_END, 64 * MiB);
	replay_release(&m);
}

static void lost_allocations_of_the_driver(void **state)
{
	const struct device_books *b;

	(void)state;
	begin();
	alloc(0x100000, 10 * MiB);
	lost = file_size();
	alloc(0x200000, 70 * MiB);
	alloc(0x300000, 20 * MiB);
	synthetic_flush(&s);
	alloc(0x400000, 1 * MiB); /* 101: the peak */
	release(0x200000);        /* of unknown size */
	alloc(0x500000, 2 * MiB); /* 33, not 103 */
	synthetic_flush(&s);
	alloc(0x600000, 30 * MiB); /* 63 */
	alloc(0x700000, 40 * MiB); /* 103: a peak again */
	b = load();
	assert_int_equal(b->driver_peak_bytes, 103 * MiB);
	assert_int_equal(b->driver_bytes, 103 * MiB);
	check_sum(HOLDERS_DRIVER, MARK_DRIVER_PEAK, 103 * MiB);
	replay_release(&m);
}

/* A simulated device's context is modelled, and in the headers: lost, it must not pass for memory that was taken. */
static void a_lost_context_is_no_memory(void **state)
{
	struct tfmt_header header = synthetic_header(1);
	const struct device_books *b;

	(void)state;
	header.simulated = 1;
	synthetic_open(&s, TRACE, &header);
	synthetic_device(&s, 0, 80 * 1024 * MiB);
	synthetic_function(&s, 1, "context");
	lost = file_size();
	s.flags = TFMT_FLAG_MODELLED;
	s.function = 1;
	alloc(TFMT_MODELLED_ADDRESS, 500 * MiB);
	s.flags = s.function = 0;
	synthetic_flush(&s);
	alloc(0x100000, 10 * MiB);
	synthetic_flush(&s);
	alloc(0x200000, 20 * MiB);
	b = load();
	assert_int_equal(b->driver_peak_bytes, 30 * MiB);
	check_sum(HOLDERS_DRIVER, MARK_DRIVER_PEAK, 30 * MiB);
	replay_release(&m);
}

static void lost_tensors(void **state)
{
	const struct device_books *b;

	(void)state;
	begin();
	tensor(0x1000, 30 * MiB, 64 * MiB);
	tensor(0x2000, 10 * MiB, 64 * MiB);
	lost = file_size();
	tensor_release(0x1000, 64 * MiB);
	tensor(0x3000, 4 * MiB, 48 * MiB);
	synthetic_flush(&s);
	tensor(0x4000, 20 * MiB, 48 * MiB); /* 34: was 60 */
	tensor(0x1000, 2 * MiB, 48 * MiB);  /* 36 */
	tensor_release(0x3000, 48 * MiB);   /* 32, which nobody knows */
	tensor(0x5000, 5 * MiB, 48 * MiB);  /* 37: not 41 */
	synthetic_flush(&s);
	tensor(0x6000, 1 * MiB, 48 * MiB); /* 38 */
	b = load();
	assert_int_equal(b->allocated_peak_bytes, 40 * MiB);
	assert_int_equal(b->allocated_bytes, 38 * MiB);
	assert_int_equal(b->reserved_peak_bytes, 64 * MiB);
	assert_int_equal(b->disagreements, 0);
	check_sum(HOLDERS_TENSORS, MARK_TENSOR_PEAK, 40 * MiB);
	check_sum(HOLDERS_TENSORS, MARK_END, 38 * MiB);
	replay_release(&m);
}

static const struct device_books *load_at_end(bool is_exact)
{
	const struct device_books *b = load();

	assert_int_equal(replay_end_is_exact(&m.device[0], REPLAY_ALLOCATED), is_exact);
	assert_int_equal(replay_end_is_exact(&m.device[0], REPLAY_DRIVER), is_exact);
	return b;
}

/* Nothing follows the gap but END, whose header tells what was live. */
static void what_end_says_of_lost_frees(void **state)
{
	const struct device_books *b;

	(void)state;
	begin();
	alloc(0x100000, 60 * MiB);
	alloc(0x200000, 5 * MiB);
	tensor(0x1000, 30 * MiB, 64 * MiB);
	lost = file_size();
	release(0x100000);
	tensor_release(0x1000, 4 * MiB);
	b = load_at_end(true);
	assert_int_equal(b->driver_bytes, 5 * MiB);
	assert_int_equal(b->driver_peak_bytes, 65 * MiB);
	assert_int_equal(b->allocated_bytes, 0);
	assert_int_equal(b->reserved_bytes, 4 * MiB); /* but for what the driver gave or took since the report */
	assert_false(replay_end_is_exact(&m.device[0], REPLAY_RESERVED));
	check_sum(HOLDERS_DRIVER, MARK_END, 5 * MiB);
	check_sum(HOLDERS_TENSORS, MARK_END, 0);
	replay_release(&m);
}

/* The last event lies where a block did whose free was lost. */
static void what_end_says_behind_a_reused_address(void **state)
{
	(void)state;
	begin();
	alloc(0x100000, 60 * MiB);
	lost = file_size();
	release(0x100000);
	synthetic_flush(&s);
	alloc(0x100000, 8 * MiB);
	assert_int_equal(load_at_end(true)->driver_bytes, 8 * MiB);
	replay_release(&m);
}

/* Of what is lost right before END, some may be of the interpreter's end, which counts in no figure. */
static void the_end_of_python_may_be_what_is_lost(void **state)
{
	(void)state;
	begin();
	synthetic_info(&s, "python_frames", "supported: 3.12");
	alloc(0x100000, 60 * MiB);
	lost = file_size();
	release(0x100000);
	load_at_end(false);
	replay_release(&m);

	begin();
	synthetic_info(&s, "python_frames", "supported: 3.12");
	alloc(0x100000, 60 * MiB);
	alloc(0x200000, 5 * MiB);
	lost = file_size();
	release(0x100000);
	synthetic_flush(&s);
	alloc(0x300000, 1 * MiB);
	s.flags = TFMT_FLAG_TEARDOWN;
	release(0x200000);
	assert_int_equal(load_at_end(true)->driver_bytes, 6 * MiB);
	replay_release(&m);

	begin();
	alloc(0x100000, 60 * MiB);
	s.flags = TFMT_FLAG_TEARDOWN;
	release(0x300000);
	lost = file_size();
	release(0x100000);
	assert_int_equal(load_at_end(true)->driver_bytes, 60 * MiB);
	replay_release(&m);

	begin();
	alloc(0x100000, 60 * MiB);
	lost = file_size();
	release(0x100000);
	synthetic_flush(&s);
	s.flags = TFMT_FLAG_TEARDOWN;
	release(0x300000);
	load_at_end(false);
	replay_release(&m);
}

/* Neither END nor a ring file: what else there was nobody knows. */
static void a_trace_without_an_end(void **state)
{
	(void)state;
	begin();
	alloc(0x100000, 60 * MiB);
	synthetic_close(&s, 256);
	assert_int_equal(replay_load(&m, TRACE, &quiet), 0);
	assert_false(replay_end_is_exact(&m.device[0], REPLAY_DRIVER));
	replay_release(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lost_frees_of_the_driver),
		cmocka_unit_test(lost_allocations_of_the_driver),
		cmocka_unit_test(a_lost_context_is_no_memory),
		cmocka_unit_test(lost_tensors),
		cmocka_unit_test(what_end_says_of_lost_frees),
		cmocka_unit_test(what_end_says_behind_a_reused_address),
		cmocka_unit_test(the_end_of_python_may_be_what_is_lost),
		cmocka_unit_test(a_trace_without_an_end),
	};

	return cmocka_run_group_tests_name("model of a damaged trace", tests, synthetic_enter, synthetic_leave);
}
