/* SPDX-License-Identifier: MIT */
/* Sentences of findings: facts by their units, nouns, parts that are left out, and the same as JSON. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/findings/sentence.h"

#define GIB (1ull << 30)

#define assert_says(text, ...)                                                                                            \
	do {                                                                                                              \
		const struct said said = __VA_ARGS__;                                                                     \
		char buf[SENTENCE_MAX];                                                                                   \
		assert_string_equal(sentence_text(buf, &said), text);                                                     \
	} while (0)

static void test_facts_by_their_units(void **state)
{
	const struct stack_frame frame = { .file = "/home/me/train.py", .line = 36, .function = "step" };

	(void)state;
	assert_says("3.00 GiB is still there from 51 earlier steps; each added 64.0 MiB.",
		    SAID(kept_of_steps, fact_bytes("bytes", 3 * GIB), fact_count("steps", 51), fact_bytes("each", 64 << 20)));
	assert_says("set_per_process_memory_fraction() of at least 12.5% lets this request pass", SAID(limit_advice, fact_share("fraction", 1, 8)));
	assert_says("the traceback has the variables of step() at train.py:36",
		    SAID(exception_frame, fact_site("site", &frame)));
	assert_says("its GPU 3 had -12 B free", SAID(killed_gpu_free, fact_count("device", 3), fact_signed_bytes("free", -12)));
	assert_says("2 blocks left from steps 3 to 9: 1.00 GiB every 3.5 steps",
		    SAID(kept_now_and_then, fact_count("blocks", 2), fact_step("first", 3), fact_step("last", 9),
			 fact_bytes("each", GIB), fact_ratio("interval", 3.5)));
}

static void test_parts_that_are_left_out(void **state)
{
	const struct stack_frame nowhere = { 0 };
	struct fact pid = fact_count("pid", 7), tensors = fact_bytes("tensors", GIB);

	(void)state;
	assert_says("process 7 of this recording had 1.00 GiB of tensors on this GPU, mostly from train.py:36",
		    SAID(others_recorded, pid, tensors, fact_line("site", "/a/train.py", 36, NULL)));
	assert_says("process 7 of this recording had 1.00 GiB of tensors on this GPU",
		    SAID(others_recorded, pid, tensors, fact_site("site", &nowhere)));
	assert_says("An FFT of 16-bit data asked for 1.00 GiB of workspace: its output is complex64.",
		    SAID(fft_asked, fact_bytes("bytes", GIB), fact_flag("to_work_in", true)));
	assert_says("An FFT of 16-bit data asked for 1.00 GiB: its output is complex64.",
		    SAID(fft_asked, fact_bytes("bytes", GIB), fact_flag("to_work_in", false)));
}

static void test_one_and_several(void **state)
{
	(void)state;
	assert_says("it is from 1 step: something still holds it, such as a list of results",
		    SAID(passed_by_steps, fact_count("steps", 1)));
	assert_says("it is from 2 steps: something still holds it, such as a list of results",
		    SAID(passed_by_steps, fact_count("steps", 2)));
}

/* It shows, so that a test of what is printed finds it. */
static void test_a_missing_fact_shows(void **state)
{
	(void)state;
	assert_says("? is held only by reference cycles that Python's garbage collector has not freed yet.",
		    SAID(cycle_waits, NO_FACTS));
	assert_says("", (struct said){ .sentence = SAY_nothing });
}

/* Long texts are cut between characters, never in one. */
static void test_long_names(void **state)
{
	char name[2000], buf[SENTENCE_MAX];
	struct said said;
	size_t len;

	(void)state;
	for (size_t i = 0; i + 2 < sizeof(name); i += 2)
		memcpy(name + i, "\xc3\xb6", 3);
	said = SAID(bytes_named, fact_bytes("bytes", 512), fact_name("name", name));
	len = strlen(sentence_text(buf, &said));
	assert_true(len > FACT_TEXT_MAX - 8 && len < SENTENCE_MAX);
	assert_memory_equal(buf + len - 2, "\xc3\xb6", 2);
}

/* Of a path that is too long for a fact the folders go, not the file. */
static void test_long_paths(void **state)
{
	char path[600] = "";

	(void)state;
	for (int i = 0; i < 50; i++)
		strcat(path, "/folder-01");
	strcat(path, "/train.py");
	assert_says("the traceback has the variables of step() at train.py:36",
		    SAID(exception_frame, fact_line("site", path, 36, "step")));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_facts_by_their_units),  cmocka_unit_test(test_parts_that_are_left_out),
		cmocka_unit_test(test_one_and_several),       cmocka_unit_test(test_a_missing_fact_shows),
		cmocka_unit_test(test_long_names),            cmocka_unit_test(test_long_paths),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
