/* SPDX-License-Identifier: MIT */
/* The line of the program that an advice is about. */
#include "analyzer/advice/advice_job.h"

#include <string.h>

#include "analyzer/stacks/sourceline.h"

static void find_site(const struct jobpart *j, struct advice *a, uint32_t python_stack, bool of_program)
{
	struct stack_source source = replay_stack_source(j->replay, j->device->process);
	struct stack stack = { 0 };
	int site, program;

	stack_expand(&stack, &source, python_stack, 0);
	site = stack_site(&stack);
	program = site >= 0 && of_program ? stack_program(&stack, site) : -1;
	site = program >= 0 ? program : site;
	a->has_site = site >= 0 && stack.frame[site].file;
	if (a->has_site)
		a->site = stack.frame[site];
	stack_release(&stack);
}

void advice_at_stack(const struct jobpart *j, struct advice *a, uint32_t python_stack)
{
	find_site(j, a, python_stack, false);
}

void advice_at_program(const struct jobpart *j, struct advice *a, uint32_t python_stack)
{
	find_site(j, a, python_stack, true);
}

bool advice_is_package(const struct jobpart *j, const struct advice *a, uint32_t python_stack)
{
	struct advice program = { 0 };

	find_site(j, &program, python_stack, true);
	return a->has_site && program.has_site && !sourceline_is_same(&a->site, &program.site);
}

/* Has what text_of() says of one of the frames one of these words in it? */
static bool has_one(const struct jobpart *j, uint32_t python_stack, const char *const *words,
		    const char *(*text_of)(const struct stack_frame *f))
{
	struct stack_source source = replay_stack_source(j->replay, j->device->process);
	struct stack stack = { 0 };
	bool found = false;

	stack_expand(&stack, &source, python_stack, 0);
	for (uint32_t i = 0; i < stack.nr_frames && !found; i++) {
		const char *text = text_of(&stack.frame[i]);

		for (const char *const *word = words; *word && text && !found; word++)
			found = strstr(text, *word);
	}
	stack_release(&stack);
	return found;
}

static const char *python_file(const struct stack_frame *f)
{
	return f->python ? f->file : NULL;
}

static const char *function_name(const struct stack_frame *f)
{
	return f->function;
}

bool advice_runs_in(const struct jobpart *j, uint32_t python_stack, const char *const *files)
{
	return has_one(j, python_stack, files, python_file);
}

bool advice_names_one(const struct jobpart *j, uint32_t python_stack, const char *const *functions)
{
	return has_one(j, python_stack, functions, function_name);
}

bool advice_ends_in(const struct jobpart *j, uint32_t python_stack, const char *file)
{
	struct stack_source source = replay_stack_source(j->replay, j->device->process);
	struct stack stack = { 0 };
	bool found;

	stack_expand(&stack, &source, python_stack, 0);
	found = stack.nr_frames && stack.frame[0].file && strstr(stack.frame[0].file, file);
	stack_release(&stack);
	return found;
}
