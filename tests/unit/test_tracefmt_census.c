/* SPDX-License-Identifier: MIT */
/* Censuses as no recorder writes them: ids with gaps, objects that are not there, an end that is missing. */
#include "synthetic_census.h"

#include <stdint.h>

#define CENSUS "a.1.names"

static struct synthetic_census made;

static void begin(void)
{
	synthetic_census_open(&made, CENSUS, 7, SYNTHETIC_START);
}

static struct tfmt_census *read_back(bool is_whole)
{
	struct tfmt_census *c;

	synthetic_census_close(&made, is_whole);
	assert_int_equal(tfmt_census_open(&c, CENSUS), 0);
	return c;
}

static uint32_t file_bytes(void)
{
	struct stat st;

	assert_int_equal(stat(CENSUS, &st), 0);
	return (uint32_t)st.st_size;
}

/* The id of the next object. */
static void skip_to(uint32_t id)
{
	made.nr_objects = id - 1;
}

/* What a damaged frame took is a gap: what comes after it is read all the same. */
static void test_a_gap(void **state)
{
	struct tfmt_census *c;
	uint32_t object;

	(void)state;
	begin();
	synthetic_local(&made, TFMT_KIND_TENSOR, "first");
	skip_to(100);
	object = synthetic_local(&made, TFMT_KIND_TENSOR, "after");
	synthetic_tensor(&made, object, 4096, 512);
	c = read_back(true);
	assert_int_equal(tfmt_census_nr_objects(c), 100);
	assert_string_equal(tfmt_census_object(c, 1)->name, "first");
	assert_string_equal(tfmt_census_object(c, 100)->name, "after");
	for (uint32_t id = 2; id < 100; id++)
		assert_null(tfmt_census_object(c, id));
	assert_int_equal(tfmt_census_nr_tensors(c), 1);
	tfmt_census_close(c);
}

/* No file of a few hundred bytes has had a million objects. */
static void test_gaps_cost_no_more_than_the_file_has_bytes(void **state)
{
	struct tfmt_census *c;

	(void)state;
	begin();
	for (uint32_t id = 1; id < 100; id++) {
		skip_to(id * 60000);
		synthetic_element(&made, 0, TFMT_EDGE_CYCLE, TFMT_KIND_TENSOR, 0);
	}
	skip_to(UINT32_MAX);
	synthetic_element(&made, 0, TFMT_EDGE_CYCLE, TFMT_KIND_TENSOR, 0);
	c = read_back(true);
	assert_true(tfmt_census_nr_objects(c) <= file_bytes() + 100);
	tfmt_census_close(c);
}

/* A key is an object of the census or none, whatever comes later and however large its number is. */
static void test_keys_that_are_not_there(void **state)
{
	struct tfmt_census *c;
	uint32_t good, late, lost, large;

	(void)state;
	begin();
	good = synthetic_element(&made, 0, TFMT_EDGE_OBJECT, TFMT_KIND_TENSOR, 4);
	late = synthetic_element(&made, 0, TFMT_EDGE_OBJECT, TFMT_KIND_TENSOR, 7);
	large = synthetic_element(&made, 0, TFMT_EDGE_OBJECT, TFMT_KIND_TENSOR, (1ull << 32) + 1);
	synthetic_local(&made, TFMT_KIND_TENSOR, "key");
	skip_to(6); /* 5 is missing: so are those that hang on it */
	lost = synthetic_element(&made, 5, TFMT_EDGE_INDEX, TFMT_KIND_LIST, 0);
	synthetic_tensor(&made, synthetic_element(&made, lost, TFMT_EDGE_INDEX, TFMT_KIND_TENSOR, 0), 4096, 512);
	c = read_back(true);
	assert_int_equal(tfmt_census_object(c, good)->number, 4);
	assert_null(tfmt_census_object(c, lost));
	assert_null(tfmt_census_object(c, 7));
	assert_int_equal(tfmt_census_object(c, late)->number, 0);
	assert_int_equal(tfmt_census_object(c, large)->number, 0);
	assert_int_equal(tfmt_census_nr_tensors(c), 0);
	tfmt_census_close(c);
}

/* Cut at every byte: refused, or what is there of it, less and less. */
static void test_cut_anywhere(void **state)
{
	struct tfmt_census *c;
	uint32_t nr = UINT32_MAX, flags = TFMT_CENSUS_WHOLE;

	(void)state;
	begin();
	synthetic_flush(&made.s);
	for (unsigned i = 0; i < 5; i++) {
		synthetic_tensor(&made, synthetic_local(&made, TFMT_KIND_TENSOR, "x"), 4096 * i, 512);
		synthetic_flush(&made.s);
	}
	synthetic_census_close(&made, true);
	for (uint32_t bytes = file_bytes(); bytes-- > 0;) {
		int err;

		assert_int_equal(truncate(CENSUS, bytes), 0);
		err = tfmt_census_open(&c, CENSUS);
		assert_true(!c == !!err);
		if (err)
			continue;
		assert_true(tfmt_census_nr_objects(c) <= nr && tfmt_census_nr_tensors(c) <= tfmt_census_nr_objects(c));
		assert_true((tfmt_census_facts(c)->flags & TFMT_CENSUS_WHOLE) <= (flags & TFMT_CENSUS_WHOLE));
		nr = tfmt_census_nr_objects(c);
		flags = tfmt_census_facts(c)->flags;
		tfmt_census_close(c);
	}
	assert_int_equal(nr, 0);
	assert_int_equal(flags, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_a_gap, synthetic_enter, synthetic_leave),
		cmocka_unit_test_setup_teardown(test_gaps_cost_no_more_than_the_file_has_bytes, synthetic_enter,
						synthetic_leave),
		cmocka_unit_test_setup_teardown(test_keys_that_are_not_there, synthetic_enter, synthetic_leave),
		cmocka_unit_test_setup_teardown(test_cut_anywhere, synthetic_enter, synthetic_leave),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
