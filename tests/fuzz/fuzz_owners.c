/* SPDX-License-Identifier: MIT */
/*
 * Fuzzer of the users' rules of owners: a file is refused, or its rules give every path an owner that has a
 * name. The sources are included: a process reads its rules once, a fuzzer has many.
 */
#include "analyzer/stacks/owner.c"
#include "analyzer/stacks/owner_rules.c"

#include "tests/fuzz/hostile_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *any_function(void *ctx)
{
	return ctx;
}

static void forget_rules(const char *const names[static NR_OWNERS])
{
	for (size_t i = 0; i < user.nr_rules; i++) {
		free((char *)user.rule[i].pattern);
		free((char *)user.rule[i].function);
	}
	free(user.rule);
	memset(&user, 0, sizeof(user));
	for (int i = 0; i < NR_OWNERS; i++) {
		if (owner_names[i] != names[i])
			free((char *)owner_names[i]);
		owner_names[i] = names[i];
	}
	memset(builtin_owner, 0, sizeof(builtin_owner));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const paths[] = { "/usr/lib/libcudnn.so.9", "libnccl.so.2", "",
					     "/a/b/c.so (deleted)", "a" };
	static const char *names[NR_OWNERS];
	static char function[] = "at::native::empty";

	hostile_quiet();
	if (!names[0])
		memcpy(names, owner_names, sizeof(names));
	setenv("VRAMTRACE_OWNERS", hostile_file(data, size), 1);
	users_file.is_read = false;
	if (!owner_rules_load()) {
		for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
			int owner = owner_rules_match(paths[i], any_function, function);

			if (owner < 0 || owner > OWNER_NO_RULE || (owner < NR_OWNERS && !owner_names[owner]))
				abort();
		}
	}
	forget_rules(names);
	return 0;
}
