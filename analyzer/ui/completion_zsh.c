/* SPDX-License-Identifier: MIT */
/* The completion script of zsh: the tables as specifications of _arguments, with what -h says of each. */
#include "analyzer/ui/completion.h"

#include <string.h>

#define ESCAPE "'\\''"

static const char ending[] =
	"# Read from fpath, this file is the function's body; by 'source', it defines it.\n"
	"if [[ $zsh_eval_context[-1] == loadautofunc ]]; then\n"
	"	_vramtrace \"$@\"\n"
	"else\n"
	"	compdef _vramtrace vramtrace\n"
	"fi\n";

/* Text within single quotes, in which `special` characters have a meaning to _arguments. */
static void print_text(const char *text, const char *special, FILE *out)
{
	char one[2] = "";

	for (; *text; text++) {
		if (strchr(special, *text))
			fputc('\\', out);
		one[0] = *text;
		completion_print_quoted(one, ESCAPE, out);
	}
}

static void print_action(const struct completion *c, const struct opt *o, FILE *out)
{
	const char *const *values = completion_values(c, o);

	fputc(':', out);
	print_text(o->arg ? o->arg : o->name, "\\:[]", out);
	fputc(':', out);
	if (values && completion_is_path(o)) {
		fputs("{compadd ", out);
		completion_print_words(values, out);
		fputs("; _files}", out);
	} else if (values) {
		fputc('(', out);
		completion_print_words(values, out);
		fputc(')', out);
	} else if (completion_is_path(o)) {
		fputs("_files", out);
	}
}

/* '(-o --output)'{-o+,--output=}'[help]:FILE:_files' */
static void print_option(const struct completion *c, const struct opt *o, FILE *out)
{
	bool has_value = completion_has_value(o);

	fputs(" \\\n\t\t\t", out);
	if (o->letter && o->type == OPT_TYPE_COUNT)
		fprintf(out, "'*'{-%c,--%s}'", o->letter, o->name);
	else if (o->letter)
		fprintf(out, "'(-%c --%s)'{-%c%s,--%s%s}'", o->letter, o->name, o->letter, has_value ? "+" : "", o->name,
			has_value ? "=" : "");
	else
		fprintf(out, "'--%s%s", o->name, has_value ? "=" : o->type == OPT_TYPE_CHOICE ? "=-" : "");
	fputc('[', out);
	print_text(o->help, "\\[]", out);
	fputc(']', out);
	if (o->type == OPT_TYPE_CHOICE)
		fputc(':', out);
	if (has_value || o->type == OPT_TYPE_CHOICE)
		print_action(c, o, out);
	fputc('\'', out);
}

static void print_command(const struct completion *c, const struct completion_command *command, FILE *out)
{
	const struct opt_help *help = command->help;
	const struct opt *o;

	fprintf(out, "\t%s)\n\t\t_arguments -s -S", command->name);
	for (size_t i = 0; (o = completion_option(command, i)); i++)
		print_option(c, o, out);
	if (help->stop_at_positional) {
		fputs(" \\\n\t\t\t'(-)1:program:_command_names -e' '*::argument:_normal'", out);
	} else if (!help->operands) {
		fputs(" \\\n\t\t\t'*:path:_files'", out);
	} else if (help->operands[0]) {
		fputs(" \\\n\t\t\t'*:word:(", out);
		completion_print_words(help->operands, out);
		fputs(")'", out);
	}
	fputs("\n\t\t;;\n", out);
}

void completion_print_zsh(const struct completion *c, FILE *out)
{
	fputs("#compdef vramtrace\n# zsh completion for vramtrace, printed by 'vramtrace completion zsh'\n\n"
	      "_vramtrace()\n{\n\tlocal verb curcontext=$curcontext\n\tlocal -a verbs=(\n", out);
	for (size_t i = 0; i < c->nr; i++) {
		fprintf(out, "\t\t'%s:", c->commands[i].name);
		print_text(c->commands[i].what, "\\:", out);
		fputs("'\n", out);
	}
	fputs("\t)\n\n"
	      "	if ((CURRENT == 2)); then\n"
	      "		verbs+=('help:explain a command')\n"
	      "		_describe -t commands command verbs\n"
	      "		_arguments '--help[list the commands]' '--version[name this version]'\n"
	      "		return\n"
	      "	fi\n"
	      "	verb=$words[2]\n"
	      "	curcontext=${curcontext%:*}-$verb:\n"
	      "	shift words\n"
	      "	((CURRENT--))\n"
	      "	case $verb in\n"
	      "	help)\n"
	      "		_describe -t commands command verbs\n"
	      "		;;\n",
	      out);
	for (size_t i = 0; i < c->nr; i++)
		print_command(c, &c->commands[i], out);
	fputs("\tesac\n}\n\n", out);
	fputs(ending, out);
}
