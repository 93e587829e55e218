/* SPDX-License-Identifier: MIT */
/* Which of the causes that apply is the verdict, and what becomes of the others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/oom/autopsy_rank.h"

#define GIB (1ull << 30)

static const struct autopsy_finding leak = { .verdict = VERDICT_LEAK, .cause = "kept_tensors", .bytes = 2 * GIB,
					     .kind = AUTOPSY_HELD, .certainty = CERTAINTY_LIKELY };
static const struct autopsy_finding cycle = { .verdict = VERDICT_CYCLE, .cause = "cycle", .bytes = GIB + 1,
					      .kind = AUTOPSY_HELD, .certainty = CERTAINTY_PROVEN };
static const struct autopsy_finding pieces = { .verdict = VERDICT_FRAGMENTATION, .cause = "fragmentation", .bytes = 8 * GIB,
					       .kind = AUTOPSY_WASTE, .certainty = CERTAINTY_PROVEN, .is_beside = true };
static const struct autopsy_finding others = { .verdict = VERDICT_OTHER_PROCESS, .cause = "other_process", .bytes = 9 * GIB,
					       .kind = AUTOPSY_WASTE, .certainty = CERTAINTY_PROVEN, .is_beside = true };
static const struct autopsy_finding padding = { .verdict = VERDICT_PADDING, .cause = "padding", .bytes = 9 * GIB,
						.kind = AUTOPSY_WASTE, .certainty = CERTAINTY_LIKELY };
static const struct autopsy_finding sum = { .verdict = VERDICT_TOO_BIG, .cause = "sum", .bytes = 99 * GIB,
					    .kind = AUTOPSY_SUM, .certainty = CERTAINTY_PROVEN };
static const struct autopsy_finding rank = { .verdict = VERDICT_RANK_IMBALANCE, .cause = "rank_imbalance", .bytes = GIB,
					     .kind = AUTOPSY_NEED, .is_beside = true, .comes_first = true };

static const struct autopsy_finding shape = { .verdict = VERDICT_TOO_BIG, .cause = "input_shape", .bytes = 4 * GIB,
					      .kind = AUTOPSY_NEED, .certainty = CERTAINTY_LIKELY };

static struct failure failure;

/* Of these findings the causes that are told, and those that are set aside with the sentence that says why. */
static void assert_ranked(const char *told, const char *aside, const struct autopsy_finding *const findings[])
{
	struct autopsy a = { .finding = calloc(8, sizeof(*a.finding)), .failure = &failure };
	char text[512] = "";

	for (; findings[a.nr_findings]; a.nr_findings++)
		a.finding[a.nr_findings] = *findings[a.nr_findings];
	autopsy_rank(&a);
	for (unsigned i = 0; i < a.nr_findings; i++)
		strcat(strcat(text, i ? " " : ""), a.finding[i].cause);
	assert_string_equal(text, told);
	*text = 0;
	for (unsigned i = 0; i < a.nr_aside; i++)
		strcat(strcat(text, i ? " " : ""), said_fact(&a.aside[i], "cause")->text);
	assert_string_equal(text, aside);
	free(a.finding);
	free(a.aside);
}
#define RANKED(told, aside, ...) assert_ranked(told, aside, (const struct autopsy_finding *const[]){ __VA_ARGS__, NULL })

static void test_kinds_come_first(void **state)
{
	(void)state;
	RANKED("kept_tensors", "padding", &padding, &leak, &sum);
	RANKED("padding", "", &padding, &sum);
	RANKED("sum", "", &sum);
}

static void test_what_explains_most(void **state)
{
	struct autopsy_finding smaller = cycle, same = leak;

	(void)state;
	smaller.bytes = GIB - 1;
	same.cause = "kept_outputs";
	RANKED("cycle", "kept_tensors", &leak, &cycle);        /* half as much, but proven */
	RANKED("kept_tensors", "cycle", &smaller, &leak);
	RANKED("kept_tensors", "kept_outputs", &leak, &same);  /* alike: by the table */
}

static void test_what_stands_beside(void **state)
{
	(void)state;
	failure.allocated = 16 * GIB;
	RANKED("kept_tensors other_process fragmentation", "padding", &leak, &pieces, &others, &padding, &sum);
	RANKED("other_process fragmentation", "padding", &pieces, &others, &padding, &sum);
}

static void test_what_is_held_is_less_than_what_lies_unused(void **state)
{
	(void)state;
	failure.allocated = 8 * GIB;
	RANKED("kept_tensors fragmentation", "", &leak, &pieces);
	RANKED("other_process fragmentation kept_tensors", "", &leak, &pieces, &others);
	failure.allocated = 7 * GIB;
	RANKED("fragmentation kept_tensors", "padding", &leak, &pieces, &padding); /* which is only likely */
}

static void test_a_rank_that_was_ahead(void **state)
{
	(void)state;
	RANKED("rank_imbalance input_shape", "", &shape, &rank, &sum); /* first, and what the others have been through beside it */
	RANKED("rank_imbalance", "", &rank, &sum);
	RANKED("kept_tensors rank_imbalance", "", &leak, &rank, &sum);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kinds_come_first),
		cmocka_unit_test(test_what_explains_most),
		cmocka_unit_test(test_what_stands_beside),
		cmocka_unit_test(test_what_is_held_is_less_than_what_lies_unused),
		cmocka_unit_test(test_a_rank_that_was_ahead),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
