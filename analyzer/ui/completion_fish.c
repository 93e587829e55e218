/* SPDX-License-Identifier: MIT */
/* The completion script of fish: a line an option, with what -h says of it. */
#include "analyzer/ui/completion.h"

static const char walk[] =
	"# The words before the cursor name no command yet.\n"
	"function __vramtrace_begins\n"
	"    test (count (commandline -opc)) -eq 1\n"
	"end\n"
	"\n"
	"# They name this command.\n"
	"function __vramtrace_is -a command\n"
	"    set -l words (commandline -opc)\n"
	"    test (count $words) -gt 1; and test $words[2] = $command\n"
	"end\n"
	"\n"
	"# The program that the command runs, and its arguments, up to the cursor: nothing while the command's own options are due.\n"
	"function __vramtrace_program -a command\n"
	"    set -l words (commandline -opc)\n"
	"    set -e words[1..2]\n"
	"    while set -q words[1]\n"
	"        set -l word $words[1]\n"
	"        if test $word = --\n"
	"            set -e words[1]\n"
	"            string escape -- $words\n"
	"            commandline -ct\n"
	"            return\n"
	"        else if not string match -q -- '-*' $word\n"
	"            string escape -- $words\n"
	"            commandline -ct\n"
	"            return\n"
	"        end\n"
	"        set -e words[1]\n"
	"        contains -- $word (__vramtrace_valued $command); and set -e words[1]\n"
	"    end\n"
	"end\n"
	"\n"
	"# They name this command, and no program that it runs: its options are due.\n"
	"function __vramtrace_options_of -a command\n"
	"    __vramtrace_is $command; and test (count (__vramtrace_program $command)) -eq 0\n"
	"end\n"
	"\n"
	"function __vramtrace_complete_program -a command\n"
	"    set -l program (__vramtrace_program $command)\n"
	"    test (count $program) -gt 0; or set program (commandline -ct)\n"
	"    complete -C \"$program\"\n"
	"end\n"
	"\n"
	"complete -c vramtrace -n __vramtrace_begins -f\n"
	"complete -c vramtrace -n __vramtrace_begins -l version -d 'name this version'\n"
	"complete -c vramtrace -n __vramtrace_begins -l help -s h -d 'list the commands'\n"
	"complete -c vramtrace -n __vramtrace_begins -a help -d 'explain a command'\n"
	"complete -c vramtrace -n '__vramtrace_is help' -f\n";

static void print_text(const char *text, FILE *out)
{
	fputs(" -d '", out);
	completion_print_quoted(text, "\\'", out);
	fputs("'\n", out);
}

static void print_option(const struct completion *c, const struct completion_command *command, const struct opt *o,
			 FILE *out)
{
	const char *condition = command->help->stop_at_positional ? "options_of" : "is";
	const char *const *values = completion_values(c, o);

	fprintf(out, "complete -c vramtrace -n '__vramtrace_%s %s' -l %s", condition, command->name, o->name);
	if (o->letter)
		fprintf(out, " -s %c", o->letter);
	if (completion_has_value(o))
		fputs(completion_is_path(o) ? " -r -F" : " -x", out);
	if (values) {
		fputs(" -a '", out);
		completion_print_words(values, out);
		fputc('\'', out);
	}
	print_text(o->help, out);
}

static void print_command(const struct completion *c, const struct completion_command *command, FILE *out)
{
	const struct opt_help *help = command->help;
	const struct opt *o;

	fprintf(out, "\ncomplete -c vramtrace -n __vramtrace_begins -a %s", command->name);
	print_text(command->what, out);
	fprintf(out, "complete -c vramtrace -n '__vramtrace_is help' -a %s", command->name);
	print_text(command->what, out);
	for (size_t i = 0; (o = completion_option(command, i)); i++)
		print_option(c, command, o, out);
	if (help->stop_at_positional)
		fprintf(out, "complete -c vramtrace -n '__vramtrace_is %s' -f -a '(__vramtrace_complete_program %s)'\n",
			command->name, command->name);
	if (help->operands) {
		fprintf(out, "complete -c vramtrace -n '__vramtrace_is %s' -f -a '", command->name);
		completion_print_words(help->operands, out);
		fputs("'\n", out);
	}
}

void completion_print_fish(const struct completion *c, FILE *out)
{
	const struct opt *o;

	fputs("# fish completion for vramtrace, printed by 'vramtrace completion fish'\n\n"
	      "# The options of a command whose value is a word of its own.\n"
	      "function __vramtrace_valued -a command\n    switch $command\n", out);
	for (size_t i = 0; i < c->nr; i++) {
		if (!c->commands[i].help->stop_at_positional)
			continue;
		fprintf(out, "        case %s\n            printf '%%s\\n'", c->commands[i].name);
		for (size_t k = 0; (o = completion_option(&c->commands[i], k)); k++) {
			if (completion_has_value(o))
				fprintf(out, " --%s", o->name);
			if (completion_has_value(o) && o->letter)
				fprintf(out, " -%c", o->letter);
		}
		fputc('\n', out);
	}
	fputs("    end\nend\n\n", out);
	fputs(walk, out);
	for (size_t i = 0; i < c->nr; i++)
		print_command(c, &c->commands[i], out);
}
