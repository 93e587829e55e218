/* SPDX-License-Identifier: MIT */
/* Options from tables: every accepted form, and what is said about the others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "analyzer/command.h"
#include "analyzer/ui/options.h"

struct values {
	bool all, quiet;
	unsigned depth;
	const char *name;
	uint64_t bytes;
	int64_t count;
	int format;
};

static const char *const formats[] = { "table", "json", "csv", NULL };

static const struct opt optv[] = {
	OPT_FLAG('a', "all", struct values, all, "take all"),
	OPT_FLAG('q', "quiet", struct values, quiet, "say nothing"),
	OPT_COUNT('d', "deep", struct values, depth, "more; twice: all"),
	OPT_STRING('o', "output", struct values, name, "FILE", "write FILE"),
	OPT_BYTES('m', "min-size", struct values, bytes, "SIZE", "hide groups smaller than SIZE"),
	OPT_INT(0, "count", struct values, count, "N", "stop after N"),
	OPT_ENUM('f', "format", struct values, format, formats, "how to print"),
	OPT_END
};

static const struct opt_help help = {
	.command = "thing",
	.purpose = "Do a thing.",
	.usage = "[options] RECORDING",
	.example = "vramtrace thing -q x.vtr\nvramtrace thing y.vtr",
	.options = optv,
};

static const struct opt_help stopping = {
	.command = "thing",
	.purpose = "Do a thing.",
	.usage = "[options] PROGRAM",
	.example = "vramtrace thing x",
	.options = optv,
	.stop_at_positional = true,
};

#define MAX_WORDS 12
static const char *words[MAX_WORDS + 2];
static int nr_words;
static char said[4096]; /* on stderr */
static char shown[4096]; /* on stdout */

/* Send a stream into a file; returns the descriptor that restores it. */
static int capture(FILE *stream, FILE **file)
{
	int saved;

	fflush(stream);
	*file = tmpfile();
	assert_non_null(*file);
	saved = dup(fileno(stream));
	assert_true(dup2(fileno(*file), fileno(stream)) >= 0);
	return saved;
}

static void restore(FILE *stream, int saved, FILE *file, char *text, size_t size)
{
	size_t n;

	fflush(stream);
	dup2(saved, fileno(stream));
	close(saved);
	rewind(file);
	n = fread(text, 1, size - 1, file);
	text[n] = 0;
	fclose(file);
}

/* Parse a command line given as words; what is printed goes into said[] and shown[]. */
static enum opt_result parse(const struct opt_help *h, struct values *v, const char *const *argv)
{
	enum opt_result result;
	FILE *err, *out;
	int saved_err, saved_out;

	words[0] = "thing";
	for (nr_words = 1; argv[nr_words - 1]; nr_words++)
		words[nr_words] = argv[nr_words - 1];
	words[nr_words] = NULL;
	*v = (struct values){ .count = -1 };
	saved_err = capture(stderr, &err);
	saved_out = capture(stdout, &out);
	result = opt_parse(h, &nr_words, words, v);
	restore(stdout, saved_out, out, shown, sizeof(shown));
	restore(stderr, saved_err, err, said, sizeof(said));
	return result;
}
#define PARSE(h, v, ...) parse(h, v, (const char *const[]){ __VA_ARGS__ __VA_OPT__(,) NULL })

static void test_every_form(void **state)
{
	struct values v;

	(void)state;
	assert_int_equal(PARSE(&help, &v, "-aq", "-ofile", "--min-size", "20GiB", "--count=-5", "-fcsv"), OPT_OK);
	assert_true(v.all && v.quiet);
	assert_string_equal(v.name, "file");
	assert_int_equal(v.bytes, 20ull << 30);
	assert_int_equal(v.count, -5);
	assert_int_equal(v.format, 2);
	assert_int_equal(nr_words, 1);

	assert_int_equal(PARSE(&help, &v, "-qo", "file", "--output=", "-m4k"), OPT_OK);
	assert_true(v.quiet && !v.all);
	assert_string_equal(v.name, "");
	assert_int_equal(v.bytes, 4096);
	assert_int_equal(v.count, -1);
}

static void test_positional_arguments(void **state)
{
	struct values v;

	(void)state;
	assert_int_equal(PARSE(&help, &v, "one", "-q", "two", "-", "--", "-a", "--", "three"), OPT_OK);
	assert_true(v.quiet && !v.all);
	assert_int_equal(nr_words, 7);
	assert_string_equal(words[0], "thing");
	assert_string_equal(words[1], "one");
	assert_string_equal(words[2], "two");
	assert_string_equal(words[3], "-");
	assert_string_equal(words[4], "-a");
	assert_string_equal(words[5], "--");
	assert_string_equal(words[6], "three");
	assert_null(words[7]);
}

static void test_stop_at_the_program(void **state)
{
	struct values v;

	(void)state;
	assert_int_equal(PARSE(&stopping, &v, "-q", "program", "-a", "--no-such"), OPT_OK);
	assert_true(v.quiet && !v.all);
	assert_int_equal(nr_words, 4);
	assert_int_equal(PARSE(&stopping, &v, "--", "-q", "--"), OPT_OK);
	assert_false(v.quiet);
	assert_int_equal(nr_words, 3);
	assert_string_equal(words[2], "--");
}

static void check_wrong(const char *const *argv, const char *message)
{
	struct values v;

	assert_int_equal(parse(&help, &v, argv), OPT_WRONG);
	assert_string_equal(said, message);
	assert_string_equal(shown, "");
}
#define SEE_HELP "; 'vramtrace thing -h' lists the options"
#define CHECK_WRONG(message, ...) \
	check_wrong((const char *const[]){ __VA_ARGS__, NULL }, "vramtrace: " message "\n")

static void test_wrong(void **state)
{
	(void)state;
	CHECK_WRONG("unknown option '--foo'; 'vramtrace thing -h' lists them", "--foo");
	CHECK_WRONG("unknown option '--foo'; 'vramtrace thing -h' lists them", "--foo=1");
	CHECK_WRONG("unknown option '--al'; 'vramtrace thing -h' lists them", "--al");
	CHECK_WRONG("unknown option '-x'; 'vramtrace thing -h' lists them", "-ax");
	CHECK_WRONG("unknown option '--?[31m'; 'vramtrace thing -h' lists them", "--\033[31m");
	CHECK_WRONG("option '--all' takes no value" SEE_HELP, "--all=yes");
	CHECK_WRONG("option '--output' needs a value" SEE_HELP, "-o");
	CHECK_WRONG("option '--output' needs a value" SEE_HELP, "--output");
	CHECK_WRONG("'big' is not a size such as 20GiB for '--min-size'" SEE_HELP, "-m", "big");
	CHECK_WRONG("'1x' is not a whole number for '--count'" SEE_HELP, "--count=1x");
	CHECK_WRONG("'99999999999999999999' is not a whole number for '--count'" SEE_HELP, "--count",
		    "99999999999999999999");
	CHECK_WRONG("'xml' is not one of table, json, csv for '--format'" SEE_HELP, "-f", "xml");
}

static void test_help(void **state)
{
	static const char expected[] =
		"Do a thing.\n"
		"\n"
		"usage: vramtrace thing [options] RECORDING\n"
		"\n"
		"options:\n"
		"  -a, --all                    take all\n"
		"  -q, --quiet                  say nothing\n"
		"  -d, --deep                   more; twice: all\n"
		"  -o, --output FILE            write FILE\n"
		"  -m, --min-size SIZE          hide groups smaller than SIZE\n"
		"      --count N                stop after N\n"
		"  -f, --format table|json|csv  how to print\n"
		"  -h, --help                   print this help\n"
		"\n"
		"example:\n"
		"  vramtrace thing -q x.vtr\n"
		"  vramtrace thing y.vtr\n";
	struct values v;

	(void)state;
	assert_int_equal(PARSE(&help, &v, "--help"), OPT_HELPED);
	assert_string_equal(shown, expected);
	assert_string_equal(said, "");
	assert_int_equal(PARSE(&help, &v, "-ah"), OPT_HELPED);
	assert_string_equal(shown, expected);
	assert_int_equal(PARSE(&help, &v, "--", "-h"), OPT_OK);
	assert_int_equal(opt_status(OPT_HELPED), CMD_FINE);
	assert_int_equal(opt_status(OPT_WRONG), CMD_TROUBLE);
}

/* Its value is attached or not there: the next word is never taken for it. */
static void test_choice(void **state)
{
	static const char *const whens[] = { "on", "auto", "off", NULL };
	static const struct opt choices[] = { OPT_CHOICE('c', "check", struct values, format, whens, "check it"),
					      OPT_END };
	static const struct opt_help choosing = { .command = "thing", .purpose = "Do.", .usage = "[options]",
						  .example = "thing", .options = choices };
	struct values v;

	(void)state;
	assert_int_equal(PARSE(&choosing, &v, "--check=off"), OPT_OK);
	assert_int_equal(v.format, 2);
	assert_int_equal(PARSE(&choosing, &v, "--check=auto", "--check", "off"), OPT_OK);
	assert_int_equal(v.format, 0);
	assert_int_equal(nr_words, 2);
	assert_int_equal(PARSE(&choosing, &v, "-c", "off"), OPT_OK);
	assert_int_equal(nr_words, 2);
	assert_int_equal(PARSE(&choosing, &v, "--check=never"), OPT_WRONG);
	assert_non_null(strstr(said, "'never' is not one of on, auto, off for '--check'"));
	assert_int_equal(PARSE(&choosing, &v, "-h"), OPT_HELPED);
	assert_non_null(strstr(shown, "  -c, --check[=on|auto|off]  check it\n"));
}

/* An option that counts: apart, in one word, or by its long name. */
static void test_counted(void **state)
{
	struct values v;

	(void)state;
	assert_int_equal(PARSE(&help, &v, "one"), OPT_OK);
	assert_int_equal(v.depth, 0);
	assert_int_equal(PARSE(&help, &v, "-d", "one"), OPT_OK);
	assert_int_equal(v.depth, 1);
	assert_int_equal(PARSE(&help, &v, "-dqd", "one", "--deep"), OPT_OK);
	assert_int_equal(v.depth, 3);
	assert_true(v.quiet);
	assert_int_equal(PARSE(&help, &v, "--deep=2"), OPT_WRONG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_form), cmocka_unit_test(test_counted),
		cmocka_unit_test(test_positional_arguments),
		cmocka_unit_test(test_stop_at_the_program),
		cmocka_unit_test(test_wrong),
		cmocka_unit_test(test_help),
		cmocka_unit_test(test_choice),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
