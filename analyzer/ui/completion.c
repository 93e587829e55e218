/* SPDX-License-Identifier: MIT */
/* What the completion scripts of all shells ask of the tables. */
#include "analyzer/ui/completion.h"

#include <string.h>

const struct opt *completion_option(const struct completion_command *command, size_t i)
{
	const struct opt *options = command->help->options;
	size_t nr = 0;

	while (options[nr].type)
		nr++;
	return i < nr ? &options[i] : i == nr ? &opt_help_row : NULL;
}

bool completion_has_value(const struct opt *o)
{
	return o->type != OPT_TYPE_FLAG && o->type != OPT_TYPE_COUNT && o->type != OPT_TYPE_CHOICE;
}

const char *const *completion_values(const struct completion *c, const struct opt *o)
{
	return o->arg && !strcmp(o->arg, "GPU") ? c->gpus : o->values;
}

bool completion_is_path(const struct opt *o)
{
	return o->type == OPT_TYPE_STRING;
}

void completion_print_words(const char *const *words, FILE *out)
{
	for (size_t i = 0; words[i]; i++)
		fprintf(out, "%s%s", i ? " " : "", words[i]);
}

void completion_print_quoted(const char *text, const char *escape, FILE *out)
{
	for (; *text; text++) {
		if (*text == '\'')
			fputs(escape, out);
		else
			fputc(*text, out);
	}
}
