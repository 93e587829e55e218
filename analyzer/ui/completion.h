/* SPDX-License-Identifier: MIT */
/*
 * Completion of command lines in bash, zsh and fish: a script, written from the tables of options that -h prints. It
 * offers commands, options, the values that a table lists, and paths where one may stand; after a program that a command
 * runs it leaves the word to that program's completion. Single-threaded.
 */
#ifndef VT_COMPLETION_H
#define VT_COMPLETION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "analyzer/ui/options.h"

struct completion_command {
	const char *name, *what; /* `what`: one line */
	const struct opt_help *help;
};

struct completion {
	struct completion_command *commands;
	size_t nr;
	const char *const *gpus; /* NULL-terminated: what an option whose argument is a GPU may be, beside a path */
};

/* The script as a whole. */
void completion_print_bash(const struct completion *c, FILE *out);
void completion_print_zsh(const struct completion *c, FILE *out);
void completion_print_fish(const struct completion *c, FILE *out);

/* For those three: a command's options, -h last. NULL after it. */
const struct opt *completion_option(const struct completion_command *command, size_t i);

/* The option's value is a word of its own: "-o FILE", not "--cupti=on". */
bool completion_has_value(const struct opt *o);

/* The words that the value may be, NULL-terminated; NULL if no table lists them. */
const char *const *completion_values(const struct completion *c, const struct opt *o);

/* The value may be a path: it is neither a number nor one of a list. */
bool completion_is_path(const struct opt *o);

/* Words with blanks between. */
void completion_print_words(const char *const *words, FILE *out);

/* Text in single quotes as sh, bash and zsh (escape "'\\''") or fish ("\\'") have it, without the quotes. */
void completion_print_quoted(const char *text, const char *escape, FILE *out);

#endif
