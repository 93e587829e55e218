/* SPDX-License-Identifier: MIT */
/*
 * Fuzzer of command lines, one word a line: the option tables of every command that reads recordings, and the
 * sizes, GPUs, lists of ranks and patterns that `run` takes. Nothing is run, and nothing written.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/command.h"
#include "analyzer/gpu/gpufile.h"
#include "analyzer/launch/preload.h"
#include "analyzer/launch/ranks.h"
#include "analyzer/base/human.h"
#include "tests/fuzz/hostile_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define WORDS_MAX 16

static void parse_ranks(const char *list, const char *world)
{
	struct ranks r = RANKS_INIT;
	long size = world ? strtol(world, NULL, 10) : 64;

	if (size < 1 || size > 4096)
		size = 64;
	if (!ranks_parse(&r, list, (unsigned)size, size % 9)) {
		if (!r.nr || r.nr > (size_t)size)
			abort();
		for (size_t i = 0; i < r.nr; i++)
			if (r.rank[i] >= (unsigned)size || (i && r.rank[i] <= r.rank[i - 1]))
				abort();
	}
	ranks_release(&r);
}

static void parse_gpu(const char *text, const char *capacity)
{
	struct preload_plan plan = { 0 };
	unsigned long count;
	const char *gpu;
	unsigned nr;

	gpufile_named(text, &count);
	if (!preload_parse_gpu(text, PRELOAD_MAX_DEVICES, &gpu, &nr) && (!nr || nr > PRELOAD_MAX_DEVICES))
		abort();
	if (capacity)
		preload_parse_capacity(capacity, &plan);
}

/* A size reads the same again when it is written out. */
static void parse_size(const char *text)
{
	uint64_t bytes, again;
	char exact[32];

	if (!human_parse_bytes(text, &bytes))
		return;
	snprintf(exact, sizeof(exact), "%llu", (unsigned long long)bytes);
	if (!human_parse_bytes(exact, &again) || again != bytes)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static hostile_command *const commands[] = { cmd_report, cmd_peak, cmd_leaks,  cmd_timeline, cmd_frag,
						     cmd_info,   cmd_dump, cmd_verify, cmd_oom };
	static const char *const names[] = { "report", "peak", "leaks",  "timeline", "frag",
					     "info",   "dump", "verify", "oom" };
	static FILE *nothing;
	const char *argv[WORDS_MAX + 2];
	char *text = malloc(size + 1), *rest = text, *word;
	int argc = 0;

	memcpy(text, data, size);
	text[size] = 0;
	while (argc < WORDS_MAX && (word = strsep(&rest, "\n")))
		argv[argc++] = word;
	argv[argc] = NULL;
	hostile_quiet();
	/* "-" names it. */
	if (!nothing)
		stdin = nothing = fopen("/dev/null", "re");
	if (!strcmp(argv[0], "ranks") && argc > 1)
		parse_ranks(argv[1], argv[2]);
	else if (!strcmp(argv[0], "gpu") && argc > 1)
		parse_gpu(argv[1], argv[2]);
	else if (!strcmp(argv[0], "size") && argc > 1)
		parse_size(argv[1]);
	for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++) {
		if (strcmp(argv[0], names[i]))
			continue;
		argv[argc++] = "/dev/null"; /* an empty trace */
		argv[argc] = NULL;
		hostile_run(commands[i], argc, argv, 0);
	}
	free(text);
	return 0;
}
