/* SPDX-License-Identifier: MIT */
/* Comparing footprints: which stacks are one, what has grown, what makes two of them incomparable. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "analyzer/gate/rulings.h"
#include "analyzer/gate/baselinefile.h"

#define HEAD "schema = \"vramtrace/baseline/1\"\ntorch = \"2\"\n"
#define GPU "[[device]]\nordinal = 0\nname = \"GPU\"\n"
#define BYTES(peak) "[device.bytes]\npeak = " #peak "\n"
#define STACK(file, line, function, callers, shape, blocks, bytes) \
	"[[device.stack]]\nfile = \"" file "\"\nline = " #line "\nfunction = \"" function "\"\ncallers = [" callers \
	"]\nshape = \"" shape "\"\nblocks = " #blocks "\nbytes = " #bytes "\n"

static char path[] = "/tmp/test_compare-XXXXXX";
static struct footprint before, after;
static struct compare c;

static void read_text(struct footprint *f, const char *text)
{
	FILE *out = fopen(path, "w");

	assert_non_null(out);
	assert_true(fputs(text, out) >= 0);
	assert_int_equal(fclose(out), 0);
	assert_int_equal(baselinefile_read(f, path), 0);
}

static void compare_texts(const char *a, const char *b)
{
	read_text(&before, a);
	read_text(&after, b);
	compare_footprints(&c, &before, &after);
}

static void forget(void)
{
	compare_release(&c);
	footprint_release(&before);
	footprint_release(&after);
}

/* The stack that after has at this line; its match must be in line `was` (0: it has none). */
static const struct compare_stack *expect_match(uint32_t line, uint32_t was)
{
	for (uint32_t i = 0; i < c.device[0].nr_stacks; i++) {
		const struct compare_stack *s = &c.device[0].stack[i];

		if (!s->after || s->after->line != line)
			continue;
		assert_int_equal(s->before ? s->before->line : 0, was);
		return s;
	}
	fail_msg("no stack at line %u", line);
	return NULL;
}

static void moved_lines_are_matched_in_their_order(void **state)
{
	(void)state;
	compare_texts(HEAD GPU STACK("m.py", 10, "f", "\"main\"", "float32 [8]", 1, 100)
			      STACK("m.py", 12, "f", "\"main\"", "float32 [8]", 1, 100)
			      STACK("m.py", 14, "f", "\"main\"", "int64 [2]", 1, 16),
		      HEAD GPU STACK("m.py", 11, "f", "\"main\"", "float32 [8]", 1, 100)
			      STACK("m.py", 13, "f", "\"main\"", "float32 [8]", 1, 300)
			      STACK("m.py", 30, "f", "\"main\"", "int64 [2]", 1, 16));
	assert_int_equal(c.device[0].nr_stacks, 3);
	expect_match(30, 14);
	assert_int_equal(expect_match(13, 12)->grown_bytes, 200);
	expect_match(11, 10);
	assert_int_equal(c.device[0].stack[0].grown_bytes, 200); /* the most first */
	forget();
}

static void renamed_files_and_functions_are_matched(void **state)
{
	(void)state;
	compare_texts(HEAD GPU STACK("old.py", 5, "Net.forward", "\"train\", \"main\"", "float32 [8]", 2, 100)
			      STACK("m.py", 7, "attend", "\"Net.forward\", \"train\", \"main\"", "bfloat16 [4, 4]", 3, 96)
			      STACK("m.py", 9, "loss", "\"Net.forward\", \"train\", \"main\"", "float32 []", 1, 512),
		      HEAD GPU STACK("new.py", 5, "Net.forward", "\"train\", \"main\"", "float32 [16]", 2, 200)
			      STACK("m.py", 8, "attention", "\"Net.forward\", \"train\", \"main\"", "bfloat16 [4, 4]", 3, 96)
			      STACK("m.py", 20, "noise", "\"Net.forward\", \"train\", \"main\"", "int64 [2]", 1, 512));
	assert_int_equal(expect_match(5, 5)->grown_bytes, 100);
	assert_string_equal(expect_match(5, 5)->before->file, "old.py");
	assert_int_equal(expect_match(8, 7)->grown_bytes, 0);
	expect_match(20, 0); /* the same size at the same place of the stack is not enough */
	forget();
}

/* Two lists of tensors, filled by functions that have changed places, names and callers. */
static void what_has_the_same_name_is_the_same_wherever_it_is_made(void **state)
{
	(void)state;
	compare_texts(HEAD GPU STACK("m.py", 10, "fill", "\"main\"", "float32 [8]", 1, 100) "name = \"self.bank[*]\"\n"
			       "name_in = \"fit\"\n"
			       STACK("m.py", 20, "store", "\"main\"", "float32 [8]", 1, 100) "name = \"cache[*]\"\n",
		      HEAD GPU STACK("n.py", 70, "put", "\"g\", \"h\"", "int64 [2]", 5, 400) "name = \"cache[*]\"\n"
			       STACK("n.py", 90, "add", "\"h\"", "int64 [2]", 2, 150) "name = \"self.bank[*]\"\n"
			       "name_in = \"fit\"\n"
			       STACK("n.py", 95, "add", "\"h\"", "int64 [2]", 2, 150) "name = \"self.bank[*]\"\n"
			       "name_in = \"test\"\n");
	assert_int_equal(expect_match(70, 20)->grown_bytes, 300);
	assert_int_equal(expect_match(90, 10)->grown_bytes, 50);
	expect_match(95, 0); /* another function's */
	forget();
}

static void another_caller_more_is_the_same_function(void **state)
{
	(void)state;
	compare_texts(HEAD GPU STACK("m.py", 5, "f", "\"train\", \"main\", \"<module>\"", "float32 [8]", 2, 100),
		      HEAD GPU STACK("m.py", 6, "f", "\"wrapper\", \"train\", \"main\", \"<module>\"", "float32 [8]", 2, 100)
			      STACK("m.py", 9, "f", "\"other\"", "float32 [8]", 2, 100));
	expect_match(6, 5);
	expect_match(9, 0);
	forget();
}

static void parts_of_one_side_count_as_nothing_on_the_other(void **state)
{
	const struct compare_part *part;

	(void)state;
	compare_texts(HEAD GPU "[device.library]\ncublas = 3\ntorch = 5\n", HEAD GPU "[device.library]\nnccl = 4\ntorch = 5\n");
	assert_int_equal(c.device[0].nr_parts[BY_LIBRARY], 3);
	part = c.device[0].part[BY_LIBRARY];
	assert_string_equal(part[0].name, "cublas");
	assert_int_equal(part[0].before - part[0].after, 3);
	assert_string_equal(part[1].name, "nccl");
	assert_int_equal(part[1].after - part[1].before, 4);
	assert_int_equal(part[2].before, part[2].after);
	forget();
}

static void what_a_baseline_left_out_is_no_growth_of_a_stack(void **state)
{
	(void)state;
	compare_texts(HEAD "min_bytes = 50\n" GPU BYTES(130) STACK("m.py", 5, "f", "", "", 1, 100),
		      HEAD GPU BYTES(151) STACK("m.py", 5, "f", "", "", 1, 110) STACK("m.py", 7, "g", "", "", 1, 41));
	assert_int_equal(c.device[0].nr_stacks, 1);
	assert_int_equal(c.device[0].left_out_grown_bytes, 11);
	forget();
}

static void facts_that_differ_are_told(void **state)
{
	(void)state;
	compare_texts(HEAD GPU, "schema = \"vramtrace/baseline/1\"\ntorch = \"3\"\nsimulated = \"h100\"\nworld_size = 2\n"
				"[[device]]\nordinal = 0\nname = \"other\"\n[[device]]\nordinal = 1\n");
	assert_int_equal(c.nr_facts, 5);
	assert_string_equal(c.fact[0].what, "simulated GPU");
	assert_string_equal(c.fact[0].before, "none");
	assert_string_equal(c.fact[1].after, "3");
	assert_string_equal(c.fact[3].what, "GPUs used");
	assert_string_equal(c.fact[4].what, "GPU 0");
	forget();
}

static void percent_and_size_are_tolerances(void **state)
{
	struct tolerance t;
	char why[128];

	(void)state;
	assert_true(limits_parse_tolerance("2.5%", &t, why, sizeof(why)));
	assert_int_equal(tolerance_of(&t, 1000), 25);
	assert_true(limits_parse_tolerance("1000%", &t, why, sizeof(why)));
	assert_int_equal(tolerance_of(&t, 1000), 10000);
	assert_true(limits_parse_tolerance("64MiB", &t, why, sizeof(why)));
	assert_int_equal(tolerance_of(&t, 1), 64 << 20);
	for (const char *const *text = (const char *const[]){ "1000.1%", "2", "-2%", "%", "2%%", "2 %", "nan%", "1e3%", "", "0x2%", "inf", NULL };
	     *text; text++)
		assert_false(limits_parse_tolerance(*text, &t, why, sizeof(why)));
}

static void the_limit_that_names_more_counts(void **state)
{
	static const struct limit_opts opts = { .max_peak = "rank1=3GiB, 1GiB,gpu1=2GiB" };
	struct footprint_device d = { .rank = 0 };
	struct limits l;

	(void)state;
	assert_int_equal(limits_take(&l, &opts), 0);
	assert_int_equal(l.nr_limits, 3);
	assert_int_equal(limits_of(&l, LIMIT_PEAK, 0, &d)->most, 1ull << 30);
	d.ordinal = 1;
	assert_int_equal(limits_of(&l, LIMIT_PEAK, 0, &d)->most, 2ull << 30);
	d.ordinal = 0;
	d.rank = 1;
	assert_int_equal(limits_of(&l, LIMIT_PEAK, 0, &d)->most, 3ull << 30);
	assert_null(limits_of(&l, LIMIT_RESERVED, 0, &d));
	limits_release(&l);
}

static int make_file(void **state)
{
	int fd = mkstemp(path);

	(void)state;
	return fd < 0 || close(fd);
}

static int remove_file(void **state)
{
	(void)state;
	return unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(moved_lines_are_matched_in_their_order),
		cmocka_unit_test(renamed_files_and_functions_are_matched),
		cmocka_unit_test(what_has_the_same_name_is_the_same_wherever_it_is_made),
		cmocka_unit_test(another_caller_more_is_the_same_function),
		cmocka_unit_test(parts_of_one_side_count_as_nothing_on_the_other),
		cmocka_unit_test(what_a_baseline_left_out_is_no_growth_of_a_stack),
		cmocka_unit_test(facts_that_differ_are_told),
		cmocka_unit_test(percent_and_size_are_tolerances),
		cmocka_unit_test(the_limit_that_names_more_counts),
	};

	return cmocka_run_group_tests(tests, make_file, remove_file);
}
