/* SPDX-License-Identifier: MIT */
/*
 * Fuzzer of export: whatever a trace, its ring file and its census tell, each format is written, or refused with a message.
 * The header's process id says which; with FUZZ_ALL_COMMANDS in the environment each is, one after another.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "analyzer/command.h"
#include "tests/fuzz/hostile_file.h"
#include "tests/fuzz/reader_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

#define WORDS_MAX 3
#define PROCESS_ID 24 /* its place in the header */

static const char *const cases[][WORDS_MAX] = {
	{ "csv" },
	{ "csv", "--what=blocks" },
	{ "csv", "--what=series", "--zstd" },
	{ "ndjson" },
	{ "ndjson", "--what=blocks", "--at=end" },
	{ "folded" },
	{ "folded", "--at=all", "--split" },
	{ "speedscope" },
	{ "speedscope", "--at=end", "--device=0" },
	{ "pprof" },
	{ "pprof", "--at=all", "--split" },
	{ "massif", "--device=0" },
	{ "massif", "--device=1", "--split" },
	{ "perfetto" },
	{ "sqlite" },
	{ "memory-viz" },
};
#define NR_CASES (sizeof(cases) / sizeof(cases[0]))

/* What is written is not looked at: tests with the programs that read it do. */
static void run(size_t which, const char *path)
{
	const char *argv[WORDS_MAX + 6] = { "export", "-o", "/dev/null", "-f" };
	int argc = 4;

	for (int i = 0; i < WORDS_MAX && cases[which][i]; i++)
		argv[argc++] = cases[which][i];
	argv[argc++] = path;
	hostile_run(cmd_export, argc, argv, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct reader_input in = reader_input_split(data, size);
	size_t which = in.trace_bytes > PROCESS_ID ? in.trace[PROCESS_ID] % NR_CASES : 0;
	bool all = getenv("FUZZ_ALL_COMMANDS");
	const char *path = reader_input_store(&in, "export");

	for (size_t i = 0; i < NR_CASES; i++)
		if (all || i == which)
			run(i, path);
	reader_input_remove(&in, "export");
	return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
	if (size > PROCESS_ID && seed / 64 % 4 == 0) /* the same for another format */
		data[PROCESS_ID] = (uint8_t)(seed / 256 % NR_CASES);
	return reader_input_mutate(data, size, max_size, seed, LLVMFuzzerMutate);
}
