/* SPDX-License-Identifier: MIT */
/* The same calls rendered as text, JSON and CSV. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/command.h"
#include "analyzer/ui/emit.h"

static char *printed;
static size_t printed_bytes;

static FILE *begin(void)
{
	FILE *out = open_memstream(&printed, &printed_bytes);

	assert_non_null(out);
	return out;
}

/* Compare with what was printed since begin(). */
static void check(FILE *out, const char *expected)
{
	fclose(out);
	assert_string_equal(printed, expected);
	free(printed);
}

static const struct emit_opts as_text = { .color = TERM_COLOR_NEVER };
static const struct emit_opts as_raw = { .raw = true, .color = TERM_COLOR_NEVER };
static const struct emit_opts as_color = { .color = TERM_COLOR_ALWAYS };
static const struct emit_opts as_json = { .json = true };
static const struct emit_opts as_csv = { .csv = true };

static const struct emit_column columns[] = {
	{ "bytes", "bytes", EMIT_RIGHT, false },
	{ "site", "allocated at", EMIT_LEFT, false },
	{ "share", "share", EMIT_RIGHT, true },
	{ "device", NULL, EMIT_LEFT, false },
	{ NULL, NULL, EMIT_LEFT, false }
};

static void row(struct emit *e, uint64_t bytes, const char *site)
{
	emit_row_begin(e);
	emit_bytes(e, "bytes", NULL, bytes);
	emit_string(e, "site", NULL, site);
	emit_label(e, "share", NULL, "%d%%", 50);
	emit_uint(e, "device", NULL, 1);
	emit_uint(e, "only_json", NULL, 2);
	emit_array_begin(e, "frames", NULL);
	emit_string(e, NULL, NULL, "f");
	emit_uint(e, NULL, NULL, 3);
	emit_array_end(e);
	emit_text(e, "in %s", "f");
	emit_row_end(e);
}

static int document(FILE *out, const struct emit_opts *opts)
{
	struct emit *e = emit_open(out, opts, "vramtrace/test/1");

	emit_heading(e, "Heading");
	emit_bytes(e, "live_bytes", "live", 1536);
	emit_uint(e, "count", "number of blocks", 1234567);
	emit_int(e, "pid", NULL, -42);
	emit_ns(e, "time_ns", "time", 1500000);
	emit_bool(e, "whole", "whole", true);
	emit_null(e, "rank", "rank");
	emit_blank(e);
	emit_object_begin(e, "inner", "Inner");
	emit_double(e, "ratio", "ratio", 0.1);
	emit_double(e, "nothing", NULL, NAN);
	emit_object_end(e);
	emit_array_begin(e, "empty", NULL);
	emit_array_end(e);
	emit_table_begin(e, "groups", columns);
	row(e, 2048, "train.py:12");
	row(e, 7, "say \"hi\", twice");
	emit_table_end(e);
	emit_text(e, "the end");
	return emit_close(e);
}

static void test_text(void **state)
{
	FILE *out = begin();

	(void)state;
	assert_int_equal(document(out, &as_text), CMD_FINE);
	check(out, "Heading\n"
		   "live              1.50 KiB\n"
		   "number of blocks  1,234,567\n"
		   "time              1.50 ms\n"
		   "whole             yes\n"
		   "rank              -\n"
		   "\n"
		   "Inner\n"
		   "  ratio  0.1\n"
		   "   bytes  allocated at     share\n"
		   "2.00 KiB  train.py:12        50%\n"
		   "    in f\n"
		   "     7 B  say \"hi\", twice    50%\n"
		   "    in f\n"
		   "the end\n");
}

static void test_raw_text(void **state)
{
	FILE *out = begin();
	struct emit *e = emit_open(out, &as_raw, "vramtrace/test/1");

	(void)state;
	emit_bytes(e, "bytes", "bytes", 1536);
	emit_ns(e, "ns", "time", 1500000);
	emit_uint(e, "n", "n", 1234567);
	emit_close(e);
	check(out, "bytes  1536\n"
		   "time   1500000\n"
		   "n      1234567\n");
}

static void test_json(void **state)
{
	FILE *out = begin();

	(void)state;
	assert_int_equal(document(out, &as_json), CMD_FINE);
	check(out, "{\n"
		   "  \"schema\": \"vramtrace/test/1\",\n"
		   "  \"live_bytes\": 1536,\n"
		   "  \"count\": 1234567,\n"
		   "  \"pid\": -42,\n"
		   "  \"time_ns\": 1500000,\n"
		   "  \"whole\": true,\n"
		   "  \"rank\": null,\n"
		   "  \"inner\": {\n"
		   "    \"ratio\": 0.1,\n"
		   "    \"nothing\": null\n"
		   "  },\n"
		   "  \"empty\": [],\n"
		   "  \"groups\": [\n"
		   "    {\n"
		   "      \"bytes\": 2048,\n"
		   "      \"site\": \"train.py:12\",\n"
		   "      \"device\": 1,\n"
		   "      \"only_json\": 2,\n"
		   "      \"frames\": [\n"
		   "        \"f\",\n"
		   "        3\n"
		   "      ]\n"
		   "    },\n"
		   "    {\n"
		   "      \"bytes\": 7,\n"
		   "      \"site\": \"say \\\"hi\\\", twice\",\n"
		   "      \"device\": 1,\n"
		   "      \"only_json\": 2,\n"
		   "      \"frames\": [\n"
		   "        \"f\",\n"
		   "        3\n"
		   "      ]\n"
		   "    }\n"
		   "  ]\n"
		   "}\n");
}

static void test_csv(void **state)
{
	FILE *out = begin();

	(void)state;
	assert_int_equal(document(out, &as_csv), CMD_FINE);
	check(out, "bytes,site,device\n"
		   "2048,train.py:12,1\n"
		   "7,\"say \"\"hi\"\", twice\",1\n");
}

static void test_second_csv_table(void **state)
{
	FILE *out = begin();
	struct emit *e = emit_open(out, &as_csv, "vramtrace/test/1");

	(void)state;
	for (int i = 0; i < 2; i++) {
		emit_table_begin(e, "t", columns);
		emit_row_begin(e);
		emit_null(e, "site", NULL);
		emit_row_end(e);
		emit_table_end(e);
	}
	emit_close(e);
	check(out, "bytes,site,device\n,,\n\nbytes,site,device\n,,\n");
}

static void test_json_escapes(void **state)
{
	FILE *out = begin();
	struct emit *e = emit_open(out, &as_json, "s");

	(void)state;
	emit_string(e, "a", NULL, "q\" b\\ n\n t\t c\001 d\177");
	emit_string(e, "b", NULL, "\xe2\x82\xac \xff \xed\xa0\x80 \xc3");
	emit_string(e, "c", NULL, NULL);
	emit_uint(e, "d", NULL, UINT64_MAX);
	emit_int(e, "e", NULL, INT64_MIN);
	emit_double(e, "f", NULL, 1.0 / 3);
	emit_double(e, "g", NULL, -INFINITY);
	emit_close(e);
	check(out, "{\n"
		   "  \"schema\": \"s\",\n"
		   "  \"a\": \"q\\\" b\\\\ n\\n t\\t c\\u0001 d\\u007f\",\n"
		   "  \"b\": \"\xe2\x82\xac \\ufffd \\ufffd\\ufffd\\ufffd \\ufffd\",\n"
		   "  \"c\": null,\n"
		   "  \"d\": 18446744073709551615,\n"
		   "  \"e\": -9223372036854775808,\n"
		   "  \"f\": 0.3333333333333333,\n"
		   "  \"g\": null\n"
		   "}\n");
}

static void test_text_is_harmless(void **state)
{
	FILE *out = begin();
	struct emit *e = emit_open(out, &as_text, NULL);

	(void)state;
	emit_string(e, NULL, "name", "\033[2Jx\ny\xff\xc2\x9bz\xc3\xa9");
	emit_text(e, "%s", "a\033]0;title\007b");
	emit_close(e);
	check(out, "name  ?[2Jx?y??z\xc3\xa9\n"
		   "a?]0;title?b\n");
}

static void test_color(void **state)
{
	FILE *out = begin();
	struct emit *e = emit_open(out, &as_color, NULL);

	(void)state;
	assert_true(emit_is_colored(e));
	emit_heading(e, "H");
	emit_text(e, "%sred%s\033[2J", term_style(TERM_RED, true), term_style(TERM_PLAIN, true));
	emit_close(e);
	check(out, "\033[1mH\033[0m\n"
		   "\033[31mred\033[0m?[2J\n");
}

static void test_color_rule(void **state)
{
	(void)state;
	assert_true(term_wants_color(stdout, TERM_COLOR_ALWAYS));
	assert_false(term_wants_color(stdout, TERM_COLOR_NEVER));
	setenv("TERM", "dumb", 1);
	assert_false(term_wants_color(stdout, TERM_COLOR_AUTO));
	setenv("TERM", "xterm", 1);
	setenv("NO_COLOR", "1", 1);
	assert_false(term_wants_color(stdout, TERM_COLOR_AUTO));
}

static void test_records(void **state)
{
	FILE *out = begin();
	struct emit *e = emit_open(out, &as_json, NULL);

	(void)state;
	for (uint64_t i = 0; i < 2; i++) {
		emit_record_begin(e);
		emit_uint(e, "n", NULL, i);
		emit_array_begin(e, "list", NULL);
		emit_string(e, NULL, NULL, "x");
		emit_null(e, NULL, NULL);
		emit_array_end(e);
		emit_record_end(e);
	}
	emit_close(e);
	check(out, "{\"n\": 0, \"list\": [\"x\", null]}\n"
		   "{\"n\": 1, \"list\": [\"x\", null]}\n");
}

/* Trouble in the middle of anything leaves a valid document. */
static void test_failure(void **state)
{
	FILE *out = begin();
	struct emit *e = emit_open(out, &as_json, "s");

	(void)state;
	emit_table_begin(e, "t", columns);
	emit_row_begin(e);
	emit_array_begin(e, "frames", NULL);
	assert_int_equal(emit_fail(e, "cannot open '%s'", "x"), CMD_TROUBLE);
	check(out, "{\n"
		   "  \"schema\": \"s\",\n"
		   "  \"t\": [\n"
		   "    {\n"
		   "      \"frames\": []\n"
		   "    }\n"
		   "  ],\n"
		   "  \"error\": \"cannot open 'x'\"\n"
		   "}\n");

	out = begin();
	e = emit_open(out, &as_text, "s");
	emit_string(e, "k", "label", "value");
	emit_table_begin(e, "t", columns);
	row(e, 1, "x");
	assert_int_equal(emit_fail(e, "cannot go on"), CMD_TROUBLE);
	check(out, "label  value\n"
		   "bytes  allocated at  share\n"
		   "  1 B  x               50%\n"
		   "    in f\n");
}

static void test_full_disk(void **state)
{
	FILE *out = fopen("/dev/full", "we");
	struct emit *e;

	(void)state;
	if (!out)
		skip();
	e = emit_open(out, &as_text, "s");
	emit_text(e, "something");
	assert_int_equal(emit_close(e), CMD_TROUBLE);
	fclose(out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_raw_text),
		cmocka_unit_test(test_json),
		cmocka_unit_test(test_csv),
		cmocka_unit_test(test_second_csv_table),
		cmocka_unit_test(test_json_escapes),
		cmocka_unit_test(test_text_is_harmless),
		cmocka_unit_test(test_color),
		cmocka_unit_test(test_color_rule),
		cmocka_unit_test(test_records),
		cmocka_unit_test(test_failure),
		cmocka_unit_test(test_full_disk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
