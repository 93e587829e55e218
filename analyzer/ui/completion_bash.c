/* SPDX-License-Identifier: MIT */
/* The completion script of bash 4 and newer; the package bash-completion is used where it is, but not needed. */
#include "analyzer/ui/completion.h"

/* What goes through the words before the cursor. The tables, which come first, fill its variables. */
static const char walk[] =
	"_vramtrace()\n"
	"{\n"
	"	local word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} option= i=2 end=\n"
	"	local options= valued= operands= program= paths= words=\n"
	"\n"
	"	COMPREPLY=()\n"
	"	if ((COMP_CWORD == 1)); then\n"
	"		mapfile -t COMPREPLY < <(compgen -W \"$_vramtrace_commands help --help --version\" -- \"$word\")\n"
	"		return\n"
	"	fi\n"
	"	_vramtrace_options \"$command\"\n"
	"	while ((i < COMP_CWORD)); do\n"
	"		local before=${COMP_WORDS[i++]}\n"
	"		if [[ $before == -- ]]; then\n"
	"			end=$i\n"
	"			break\n"
	"		elif [[ $before != -* ]]; then\n"
	"			[[ $program ]] || continue\n"
	"			end=$((i - 1))\n"
	"			break\n"
	"		fi\n"
	"		# \"--option=value\" is three words here.\n"
	"		if [[ ${COMP_WORDS[i]} == = ]]; then\n"
	"			option=$before\n"
	"			((i++))\n"
	"		elif [[ \" $valued \" == *\" $before \"* ]]; then\n"
	"			option=$before\n"
	"		fi\n"
	"		[[ $option ]] || continue\n"
	"		((i >= COMP_CWORD)) && break\n"
	"		option=\n"
	"		((i++))\n"
	"	done\n"
	"	[[ $word == = ]] && word=\n"
	"	if [[ $option ]]; then\n"
	"		_vramtrace_values \"$command $option\"\n"
	"	elif [[ $program && $end ]] && declare -F _command_offset >/dev/null; then\n"
	"		_command_offset \"$end\"\n"
	"		return\n"
	"	elif [[ $word == -* && ! $end ]]; then\n"
	"		words=$options\n"
	"	elif [[ $program ]] && ((${end:-$COMP_CWORD} == COMP_CWORD)); then\n"
	"		mapfile -t COMPREPLY < <(compgen -c -- \"$word\")\n"
	"		paths=1\n"
	"	elif [[ $operands ]]; then\n"
	"		words=$operands\n"
	"	else\n"
	"		paths=1\n"
	"	fi\n"
	"	if [[ $words ]]; then\n"
	"		mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n"
	"	fi\n"
	"	# bash's own completion of paths, where there is no other reply\n"
	"	if [[ $paths ]]; then\n"
	"		compopt -o default\n"
	"	fi\n"
	"}\n"
	"complete -F _vramtrace vramtrace\n";

static void print_names(const struct opt *o, FILE *out)
{
	if (o->letter)
		fprintf(out, " -%c", o->letter);
	fprintf(out, " --%s", o->name);
}

/* A case of _vramtrace_options. */
static void print_options(const struct completion_command *command, FILE *out)
{
	const struct opt_help *help = command->help;
	const struct opt *o;

	fprintf(out, "\t%s)\n\t\toptions='", command->name);
	for (size_t i = 0; (o = completion_option(command, i)); i++)
		print_names(o, out);
	fputs("'\n\t\tvalued='", out);
	for (size_t i = 0; (o = completion_option(command, i)); i++) {
		if (completion_has_value(o))
			print_names(o, out);
	}
	fputs("'\n", out);
	if (help->stop_at_positional)
		fputs("\t\tprogram=1\n", out);
	if (help->operands) {
		fputs("\t\toperands=' ", out);
		completion_print_words(help->operands, out);
		fputs("'\n", out);
	}
	fputs("\t\t;;\n", out);
}

/* Cases of _vramtrace_values; an option without one has values that nobody can guess. */
static void print_values(const struct completion *c, const struct completion_command *command, FILE *out)
{
	const struct opt *o;

	for (size_t i = 0; (o = completion_option(command, i)); i++) {
		const char *const *values = completion_values(c, o);

		if (!values && !completion_is_path(o))
			continue;
		fprintf(out, "\t'%s --%s'", command->name, o->name);
		if (o->letter)
			fprintf(out, " | '%s -%c'", command->name, o->letter);
		fputs(")", out);
		if (values) {
			fputs(" words='", out);
			completion_print_words(values, out);
			fputc('\'', out);
		}
		fputs(completion_is_path(o) ? " paths=1 ;;\n" : " ;;\n", out);
	}
}

void completion_print_bash(const struct completion *c, FILE *out)
{
	fputs("# bash completion for vramtrace, printed by 'vramtrace completion bash'\n_vramtrace_commands='", out);
	for (size_t i = 0; i < c->nr; i++)
		fprintf(out, "%s%s", i ? " " : "", c->commands[i].name);
	fputs("'\n\n_vramtrace_options()\n{\n\tcase $1 in\n", out);
	for (size_t i = 0; i < c->nr; i++)
		print_options(&c->commands[i], out);
	fputs("\thelp) operands=$_vramtrace_commands ;;\n\tesac\n}\n\n"
	      "_vramtrace_values()\n{\n\tcase $1 in\n", out);
	for (size_t i = 0; i < c->nr; i++)
		print_values(c, &c->commands[i], out);
	fputs("\tesac\n}\n\n", out);
	fputs(walk, out);
}
