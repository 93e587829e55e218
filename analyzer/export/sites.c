/* SPDX-License-Identifier: MIT */
/* Lines by stack. */
#include "analyzer/export/sites.h"

#include <stdlib.h>

#include "analyzer/base/heap.h"

const char *sites_find(struct sites *s, const struct replay *m, struct replay_process *p, uint32_t python,
		       uint32_t native)
{
	struct stack_source source = replay_stack_source(m, p);
	char text[4096];
	uint32_t number;
	bool is_new;
	int site;

	if (python < TFMT_STACK_FIRST && native < TFMT_STACK_FIRST)
		return NULL;
	number = keyset_add(&s->stacks, (struct keyset_key){ { (uint32_t)(p - m->process), python, native } }, &is_new);
	if (is_new) {
		s->text = heap_grow(s->text, &s->room, number + 1, sizeof(*s->text));
		stack_expand(&s->stack, &source, python, native);
		site = stack_site(&s->stack);
		s->text[number] =
			site < 0 ? NULL : heap_copy(stack_frame_text(text, sizeof(text), &s->stack.frame[site]));
	}
	return s->text[number];
}

void sites_release(struct sites *s)
{
	for (size_t i = 0; i < s->stacks.nr; i++)
		free(s->text[i]);
	free(s->text);
	keyset_release(&s->stacks);
	stack_release(&s->stack);
	*s = (struct sites){ 0 };
}
