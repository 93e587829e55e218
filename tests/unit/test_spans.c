/* SPDX-License-Identifier: MIT */
/* Spans of time: what was live before, at most in, and after them; of which process; files of them. */
#include "synthetic.h"

#include "analyzer/command.h"
#include "analyzer/holders/spansfile.h"

#define MiB (1ull << 20)
#define TRACE "host.1.1.vtr"
#define FILE_NAME "spans.txt"
#define AT(event) (SYNTHETIC_START + (event) * SYNTHETIC_STEP) /* of the nth event, 0 the first */

static struct spans spans;

/* +3 +5 -3 +1 -5 MiB, one event each 1000 ns. */
static void record(void)
{
	struct tfmt_header header = synthetic_header(1);
	struct synthetic s;

	synthetic_open(&s, TRACE, &header);
	synthetic_device(&s, 0, 80 * 1024 * MiB);
	synthetic_event(&s, TFMT_TENSOR_ALLOC, 0, 0x1000, 3 * MiB, 20 * MiB);
	synthetic_event(&s, TFMT_TENSOR_ALLOC, 0, 0x2000, 5 * MiB, 20 * MiB);
	synthetic_event(&s, TFMT_TENSOR_FREE, 0, 0x1000, 0, 20 * MiB);
	synthetic_event(&s, TFMT_TENSOR_ALLOC, 0, 0x3000, 1 * MiB, 20 * MiB);
	synthetic_event(&s, TFMT_TENSOR_FREE, 0, 0x2000, 0, 20 * MiB);
	synthetic_close(&s, 0);
}

static void write_file(const char *text)
{
	FILE *out = fopen(FILE_NAME, "w");

	assert_non_null(out);
	fputs(text, out);
	fclose(out);
}

static void add_span(char *text, uint32_t pid, uint64_t from, uint64_t to)
{
	sprintf(text + strlen(text), "%u %llu %llu a name\n", pid, (unsigned long long)from, (unsigned long long)to);
}

static void follow(const char *text, struct replay *m)
{
	struct replay_options options = { .quiet = true, .observe = spans_observe, .ctx = &spans };

	write_file(text);
	assert_int_equal(spansfile_read(&spans, FILE_NAME), 0);
	record();
	assert_int_equal(replay_load(m, TRACE, &options), 0);
	spans_finish(&spans);
}

static void check_stay(size_t i, uint64_t begin, uint64_t peak, uint64_t end, uint64_t peak_event)
{
	const struct stay_figures *f = &spans.stay[i].tensor;

	assert_int_equal(spans.stay[i].device, 0);
	assert_int_equal(f->begin_bytes, begin * MiB);
	assert_int_equal(f->peak_bytes, peak * MiB);
	assert_int_equal(f->end_bytes, end * MiB);
	assert_int_equal(f->peak_ns, peak_event * SYNTHETIC_STEP);
}

static void a_span_has_what_was_before_at_most_and_behind(void **state)
{
	struct replay m = REPLAY_INIT;
	char text[1024] = "";

	(void)state;
	add_span(text, 0, AT(0), AT(4));           /* all of it */
	add_span(text, 1, AT(2), AT(3) + 1);       /* begins at an event, ends after one; overlaps the first */
	add_span(text, 0, AT(1) + 1, AT(1) + 2);   /* between two events */
	add_span(text, 0, AT(4) + 1, AT(4) + 9);   /* after the last */
	follow(text, &m);
	assert_int_equal(spans.nr_stays, 4);
	check_stay(0, 0, 8, 1, 1);
	check_stay(1, 8, 8, 6, 2);
	assert_int_equal(spans.stay[2].tensor.begin_bytes, 8 * MiB);
	assert_int_equal(spans.stay[2].tensor.peak_bytes, 8 * MiB);
	assert_int_equal(spans.stay[2].tensor.end_bytes, 8 * MiB);
	assert_int_equal(spans.stay[3].tensor.peak_bytes, 1 * MiB);
	assert_string_equal(spans.span[spans.stay[1].span].name, "a name");
	spans_release(&spans);
	replay_release(&m);
}

static void a_span_of_another_process_has_nothing(void **state)
{
	struct replay m = REPLAY_INIT;
	char text[1024] = "";

	(void)state;
	add_span(text, 2, AT(0), AT(4));
	add_span(text, 0, 0, AT(0) - 1); /* before the first event */
	follow(text, &m);
	assert_int_equal(spans.nr_stays, 0);
	spans_release(&spans);
	replay_release(&m);
}

static void lines_that_are_no_spans_are_refused(void **state)
{
	static const char *const wrong[] = { "x 1 2 n", "1 2", "1 3 2 n", "-1 1 2 n", "1 1.5 2 n", "99999999999 1 2 n",
					    "0 1 2 n\n0 1 99999999999999999999 n" };

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		write_file(wrong[i]);
		assert_int_equal(spansfile_read(&spans, FILE_NAME), CMD_TROUBLE);
		spans_release(&spans);
	}
	assert_int_equal(spansfile_read(&spans, "missing.txt"), CMD_TROUBLE);
	spans_release(&spans);
	write_file("\n  \n");
	assert_int_equal(spansfile_read(&spans, FILE_NAME), 0);
	assert_int_equal(spans.nr_spans, 0);
	spans_release(&spans);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_span_has_what_was_before_at_most_and_behind),
		cmocka_unit_test(a_span_of_another_process_has_nothing),
		cmocka_unit_test(lines_that_are_no_spans_are_refused),
	};

	return cmocka_run_group_tests(tests, synthetic_enter, synthetic_leave);
}
