/* SPDX-License-Identifier: MIT */
/*
 * Options are data: one row per option gives parsing, the help text and the error messages.
 *
 * A command declares a struct of values preset to its defaults, a table of rows that point into that
 * struct, and a struct opt_help that describes itself:
 *
 *	static const struct opt leaks_optv[] = {
 *		OPT_BYTES('m', "min-size", struct leaks_opts, min_bytes, "SIZE", "hide smaller groups"),
 *		EMIT_OPTIONS(struct leaks_opts, emit),	// --json, --csv, --raw, --color (ui/emit.h)
 *		OPT_END
 *	};
 *	static const struct opt_help leaks_help = {
 *		.command = "leaks",
 *		.purpose = "List what was never freed, grouped by call stack.",
 *		.usage = "[options] RECORDING",
 *		.example = "vramtrace leaks --min-size 1MiB train.vtr",
 *		.options = leaks_optv,
 *	};
 *
 * Accepted forms: --name VALUE, --name=VALUE, -n VALUE, -nVALUE, clustered flags (-vq), and -- to end the
 * options. Names are never completed from a prefix. -h and --help are known to every table. A repeated
 * option keeps its last value.
 */
#ifndef VT_OPTIONS_H
#define VT_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum opt_type {
	OPT_TYPE_END = 0,
	OPT_TYPE_FLAG,   /* bool: set to true */
	OPT_TYPE_COUNT,  /* unsigned: one more each time it is given, as -vv */
	OPT_TYPE_STRING, /* const char *: points into argv */
	OPT_TYPE_LIST,   /* struct opt_list: one more each time it is given */
	OPT_TYPE_BYTES,  /* uint64_t: "20GiB", "512M", "4096" (human_parse_bytes) */
	OPT_TYPE_INT,    /* int64_t: decimal */
	OPT_TYPE_ENUM,   /* int: index into values */
	OPT_TYPE_CHOICE, /* the same, the value only as in --name=VALUE; without it, the first of values */
};

struct opt {
	char letter;      /* 0 = long name only */
	const char *name; /* without the dashes */
	enum opt_type type;
	size_t offset;             /* of the field in the command's struct */
	const char *arg;           /* what the help calls the value; NULL for flags, and enums list theirs */
	const char *const *values; /* OPT_ENUM and OPT_CHOICE: NULL-terminated names */
	const char *help;          /* lower case, no full stop */
};

/* The field's type is checked at compile time. */
#define OPT_ROW(letter, name, kind, ctype, type, field, arg, values, help) \
	{ letter, name, kind, \
	  offsetof(type, field) + 0 * sizeof(char[_Generic(((type *)0)->field, ctype: 1, default: -1)]), \
	  arg, values, help }
#define OPT_FLAG(letter, name, type, field, help) \
	OPT_ROW(letter, name, OPT_TYPE_FLAG, bool, type, field, NULL, NULL, help)
#define OPT_COUNT(letter, name, type, field, help)                                                           \
	OPT_ROW(letter, name, OPT_TYPE_COUNT, unsigned, type, field, NULL, NULL, help)
#define OPT_STRING(letter, name, type, field, arg, help) \
	OPT_ROW(letter, name, OPT_TYPE_STRING, const char *, type, field, arg, NULL, help)
#define OPT_LIST(letter, name, type, field, arg, help) \
	OPT_ROW(letter, name, OPT_TYPE_LIST, struct opt_list, type, field, arg, NULL, help)
#define OPT_BYTES(letter, name, type, field, arg, help) \
	OPT_ROW(letter, name, OPT_TYPE_BYTES, uint64_t, type, field, arg, NULL, help)
#define OPT_INT(letter, name, type, field, arg, help) \
	OPT_ROW(letter, name, OPT_TYPE_INT, int64_t, type, field, arg, NULL, help)
#define OPT_ENUM(letter, name, type, field, values, help) \
	OPT_ROW(letter, name, OPT_TYPE_ENUM, int, type, field, NULL, values, help)
#define OPT_CHOICE(letter, name, type, field, values, help) \
	OPT_ROW(letter, name, OPT_TYPE_CHOICE, int, type, field, NULL, values, help)
#define OPT_END { 0, NULL, OPT_TYPE_END, 0, NULL, NULL, NULL }

#define OPT_LIST_MAX 16

struct opt_list {
	const char *value[OPT_LIST_MAX]; /* they point into argv */
	unsigned nr;
};

struct opt_help {
	const char *command; /* "leaks": names the command in messages */
	const char *purpose; /* one sentence, the first line of the help */
	const char *usage;   /* what follows "usage: vramtrace COMMAND " */
	const char *example; /* one or more whole command lines, separated by newlines */
	const struct opt *options;
	const char *const *operands; /* NULL-terminated: what a positional argument may be; NULL = a path */
	bool stop_at_positional;     /* the first positional argument ends the options (run) */
};

/* -h, --help: of every command, and in no table. */
extern const struct opt opt_help_row;

/* Of a command whose positional arguments, if it has any, are no paths. */
extern const char *const opt_no_paths[];

enum opt_result {
	OPT_OK = 0, /* go on */
	OPT_HELPED, /* help was asked for and printed on stdout */
	OPT_WRONG,  /* usage error, already reported on stderr */
};

/*
 * Parse argv[1..] into *target. On OPT_OK, *argc and argv are compacted to argv[0] and the positional
 * arguments, NULL-terminated.
 */
enum opt_result opt_parse(const struct opt_help *help, int *argc, const char **argv, void *target);

/*
 * Hand the tables of a command that is asked for help to `take` instead of printing them; NULL: print again. So whoever
 * needs the tables of all commands (completion) asks each for help, and a command lists its tables nowhere else.
 */
typedef void opt_take_help(const struct opt_help *help, void *context);
void opt_hand_help(opt_take_help *take, void *context);

/* Exit status of an analysis command for a result other than OPT_OK. */
int opt_status(enum opt_result result);

/* Report a usage error as opt_parse() does ("MESSAGE; 'vramtrace COMMAND -h' ..."). Returns CMD_TROUBLE. */
int opt_wrong(const struct opt_help *help, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
