/* SPDX-License-Identifier: MIT */
/* Fuzzer of texts with PyTorch's messages: whatever they say, `oom --message -` answers in text and in valid
 * JSON. */
#include <stdio.h>
#include <stdlib.h>

#include "analyzer/command.h"
#include "tests/fuzz/hostile_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text[] = { "oom", "--message", "-", NULL };
	const char *json[] = { "oom", "--json", "--message", "-", NULL };
	FILE *keyboard = stdin;

	for (int is_json = 0; is_json < 2; is_json++) {
		stdin = fopen(hostile_file(data, size), "re");
		if (!stdin)
			abort();
		hostile_run(cmd_oom, is_json ? 4 : 3, is_json ? json : text, is_json);
		fclose(stdin);
		stdin = keyboard;
	}
	return 0;
}
