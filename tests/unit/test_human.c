/* SPDX-License-Identifier: MIT */
/* Numbers as people read and type them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "analyzer/base/human.h"
#include "analyzer/base/term.h"

#define KIB 1024ull
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)

static void test_bytes(void **state)
{
	static const struct {
		uint64_t bytes;
		const char *text;
	} cases[] = {
		{ 0, "0 B" },
		{ 1, "1 B" },
		{ 1023, "1023 B" },
		{ 1024, "1.00 KiB" },
		{ 1536, "1.50 KiB" },
		{ 10 * KIB - 1, "10.0 KiB" },
		{ 100 * KIB - 1, "100 KiB" },
		{ 1023 * KIB, "1023 KiB" },
		{ MIB - 1, "1.00 MiB" },
		{ GIB - 1, "1.00 GiB" },
		{ 85017755648ull, "79.2 GiB" },
		{ UINT64_MAX, "16.0 EiB" },
	};
	char buf[HUMAN_MAX];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_string_equal(human_bytes(buf, cases[i].bytes), cases[i].text);
}

static void test_bytes_delta(void **state)
{
	char buf[HUMAN_MAX];

	(void)state;
	assert_string_equal(human_bytes_delta(buf, 0), "0 B");
	assert_string_equal(human_bytes_delta(buf, 1536), "+1.50 KiB");
	assert_string_equal(human_bytes_delta(buf, -12), "-12 B");
	assert_string_equal(human_bytes_delta(buf, INT64_MIN), "-8.00 EiB");
}

static void test_ns(void **state)
{
	static const struct {
		uint64_t ns;
		const char *text;
	} cases[] = {
		{ 0, "0 s" },
		{ 850, "850 ns" },
		{ 12300, "12.3 us" },
		{ 999600, "1.00 ms" },
		{ 4560000, "4.56 ms" },
		{ 7890000000, "7.89 s" },
		{ 99940000000, "99.9 s" },
		{ 99960000000, "1 min 39 s" },
		{ 725000000000, "12 min 05 s" },
		{ 11040000000000, "3 h 04 min" },
		{ 183600000000000, "2 d 03 h" },
	};
	char buf[HUMAN_MAX];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_string_equal(human_ns(buf, cases[i].ns), cases[i].text);
	human_ns(buf, UINT64_MAX);
}

static void test_count(void **state)
{
	char buf[HUMAN_MAX];

	(void)state;
	assert_string_equal(human_count(buf, 0), "0");
	assert_string_equal(human_count(buf, 999), "999");
	assert_string_equal(human_count(buf, 1000), "1,000");
	assert_string_equal(human_count(buf, 1234567), "1,234,567");
	assert_string_equal(human_count(buf, UINT64_MAX), "18,446,744,073,709,551,615");
}

static void test_percent_and_time(void **state)
{
	char buf[HUMAN_MAX];

	(void)state;
	assert_string_equal(human_percent(buf, 1, 8), "12.5%");
	assert_string_equal(human_percent(buf, 1, 0), "-");
	setenv("TZ", "UTC", 1);
	tzset();
	assert_string_equal(human_unix_ns(buf, 1700000000123456789), "2023-11-14 22:13:20");
}

static void test_parse_bytes(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} good[] = {
		{ "0", 0 },
		{ "4096", 4096 },
		{ "4096B", 4096 },
		{ "20GiB", 20 * GIB },
		{ "20G", 20 * GIB },
		{ "20g", 20 * GIB },
		{ "20gi", 20 * GIB },
		{ "1.5 MiB", 3 * MIB / 2 },
		{ "0.25k", 256 },
		{ "512k", 512 * KIB },
		{ "80GB", 80000000000ull },
		{ "1kB", 1000 },
		{ "15EiB", 15ull << 60 },
		{ "18446744073709551615", UINT64_MAX },
	};
	static const char *const bad[] = {
		"",     " ",  "x",     "-1",  "+1",    "1.",                   ".5",   "1.5",
		"1.5B", "1Q", "1GiBs", "1 2", "16EiB", "18446744073709551616", "0x10", "1e3",
	};
	uint64_t bytes;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		bytes = 77;
		assert_true(human_parse_bytes(good[i].text, &bytes));
		assert_int_equal(bytes, good[i].bytes);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		bytes = 77;
		assert_false(human_parse_bytes(bad[i], &bytes));
		assert_int_equal(bytes, 77);
	}
}

static void test_utf8(void **state)
{
	static const char *const bad[] = { "\x80",		   "\xc0\x80", "\xed\xa0\x80",
					   "\xf4\x90\x80\x80", "\xe2\x82", "\xff" };
	uint32_t point;

	(void)state;
	assert_int_equal(term_decode_utf8("\xe2\x82\xac", 3, &point), 3);
	assert_int_equal(point, 0x20ac);
	assert_int_equal(term_decode_utf8("", 0, &point), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(term_decode_utf8(bad[i], strlen(bad[i]), &point), 0);
	assert_int_equal(term_text_width("na\xc3\xafve", 6), 5);
	assert_int_equal(term_text_width("\xe4\xb8\xad", 3), 2);
	assert_int_equal(term_text_width("e\xcc\x81", 3), 1);
	assert_int_equal(term_text_width("\xff\xfe", 2), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_bytes_delta),
		cmocka_unit_test(test_ns),
		cmocka_unit_test(test_count),
		cmocka_unit_test(test_percent_and_time),
		cmocka_unit_test(test_parse_bytes),
		cmocka_unit_test(test_utf8),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
