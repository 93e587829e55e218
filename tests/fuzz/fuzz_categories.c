/* SPDX-License-Identifier: MIT */
/*
 * Fuzzer of the users' rules of categories: a file is refused, or its rules give every frame a category. The source is
 * included: a process reads its rules once, a fuzzer has many.
 */
#include "analyzer/purpose/category_rules.c"

#include "tests/fuzz/hostile_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void forget_rules(void)
{
	for (size_t i = 0; i < user.nr_rules; i++) {
		free((char *)user.rule[i].file);
		free((char *)user.rule[i].function);
		free((char *)user.rule[i].life);
		free((char *)user.rule[i].category);
	}
	free(user.rule);
	memset(&user, 0, sizeof(user));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const frames[][2] = { { "/v/torch/optim/adam.py", "_init_group" }, { "train.py", "main" },
						 { "", "" }, { "/a/b/c.py", "<module>" } };

	hostile_quiet();
	setenv("VRAMTRACE_CATEGORIES", hostile_file(data, size), 1);
	users_file.is_read = false;
	if (!category_rules_load())
		for (size_t i = 0; i < sizeof(frames) / sizeof(*frames); i++)
			for (int kept = 0; kept < 2; kept++)
				if (category_rules_match(frames[i][0], frames[i][1], kept) > CATEGORY_NO_RULE)
					abort();
	forget_rules();
	return 0;
}
