/* SPDX-License-Identifier: MIT */
/*
 * Fuzzer of the commands that read recordings: whatever a trace, its ring file and its census tell, the books, the
 * analyses and the printers end, and print a document. The header's process id says which command reads it; with
 * FUZZ_ALL_COMMANDS in the environment each command does, one after another.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/command.h"
#include "tests/fuzz/hostile_file.h"
#include "tests/fuzz/reader_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

#define WORDS_MAX 6
#define PROCESS_ID 24 /* its place in the header */

static const struct {
	hostile_command *run;
	const char *word[WORDS_MAX];
} commands[] = {
	{ cmd_report, { "report", "--json" } },
	{ cmd_report, { "report", "-v" } },
	{ cmd_peak, { "peak", "--json", "-v" } },
	{ cmd_peak, { "peak", "--json", "--by", "range" } },
	{ cmd_peak, { "peak", "--json", "--at", "1ms" } },
	{ cmd_peak, { "peak", "--json", "--by", "block" } },
	{ cmd_peak, { "peak", "--by", "module", "--depth=3" } },
	{ cmd_peak, { "peak", "--by", "category", "--at", "oom" } },
	{ cmd_peak, { "peak", "--at", "oom" } },
	{ cmd_peak, { "peak", "--json", "--by", "name" } },
	{ cmd_peak, { "peak", "--by", "name", "-v" } },
	{ cmd_leaks, { "leaks", "--json" } },
	{ cmd_leaks, { "leaks", "-v" } },
	{ cmd_whatif, { "whatif", "--json", "--conf", "expandable_segments:True" } },
	{ cmd_whatif, { "whatif", "--capacity", "1GiB", "--conf", "max_split_size_mb:32,garbage_collection_threshold:0.5,per_process_memory_fraction:0.5" } },
	{ cmd_whatif, { "whatif", "--search", "--json" } },
	{ cmd_frag, { "frag", "--json" } },
	{ cmd_oom, { "oom", "--json" } },
	{ cmd_advise, { "advise", "--always" } },
	{ cmd_advise, { "advise", "--always", "--json" } },
	{ cmd_frag, { "frag" } },
	{ cmd_timeline, { "timeline", "--json" } },
	{ cmd_timeline, { "timeline" } },
	{ cmd_info, { "info", "--json" } },
	{ cmd_info, { "info" } },
	{ cmd_dump, { "dump", "-v" } },
	{ cmd_verify, { "verify", "--json" } },
	{ cmd_check, { "check", "--json", "--max-peak", "1KiB", "--no-oom" } },
	{ cmd_check, { "check", "--format", "junit", "--max-reserved", "1MiB" } },
	{ cmd_check, { "check", "--format", "github", "--max-peak", "1B" } },
	{ cmd_check, { "check", "--format", "markdown", "--max-peak", "1B" } },
	{ cmd_baseline, { "baseline", "--force", "--min-size", "0" } },
};
#define NR_COMMANDS (sizeof(commands) / sizeof(commands[0]))

static void run(size_t which, const char *path)
{
	const char *argv[WORDS_MAX + 2];
	int argc = 0, is_json = 0;

	for (; argc < WORDS_MAX && commands[which].word[argc]; argc++) {
		argv[argc] = commands[which].word[argc];
		is_json |= !strcmp(argv[argc], "--json");
	}
	argv[argc++] = path;
	argv[argc] = NULL;
	hostile_run(commands[which].run, argc, argv, is_json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct reader_input in = reader_input_split(data, size);
	size_t which = in.trace_bytes > PROCESS_ID ? in.trace[PROCESS_ID] % NR_COMMANDS : 0;
	bool all = getenv("FUZZ_ALL_COMMANDS");
	const char *path = reader_input_store(&in, "commands");

	for (size_t i = 0; i < NR_COMMANDS; i++)
		if (all || i == which)
			run(i, path);
	reader_input_remove(&in, "commands");
	return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
	if (size > PROCESS_ID && seed / 64 % 4 == 0) /* the same for another command */
		data[PROCESS_ID] = (uint8_t)(seed / 256 % NR_COMMANDS);
	return reader_input_mutate(data, size, max_size, seed, LLVMFuzzerMutate);
}
