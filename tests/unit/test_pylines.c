/* SPDX-License-Identifier: MIT */
/*
 * Line tables: what CPython 3.8, 3.10, 3.11 and 3.13 compiled one function to, and the line that each of
 * these interpreters itself gives for every code unit. The function has a loop, a condition over several
 * lines, a try/finally, a comprehension and a gap of more than 127 lines.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/stacks/pylines.h"

/* CPython 3.8 */
static const uint8_t table_38[] = {
	0x00, 0x01, 0x04, 0x01, 0x08, 0x01, 0x08, 0x01, 0x02, 0xff, 0x02, 0x02, 0x02, 0x01, 0x02, 0x01,
	0x02, 0xff, 0x02, 0xff, 0x06, 0x06, 0x02, 0x01, 0x0c, 0x02, 0x0c, 0x7f, 0x00, 0x09, 0x06, 0x02,
	0x06, 0xfe,
};
static const uint16_t lines_38[] = {
	2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 4, 6, 7, 8, 7, 6, 6, 6, 12,
	13, 13, 13, 13, 13, 13, 15, 15, 15, 15, 15, 15, 151, 151, 151, 153, 153, 153, 151, 151,
	151,
};

/* CPython 3.10 */
static const uint8_t table_310[] = {
	0x04, 0x01, 0x08, 0x01, 0x08, 0x01, 0x02, 0x01, 0x02, 0xff, 0x02, 0x02, 0x02, 0x01, 0x02, 0x01,
	0x02, 0xff, 0x06, 0xff, 0x02, 0x06, 0x0a, 0x01, 0x14, 0x02, 0x00, 0x7f, 0x06, 0x09, 0x06, 0x02,
	0x06, 0xfe,
};
static const uint16_t lines_310[] = {
	2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 4, 6, 7, 8, 7, 6, 6, 6, 12,
	13, 13, 13, 13, 13, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 151, 151, 151, 153, 153,
	153, 151, 151, 151,
};

/* CPython 3.11 */
static const uint8_t table_311[] = {
	0x80, 0x00, 0xd8, 0x0c, 0x0d, 0x80, 0x45, 0xd8, 0x0d, 0x13, 0xf0, 0x00, 0x0c, 0x05, 0x1b, 0xf0,
	0x00, 0x0c, 0x05, 0x1b, 0x88, 0x01, 0xd8, 0x0c, 0x0d, 0x90, 0x01, 0x8a, 0x45, 0x88, 0x45, 0xd8,
	0x14, 0x18, 0xf0, 0x03, 0x00, 0x0d, 0x12, 0xe0, 0x0c, 0x11, 0xd8, 0x10, 0x11, 0xd8, 0x10, 0x11,
	0xf1, 0x03, 0x01, 0x11, 0x12, 0xf1, 0x03, 0x03, 0x0d, 0x0e, 0x88, 0x45, 0x88, 0x45, 0xf0, 0x0c,
	0x03, 0x0d, 0x1b, 0xd8, 0x10, 0x15, 0x98, 0x11, 0x91, 0x0a, 0x90, 0x05, 0xe0, 0x10, 0x15, 0x98,
	0x11, 0x91, 0x0a, 0x90, 0x05, 0x90, 0x05, 0xf8, 0x90, 0x05, 0x98, 0x11, 0x91, 0x0a, 0x90, 0x05,
	0x90, 0x05, 0x90, 0x05, 0x90, 0x05, 0x90, 0x05, 0xf0, 0x50, 0x04, 0x03, 0x0c, 0x06, 0xf0, 0x00,
	0x03, 0x0c, 0x06, 0xe5, 0x11, 0x16, 0x90, 0x75, 0x91, 0x1c, 0x94, 0x1c, 0xf0, 0x05, 0x03, 0x0c,
	0x06, 0xf1, 0x00, 0x03, 0x0c, 0x06, 0xf4, 0x00, 0x03, 0x0c, 0x06, 0xf0, 0x00, 0x03, 0x05, 0x06,
};
static const uint16_t lines_311[] = {
	1, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4, 5, 4, 6, 7, 8, 7, 7,
	6, 6, 6, 6, 12, 13, 13, 13, 13, 13, 15, 15, 15, 15, 15, 15, 1, 15, 15, 15,
	15, 15, 15, 15, 15, 15, 151, 151, 153, 153, 153, 153, 153, 153, 153, 153, 153, 153, 153, 153,
	153, 153, 151, 151, 151, 151, 151, 151, 151, 151, 151,
};

/* CPython 3.13 */
static const uint8_t table_313[] = {
	0x80, 0x00, 0xd8, 0x0c, 0x0d, 0x80, 0x45, 0xdb, 0x0d, 0x13, 0x88, 0x01, 0xd8, 0x0c, 0x0d, 0x90,
	0x01, 0x8b, 0x45, 0xde, 0x14, 0x18, 0xd8, 0x0c, 0x11, 0xd8, 0x10, 0x11, 0xd8, 0x10, 0x11, 0xf1,
	0x03, 0x01, 0x11, 0x12, 0xf1, 0x03, 0x03, 0x0d, 0x0e, 0x8a, 0x45, 0xf0, 0x0c, 0x03, 0x0d, 0x1b,
	0xd8, 0x10, 0x15, 0x91, 0x0a, 0x90, 0x05, 0xe0, 0x10, 0x15, 0x98, 0x11, 0x91, 0x0a, 0x92, 0x05,
	0xf1, 0x19, 0x00, 0x0e, 0x14, 0xf4, 0x6c, 0x04, 0x00, 0x12, 0x17, 0x90, 0x75, 0x94, 0x1c, 0xf3,
	0x05, 0x03, 0x0c, 0x06, 0xe1, 0x11, 0x1d, 0x88, 0x41, 0xf3, 0x03, 0x00, 0x09, 0x0a, 0xd9, 0x11,
	0x1d, 0xf1, 0x05, 0x03, 0x0c, 0x06, 0xf0, 0x00, 0x03, 0x05, 0x06, 0xf8, 0xf0, 0x51, 0x04, 0x00,
	0x11, 0x16, 0x98, 0x11, 0x91, 0x0a, 0x91, 0x05, 0xfc, 0xf2, 0x50, 0x04, 0x03, 0x0c, 0x06,
};
static const uint16_t lines_313[] = {
	1, 2, 2, 3, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4, 5, 5, 5, 5, 5, 5,
	5, 6, 7, 8, 7, 7, 6, 6, 6, 6, 6, 12, 13, 13, 13, 13, 15, 15, 15, 15,
	15, 15, 15, 3, 3, 153, 153, 153, 153, 153, 153, 153, 153, 153, 153, 153, 151, 151, 151, 151,
	153, 153, 153, 152, 152, 152, 152, 153, 153, 151, 151, 151, 1, 15, 15, 15, 15, 15, 15, 1,
	1, 1, 1, 1, 151, 151, 151,
};

static void check_table(uint32_t kind, const uint8_t *table, size_t table_bytes, const uint16_t *lines,
			size_t nr_units)
{
	struct tfmt_code code = {
	    .first_line = 1, .table_kind = kind, .table = table, .table_bytes = table_bytes };

	for (size_t i = 0; i < nr_units; i++)
		assert_int_equal(pylines_line(&code, (int32_t)i), lines[i]);
}

#define CHECK_TABLE(kind, version) \
	check_table(kind, table_##version, sizeof(table_##version), lines_##version, \
		    sizeof(lines_##version) / sizeof(*lines_##version))

static void lnotab_gives_the_interpreters_lines(void **state)
{
	(void)state;
	CHECK_TABLE(TFMT_LINES_LNOTAB, 38);
}

static void pep626_gives_the_interpreters_lines(void **state)
{
	(void)state;
	CHECK_TABLE(TFMT_LINES_PEP626, 310);
}

static void pep657_gives_the_interpreters_lines(void **state)
{
	(void)state;
	CHECK_TABLE(TFMT_LINES_PEP657, 311);
	CHECK_TABLE(TFMT_LINES_PEP657, 313);
}

/* The position of the first instruction of a line, -1: there is none. */
static int32_t first_on(const struct tfmt_code *code, uint32_t line)
{
	for (int32_t i = 0; i < 1000; i++)
		if (pylines_line(code, i) == line)
			return i;
	return -1;
}

/* What co_positions() of CPython 3.11 gives as the least column of each line. */
static void lines_are_indented_as_the_interpreter_says(void **state)
{
	static const uint16_t columns[][2] = { { 2, 4 }, { 3, 4 }, { 6, 12 }, { 7, 16 }, { 12, 12 }, { 15, 16 }, { 151, 4 } };
	struct tfmt_code code = { .first_line = 1, .table_kind = TFMT_LINES_PEP657, .table = table_311,
				  .table_bytes = sizeof(table_311) };
	uint32_t column;

	(void)state;
	for (size_t i = 0; i < sizeof(columns) / sizeof(*columns); i++) {
		assert_true(pylines_indentation(&code, first_on(&code, columns[i][0]), &column));
		assert_int_equal(column, columns[i][1]);
	}
	assert_true(pylines_body(&code, &column));
	assert_int_equal(column, 4);
	assert_false(pylines_indentation(&code, INT32_MAX, &column));
	assert_false(pylines_indentation(&code, -1, &column));
	code.table_kind = TFMT_LINES_LNOTAB;
	assert_false(pylines_indentation(&code, 2, &column));
	assert_false(pylines_body(&code, &column));
}

/* CPython 3.11, of "def f(x):", "if x: g(x)", "y = g(x)", "return y": the calls are at positions 12 and 27. */
static void what_a_condition_guards_on_its_line_is_further_in(void **state)
{
	static const uint8_t table[] = {
		0x80, 0x00, 0xd8, 0x07, 0x08, 0x80, 0x4a, 0x8d, 0x21, 0x88, 0x41, 0x89, 0x24, 0x8c, 0x24, 0x88, 0x24,
		0xdd, 0x08, 0x09, 0x88, 0x21, 0x89, 0x04, 0x8c, 0x04, 0x80, 0x41, 0xd8, 0x0b, 0x0c, 0x80, 0x48,
	};
	const struct tfmt_code code = { .first_line = 1, .table_kind = TFMT_LINES_PEP657, .table = table,
					.table_bytes = sizeof(table) };
	uint32_t column;

	(void)state;
	assert_true(pylines_indentation(&code, 12, &column));
	assert_int_equal(column, 10);
	assert_true(pylines_indentation(&code, 27, &column));
	assert_int_equal(column, 4);
}

static void a_frame_that_has_not_started_is_on_the_first_line(void **state)
{
	struct tfmt_code code = { .first_line = 42, .table_kind = TFMT_LINES_PEP657, .table = table_313,
				  .table_bytes = sizeof(table_313) };

	(void)state;
	assert_int_equal(pylines_line(&code, -1), 42);
}

static void positions_behind_the_table_are_on_the_first_line(void **state)
{
	struct tfmt_code code = { .first_line = 42, .table_kind = TFMT_LINES_PEP626, .table = table_310,
				  .table_bytes = sizeof(table_310) };

	(void)state;
	assert_int_equal(pylines_line(&code, 1000000), 42);
	code.table_kind = TFMT_LINES_PEP657;
	assert_int_equal(pylines_line(&code, INT32_MAX), 42);
	code.table_kind = 99;
	assert_int_equal(pylines_line(&code, 3), 42);
	code.table = NULL;
	code.table_bytes = 0;
	assert_int_equal(pylines_line(&code, 3), 42);
}

/* Every prefix of every table, read as every kind, out of memory that ends where the table ends. */
static void damaged_tables_are_not_read_beyond_their_end(void **state)
{
	(void)state;
	for (size_t bytes = 0; bytes <= sizeof(table_311); bytes++) {
		uint8_t *copy = malloc(bytes ? bytes : 1);

		memcpy(copy, table_311, bytes);
		for (uint32_t kind = TFMT_LINES_LNOTAB; kind <= TFMT_LINES_PEP657; kind++) {
			struct tfmt_code code = {
			    .first_line = 7, .table_kind = kind, .table = copy, .table_bytes = bytes };

			uint32_t column;

			for (int32_t position = 0; position < 100; position++)
				pylines_indentation(&code, position, &column);
			pylines_body(&code, &column);
		}
		free(copy);
	}
}

static void endless_varints_end(void **state)
{
	uint8_t table[64];
	struct tfmt_code code = { .first_line = 7, .table_kind = TFMT_LINES_PEP657, .table = table,
				  .table_bytes = sizeof(table) };

	(void)state;
	memset(table, 0xff, sizeof(table));
	table[0] = 0x80 | 14 << 3;
	assert_int_equal(pylines_line(&code, 0), 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lnotab_gives_the_interpreters_lines),
		cmocka_unit_test(pep626_gives_the_interpreters_lines),
		cmocka_unit_test(pep657_gives_the_interpreters_lines),
		cmocka_unit_test(lines_are_indented_as_the_interpreter_says),
		cmocka_unit_test(what_a_condition_guards_on_its_line_is_further_in),
		cmocka_unit_test(a_frame_that_has_not_started_is_on_the_first_line),
		cmocka_unit_test(positions_behind_the_table_are_on_the_first_line),
		cmocka_unit_test(damaged_tables_are_not_read_beyond_their_end),
		cmocka_unit_test(endless_varints_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
