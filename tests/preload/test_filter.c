/* SPDX-License-Identifier: MIT */
/* Which names a filter admits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "libinterpose/filter.h"

static bool admits(const char *filter, const char *program, const char *script)
{
	const char *const names[] = { program, script, "python3.11" };

	return ip_filter_admits(filter, names, sizeof(names) / sizeof(names[0]));
}

static void test_patterns(void **state)
{
	static const struct {
		const char *filter, *program, *script;
		bool admitted;
	} cases[] = {
		{ "", "python", "train.py", true },
		{ ",", "python", "train.py", true },
		{ "train.py", "python", "train.py", true },
		{ "train.py", "python", "train.pyc", false },
		{ "train", "python", "train.py", false },
		{ "*.py", "python", "train.py", true },
		{ "t*n.p?", "python", "train.py", true },
		{ "t*n.p?", "python", "train.p", false },
		{ "*a*a*", "python", "banana", true },
		{ "*a*a*a*a*", "python", "banana", false },
		{ "python*", "/bin/x", NULL, true }, /* the executable's name */
		{ "bash", "python", "", false },
		{ "?", "python", "", false },
		{ "*", "python", NULL, true },
		{ "bash,python", "python", NULL, true },
		{ "bash,,python,", "python", NULL, true },
		{ "!torchrun", "python", "torchrun", false },
		{ "!torchrun", "python", "train.py", true },
		{ "python*,!torchrun", "python", "torchrun", false },
		{ "!torchrun,python*", "python", "torchrun", false },
		{ "python*,!torch*", "python", "train.py", true },
		{ "!", "python", "train.py", true },
		{ "!*", "python", "train.py", false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (admits(cases[i].filter, cases[i].program, cases[i].script) != cases[i].admitted)
			fail_msg("'%s' and %s %s", cases[i].filter, cases[i].program, cases[i].script);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_patterns),
	};

	return cmocka_run_group_tests_name("filter", tests, NULL, NULL);
}
