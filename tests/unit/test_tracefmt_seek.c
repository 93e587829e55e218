/* SPDX-License-Identifier: MIT */
/* Going to a time: what is read from there on is what one gets who reads all. */
#include <fcntl.h>

#include "tests/unit/tracefmt_seek.h"

static void test_whole(void **state)
{
	struct flight f;

	(void)state;
	for (uint64_t seed = 1; seed <= 3; seed++) {
		record_whole(&f, seed);
		assert_true(check_times(f.path) >= NR_TIMES);
		flight_forget(&f);
	}
}

static void test_kept(void **state)
{
	struct flight f;

	(void)state;
	start(&f, 4);
	record(&f, 75000);
	flight_end(&f);
	assert_true(f.nr_drops > 0);
	assert_in_range(check_times(f.path), 2, NR_TIMES);
	flight_forget(&f);
}

/* It has no END yet, and is not locked. */
static void test_unfinished(void **state)
{
	struct flight f;

	(void)state;
	start(&f, 5);
	record(&f, UINT64_MAX / 4);
	assert_true(check_times(f.path) >= NR_TIMES);
	flight_end(&f);
	flight_forget(&f);
}

/* ---- elsewhere ------------------------------------------------------------------------------- */

static void test_pipe(void **state)
{
	unsigned nr_before = 0, nr_damaged = 0, nr = 0;
	uint8_t *bytes;
	char name[64];
	struct tfmt_reader *r;
	struct tfmt_event ev;
	struct flight f;
	size_t len;
	int fd[2];

	(void)state;
	record_whole(&f, 11);
	bytes = stream_load(f.path, &len);
	assert_int_equal(pipe(fd), 0);
	assert_true(fcntl(fd[1], F_SETPIPE_SZ, 1 << 20) >= (int)len);
	assert_int_equal(write(fd[1], bytes, len), (ssize_t)len);
	close(fd[1]);
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd[0]);
	assert_int_equal(tfmt_reader_open(&r, name, NULL), 0);
	assert_int_equal(tfmt_reader_seek(r, stream.time_ns / 2), 0);
	while (next(r, &ev, &nr_before, &nr_damaged) > 0)
		nr++;
	assert_int_equal(nr, NR_EVENTS);
	assert_int_equal(nr_damaged, 0);
	tfmt_reader_close(r);
	close(fd[0]);
	free(bytes);
	flight_forget(&f);
}

static int copy_one(void *context, struct tfmt_writer *w, uint32_t type, uint32_t id, const uint8_t *payload, size_t len)
{
	(void)context;
	return tfmt_writer_definition(w, type, id, payload, len);
}

/* A copy has neither checkpoints nor index, and does not claim to. */
static void test_copy(void **state)
{
	struct tfmt_reader *r;
	struct tfmt_event ev;
	struct flight f;

	(void)state;
	record_whole(&f, 12);
	f.other_fd = stream_create(f.other);
	assert_int_equal(tfmt_reader_open(&r, f.path, NULL), 0);
	assert_int_equal(tfmt_copy(r, f.other_fd, tfmt_reader_header(r), false, copy_one, NULL), 0);
	tfmt_reader_close(r);
	close(f.other_fd);
	assert_int_equal(check_seek(f.other, stream.time_ns / 2), 0);
	assert_int_equal(tfmt_reader_open(&r, f.other, NULL), 0);
	while (tfmt_reader_next(r, &ev) > 0)
		;
	assert_true(tfmt_reader_summary(r)->sealed);
	assert_int_equal(tfmt_reader_summary(r)->nr_damaged, 0);
	assert_int_equal(tfmt_reader_summary(r)->nr_events, NR_EVENTS);
	assert_int_equal(tfmt_reader_seek(r, 0), TFMT_E_INVALID);
	tfmt_reader_close(r);
	unlink(f.other);
	flight_forget(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole),
		cmocka_unit_test(test_kept),
		cmocka_unit_test(test_unfinished),
		cmocka_unit_test(test_pipe),
		cmocka_unit_test(test_copy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
