/* SPDX-License-Identifier: MIT */
/* Parsing and help from tables of option rows. */
#include "analyzer/ui/options.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/human.h"
#include "analyzer/base/message.h"
#include "analyzer/command.h"

const char *const opt_no_paths[] = { NULL };
const struct opt opt_help_row = { .letter = 'h', .name = "help", .type = OPT_TYPE_FLAG, .help = "print this help" };

int opt_status(enum opt_result result)
{
	return result == OPT_HELPED ? CMD_FINE : CMD_TROUBLE;
}

int opt_wrong(const struct opt_help *help, const char *format, ...)
{
	char text[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return message_error("%s; 'vramtrace %s -h' lists the options", text, help->command);
}

#define HELP_WIDTH_MAX 32 /* a longer row has its help on the next line */

/* ---- help ------------------------------------------------------------------------------------ */

/* "  -m, --min-size SIZE" into `out`; a value list stands for the argument's name. */
static void describe_row(const struct opt *o, char *out, size_t size)
{
	char letter[8] = "    ";
	int n;

	if (o->letter)
		snprintf(letter, sizeof(letter), "-%c, ", o->letter);
	n = snprintf(out, size, "  %s--%s", letter, o->name);
	if (o->arg)
		snprintf(out + n, size - (size_t)n, " %s", o->arg);
	for (int i = 0; o->values && o->values[i]; i++)
		n += snprintf(out + n, size - (size_t)n, "%s%s",
			      i ? "|" : o->type == OPT_TYPE_CHOICE ? "[=" : " ", o->values[i]);
	if (o->type == OPT_TYPE_CHOICE)
		snprintf(out + n, size - (size_t)n, "]");
}

static void print_help(const struct opt_help *help, FILE *out)
{
	char row[160];
	int width;

	describe_row(&opt_help_row, row, sizeof(row));
	width = (int)strlen(row);
	for (const struct opt *o = help->options; o->type; o++) {
		describe_row(o, row, sizeof(row));
		if ((int)strlen(row) > width && strlen(row) <= HELP_WIDTH_MAX)
			width = (int)strlen(row);
	}
	fprintf(out, "%s\n\nusage: vramtrace %s %s\n\noptions:\n", help->purpose, help->command, help->usage);
	for (const struct opt *o = help->options;; o++) {
		describe_row(o->type ? o : &opt_help_row, row, sizeof(row));
		if ((int)strlen(row) > width)
			fprintf(out, "%s\n%*s  %s\n", row, width, "", o->type ? o->help : opt_help_row.help);
		else
			fprintf(out, "%-*s  %s\n", width, row, o->type ? o->help : opt_help_row.help);
		if (!o->type)
			break;
	}
	fprintf(out, "\nexample:\n");
	for (const char *line = help->example; *line;) {
		int len = (int)strcspn(line, "\n");

		fprintf(out, "  %.*s\n", len, line);
		line += len + (line[len] == '\n');
	}
}

static opt_take_help *taker;
static void *taker_context;

void opt_hand_help(opt_take_help *take, void *context)
{
	taker = take;
	taker_context = context;
}

static enum opt_result give_help(const struct opt_help *help)
{
	if (taker)
		taker(help, taker_context);
	else
		print_help(help, stdout);
	return OPT_HELPED;
}

/* ---- parsing --------------------------------------------------------------------------------- */

struct parse {
	const struct opt_help *help;
	char *target;
	const char **next; /* next word of the command line */
};

static enum opt_result wrong_value(const struct parse *p, const struct opt *o, const char *value,
				   const char *want)
{
	opt_wrong(p->help, "'%s' is not %s for '--%s'", value, want, o->name);
	return OPT_WRONG;
}

static enum opt_result store_enum(const struct parse *p, const struct opt *o, const char *value, int *field)
{
	char want[256] = "one of ";
	size_t n = strlen(want);

	for (int i = 0; o->values[i]; i++) {
		if (!strcmp(value, o->values[i])) {
			*field = i;
			return OPT_OK;
		}
		n += (size_t)snprintf(want + n, sizeof(want) - n, "%s%s", i ? ", " : "", o->values[i]);
	}
	return wrong_value(p, o, value, want);
}

static enum opt_result store_int(const struct parse *p, const struct opt *o, const char *value,
				 int64_t *field)
{
	char *end;
	long long number;

	errno = 0;
	number = strtoll(value, &end, 10);
	if (errno || end == value || *end)
		return wrong_value(p, o, value, "a whole number");
	*field = number;
	return OPT_OK;
}

static enum opt_result store_one_more(const struct parse *p, const struct opt *o, const char *value, struct opt_list *list)
{
	if (list->nr == OPT_LIST_MAX) {
		opt_wrong(p->help, "option '--%s' may be given %d times at most", o->name, OPT_LIST_MAX);
		return OPT_WRONG;
	}
	list->value[list->nr++] = value;
	return OPT_OK;
}

static enum opt_result store(const struct parse *p, const struct opt *o, const char *value)
{
	void *field = p->target + o->offset;

	switch (o->type) {
	case OPT_TYPE_FLAG:
		*(bool *)field = true;
		return OPT_OK;
	case OPT_TYPE_COUNT:
		++*(unsigned *)field;
		return OPT_OK;
	case OPT_TYPE_STRING:
		*(const char **)field = value;
		return OPT_OK;
	case OPT_TYPE_LIST:
		return store_one_more(p, o, value, field);
	case OPT_TYPE_BYTES:
		return human_parse_bytes(value, field) ? OPT_OK
						       : wrong_value(p, o, value, "a size such as 20GiB");
	case OPT_TYPE_INT:
		return store_int(p, o, value, field);
	case OPT_TYPE_ENUM:
	case OPT_TYPE_CHOICE:
		return store_enum(p, o, value, field);
	case OPT_TYPE_END:
		break;
	}
	return OPT_WRONG;
}

/* The value of an option that needs one: what is attached to it, else the next word. NULL = reported. */
static const char *take_value(struct parse *p, const struct opt *o, const char *attached)
{
	if (attached)
		return attached;
	if (*p->next)
		return *p->next++;
	opt_wrong(p->help, "option '--%s' needs a value", o->name);
	return NULL;
}

/* A word of its own, that has no value. */
static bool is_switch(const struct opt *o)
{
	return o->type == OPT_TYPE_FLAG || o->type == OPT_TYPE_COUNT;
}

static enum opt_result parse_long(struct parse *p, const char *word)
{
	const char *name = word + 2, *equals = strchr(name, '='), *value;
	size_t len = equals ? (size_t)(equals - name) : strlen(name);
	const struct opt *o;

	if (len == 4 && !memcmp(name, "help", 4))
		return give_help(p->help);
	for (o = p->help->options; o->type; o++) {
		if (strlen(o->name) == len && !memcmp(o->name, name, len))
			break;
	}
	if (!o->type) {
		message_error("unknown option '--%.*s'; 'vramtrace %s -h' lists them", (int)len, name,
			      p->help->command);
		return OPT_WRONG;
	}
	if (is_switch(o)) {
		if (equals) {
			opt_wrong(p->help, "option '--%s' takes no value", o->name);
			return OPT_WRONG;
		}
		return store(p, o, NULL);
	}
	if (o->type == OPT_TYPE_CHOICE)
		return store(p, o, equals ? equals + 1 : o->values[0]);
	value = take_value(p, o, equals ? equals + 1 : NULL);
	return value ? store(p, o, value) : OPT_WRONG;
}

static enum opt_result parse_letters(struct parse *p, const char *word)
{
	enum opt_result ret = OPT_OK;

	for (const char *letter = word + 1; *letter && ret == OPT_OK; letter++) {
		const struct opt *o = p->help->options;
		const char *value;

		if (*letter == 'h')
			return give_help(p->help);
		while (o->type && o->letter != *letter)
			o++;
		if (!o->type) {
			message_error("unknown option '-%c'; 'vramtrace %s -h' lists them", *letter,
				      p->help->command);
			return OPT_WRONG;
		}
		if (is_switch(o) || o->type == OPT_TYPE_CHOICE) {
			ret = store(p, o, o->values ? o->values[0] : NULL);
			continue;
		}
		value = take_value(p, o, letter[1] ? letter + 1 : NULL);
		return value ? store(p, o, value) : OPT_WRONG;
	}
	return ret;
}

enum opt_result opt_parse(const struct opt_help *help, int *argc, const char **argv, void *target)
{
	struct parse p = { .help = help, .target = target, .next = argv + 1 };
	enum opt_result ret = OPT_OK;
	bool options_over = false;
	int kept = 1;

	while (*p.next && ret == OPT_OK) {
		const char *word = *p.next++;

		if (options_over || word[0] != '-' || !word[1]) {
			argv[kept++] = word;
			options_over |= help->stop_at_positional;
		} else if (!strcmp(word, "--")) {
			options_over = true;
		} else if (word[1] == '-') {
			ret = parse_long(&p, word);
		} else {
			ret = parse_letters(&p, word);
		}
	}
	if (ret == OPT_OK) {
		argv[kept] = NULL;
		*argc = kept;
	}
	return ret;
}
