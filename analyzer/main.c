/* SPDX-License-Identifier: MIT */
/* vramtrace: the table of commands, and what surrounds all of them. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/base/message.h"
#include "analyzer/command.h"
#include "analyzer/imports/import.h"
#include "analyzer/recording/recording.h"

/* setup/version.sh gives both as they are, without quotes. */
#define TEXT(words) #words
#define TEXT_OF(macro) TEXT(macro)

static const struct command commands[] = {
	{ "run",      cmd_run,      "record a program" },
	{ "report",   cmd_report,   "the page to read first: capacity, peaks, who holds them" },
	{ "peak",     cmd_peak,     "who held memory at the peak" },
	{ "timeline", cmd_timeline, "memory over time, as a plot" },
	{ "leaks",    cmd_leaks,    "what was live at the end, by call stack" },
	{ "frag",     cmd_frag,     "cached but unusable: how much, when, and which blocks keep it so" },
	{ "oom",      cmd_oom,      "why an allocation failed, and what filled the GPU" },
	{ "advise",   cmd_advise,   "what would have made the peak smaller, and by how much" },
	{ "whatif",   cmd_whatif,   "the recorded job under other allocator settings, on other GPUs" },
	{ "estimate", cmd_estimate, "the memory of a model that does not exist yet, by formula" },
	{ "max-fit",  cmd_max_fit,  "the largest value (batch, length) that does not run out of memory" },
	{ "check",    cmd_check,    "does a recording keep within limits, or near a baseline" },
	{ "baseline", cmd_baseline, "what a program takes, as a small file to check in" },
	{ "diff",     cmd_diff,     "what grew from one recording or baseline to another" },
	{ "export",   cmd_export,   "in the format of another program: Perfetto, pprof, SQLite, CSV, ..." },
	{ "html",     cmd_html,     "a recording as one page for a browser" },
	{ "names",    cmd_names,    "look by which names a program that runs holds its tensors" },
	{ "top",      cmd_top,      "what recorded programs hold while they run" },
	{ "info",     cmd_info,     "what a recording holds: processes, devices, duration, losses" },
	{ "import",   cmd_import,   "make a recording of what another tool has recorded" },
	{ "dump",     cmd_dump,     "every event of a recording" },
	{ "verify",   cmd_verify,   "is a recording whole, cut off or damaged" },
	{ "anonymize", cmd_anonymize, "a copy of a recording without the names in it" },
	{ "calibrate", cmd_calibrate, "measure a GPU for the simulated one" },
	{ "gpu",      cmd_gpu,      "which GPUs answer on this machine, or why none does" },
	{ "completion", cmd_completion, "a script by which bash, zsh or fish complete command lines" },
};
#define NR_COMMANDS (sizeof(commands) / sizeof(commands[0]))

const struct command *command_at(size_t i)
{
	return i < NR_COMMANDS ? &commands[i] : NULL;
}

static void print_overview(FILE *out)
{
	fprintf(out, "Find out where the GPU memory went.\n\n"
		     "usage: vramtrace COMMAND [options] [RECORDING]\n\ncommands:\n");
	for (size_t i = 0; i < NR_COMMANDS; i++)
		fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].help);
	fputs("\n'vramtrace help COMMAND' explains a command, 'vramtrace --version' names this version.\n\n"
	      "example:\n"
	      "  vramtrace run -o train.vtr -- python train.py\n"
	      "  vramtrace report train.vtr\n",
	      out);
}

static const struct command *find_command(const char *name)
{
	for (size_t i = 0; i < NR_COMMANDS; i++) {
		if (!strcmp(name, commands[i].name))
			return &commands[i];
	}
	return NULL;
}

/* Edits (insert, delete, replace, swap neighbours) from a to b; names longer than the table count as far. */
static size_t edit_distance(const char *a, const char *b)
{
	enum { MAX = 16 };
	size_t d[MAX + 1][MAX + 1], la = strlen(a), lb = strlen(b);

	if (la > MAX || lb > MAX)
		return MAX;
	for (size_t i = 0; i <= la; i++) {
		for (size_t j = 0; j <= lb; j++) {
			size_t best;

			if (!i || !j) {
				d[i][j] = i + j;
				continue;
			}
			best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
			best = d[i - 1][j] + 1 < best ? d[i - 1][j] + 1 : best;
			best = d[i][j - 1] + 1 < best ? d[i][j - 1] + 1 : best;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    d[i - 2][j - 2] + 1 < best)
				best = d[i - 2][j - 2] + 1;
			d[i][j] = best;
		}
	}
	return d[la][lb];
}

static int unknown_command(const char *name)
{
	char near[256] = "";
	size_t n = 0;

	for (size_t i = 0; i < NR_COMMANDS; i++) {
		if (edit_distance(name, commands[i].name) <= 2 || !strncmp(name, commands[i].name, 3))
			n += (size_t)snprintf(near + n, sizeof(near) - n, "%s'%s'", n ? " or " : "",
					      commands[i].name);
	}
	if (n)
		return message_error("unknown command '%s'; did you mean %s?", name, near);
	return message_error("unknown command '%s'; 'vramtrace help' lists the commands", name);
}

static int dispatch(int argc, const char **argv)
{
	static const char commit[] = TEXT_OF(VRAMTRACE_COMMIT);
	const char *name = argc > 1 ? argv[1] : "";
	bool is_help = !strcmp(name, "help") || !strcmp(name, "--help") || !strcmp(name, "-h");
	const struct command *c;

	if (argc < 2) {
		print_overview(stderr);
		return CMD_TROUBLE;
	}
	if (!strcmp(name, "--version")) {
		printf("vramtrace %s", TEXT_OF(VRAMTRACE_VERSION));
		printf(*commit ? " (commit %s)\n" : "\n", commit);
		return CMD_FINE;
	}
	if (is_help && (argc == 2 || !strcmp(argv[2], "help"))) {
		print_overview(stdout);
		return CMD_FINE;
	}
	if (is_help) {
		const char *help_argv[] = { argv[2], "-h", NULL };

		c = find_command(argv[2]);
		return c ? c->run(2, help_argv) : unknown_command(argv[2]);
	}
	if (name[0] == '-')
		return message_error("unknown option '%s'; 'vramtrace help' shows how to call it", name);
	c = find_command(name);
	return c ? c->run(argc - 1, argv + 1) : unknown_command(name);
}

/*
 * Where the caller has closed a standard stream, put something harmless in its place: no file opened later may
 * take messages in. A program that `run` starts finds it closed as before.
 */
static void fill_closed_streams(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", O_RDWR | O_CLOEXEC) < 0)
			_exit(CMD_TROUBLE);
	}
}

int main(int argc, char **argv)
{
	const char **words = calloc((size_t)argc + 1, sizeof(*words));
	int status;

	fill_closed_streams();
	recording_convert = import_temporary;
	if (!words)
		return message_error("out of memory");
	memcpy(words, argv, (size_t)argc * sizeof(*words));
	status = dispatch(argc, words);
	free(words);

	if (fflush(stdout) || ferror(stdout)) {
		/* A reader that has seen enough (head) is no trouble worth a message. */
		if (errno != EPIPE)
			message_error("cannot write the result: %s", strerror(errno));
		status = CMD_TROUBLE;
	}
	return status;
}
