/* SPDX-License-Identifier: MIT */
/*
 * The commands of vramtrace: one function per verb, one file per function (cmds/cmd_VERB.c).
 *
 * A command is called with argv[0] = its own name and returns the process's exit status. It prints
 * results on stdout (through emit.h) and everything else on stderr (through message.h). main() flushes
 * and checks stdout afterwards, so a command need not.
 */
#ifndef VT_COMMAND_H
#define VT_COMMAND_H

#include <stddef.h>

struct command {
	const char *name;
	int (*run)(int argc, const char **argv);
	const char *help; /* one line */
};

/* The command at a place of main.c's table, NULL after the last. */
const struct command *command_at(size_t i);

/* Exit statuses of analysis commands, as diff and grep have them. */
enum cmd_status {
	CMD_FINE = 0,
	CMD_FINDING = 1, /* something the user asked to be told about */
	CMD_TROUBLE = 2, /* usage, unreadable input, full disk */
};

/* Exit statuses of `run` for its own trouble, as env and timeout have them. */
enum run_status {
	RUN_TROUBLE = 125,
	RUN_NOT_EXECUTABLE = 126,
	RUN_NOT_FOUND = 127,
};

/* argv is NULL-terminated; the array may be reordered, the strings are not written to. */
int cmd_run(int argc, const char **argv);
int cmd_report(int argc, const char **argv);
int cmd_peak(int argc, const char **argv);
int cmd_timeline(int argc, const char **argv);
int cmd_leaks(int argc, const char **argv);
int cmd_frag(int argc, const char **argv);
int cmd_oom(int argc, const char **argv);
int cmd_advise(int argc, const char **argv);
int cmd_whatif(int argc, const char **argv);
int cmd_estimate(int argc, const char **argv);
int cmd_max_fit(int argc, const char **argv);
int cmd_check(int argc, const char **argv);
int cmd_baseline(int argc, const char **argv);
int cmd_diff(int argc, const char **argv);
int cmd_export(int argc, const char **argv);
int cmd_html(int argc, const char **argv);
int cmd_names(int argc, const char **argv);
int cmd_top(int argc, const char **argv);
int cmd_info(int argc, const char **argv);
int cmd_dump(int argc, const char **argv);
int cmd_import(int argc, const char **argv);
int cmd_verify(int argc, const char **argv);
int cmd_anonymize(int argc, const char **argv);
int cmd_calibrate(int argc, const char **argv);
int cmd_gpu(int argc, const char **argv);
int cmd_completion(int argc, const char **argv);

#endif
