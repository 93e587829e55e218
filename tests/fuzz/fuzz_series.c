/* SPDX-License-Identifier: MIT */
/* Fuzzer of series of readings: whatever they are, `leaks --series` answers in text and in valid JSON. */
#include "analyzer/command.h"
#include "tests/fuzz/hostile_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *path = hostile_file(data, size);
	const char *text[] = { "leaks", "--series", path, NULL };
	const char *json[] = { "leaks", "--json",        "--series",   path, "--capacity",
			       "1GiB",  "--warn-growth", "5%/10steps", NULL };

	hostile_run(cmd_leaks, 3, text, 0);
	hostile_run(cmd_leaks, 8, json, 1);
	return 0;
}
