/* SPDX-License-Identifier: MIT */
/* vramtrace completion: the script by which a shell completes command lines, from the tables of all commands. */
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/command.h"
#include "analyzer/gpu/gpunames.h"
#include "analyzer/ui/completion.h"
#include "analyzer/ui/options.h"

static const char *const shells[] = { "bash", "zsh", "fish", NULL };
static void (*const print[])(const struct completion *, FILE *) = {
	completion_print_bash, completion_print_zsh, completion_print_fish
};

static const struct opt completion_optv[] = { OPT_END };

static const struct opt_help completion_help = {
	.command = "completion",
	.purpose = "Print a script by which a shell completes vramtrace's commands, options and values.",
	.usage = "bash|zsh|fish",
	.example = "source <(vramtrace completion bash)       # in ~/.bashrc; zsh: in ~/.zshrc, after compinit\n"
		   "vramtrace completion fish | source        # in ~/.config/fish/config.fish",
	.options = completion_optv,
	.operands = shells,
};

static void take_help(const struct opt_help *help, void *context)
{
	struct completion_command *command = context;

	command->help = help;
}

/* Each command tells its tables when it is asked for help. */
static void gather(struct completion *c)
{
	const struct command *known;
	size_t room = 0;

	for (c->nr = 0; (known = command_at(c->nr)); c->nr++) {
		const char *argv[] = { known->name, "--help", NULL };

		c->commands = heap_grow(c->commands, &room, c->nr + 1, sizeof(*c->commands));
		c->commands[c->nr] = (struct completion_command){ .name = known->name, .what = known->help };
		opt_hand_help(take_help, &c->commands[c->nr]);
		known->run(2, argv);
	}
	opt_hand_help(NULL, NULL);
}

int cmd_completion(int argc, const char **argv)
{
	struct completion c = { .gpus = gpunames_profiles() };
	enum opt_result parsed = opt_parse(&completion_help, &argc, argv, NULL);
	size_t shell = 0;

	if (parsed != OPT_OK)
		return opt_status(parsed);
	if (argc != 2)
		return opt_wrong(&completion_help, "'completion' takes the name of a shell: bash, zsh or fish");
	while (shells[shell] && strcmp(argv[1], shells[shell]) != 0)
		shell++;
	if (!shells[shell])
		return opt_wrong(&completion_help, "there is no completion for '%s': bash, zsh or fish", argv[1]);
	gather(&c);
	print[shell](&c, stdout);
	free(c.commands);
	return CMD_FINE;
}
