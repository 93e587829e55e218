/* SPDX-License-Identifier: MIT */
/* Fuzzer of a model's config.json: it is refused, or estimate answers in valid JSON. */
#include "analyzer/command.h"
#include "tests/fuzz/hostile_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *json[] = { "estimate",    "--json",   "--capacity",
			       "80GiB",       "--config", hostile_file(data, size),
			       "--precision", "bf16",     NULL };

	hostile_run(cmd_estimate, 8, json, 1);
	return 0;
}
