/* SPDX-License-Identifier: MIT */
/* Holders of a row, by name and place. */
#include "analyzer/livepages/liveholders.h"

#include <stdio.h>
#include <string.h>

#include "analyzer/recording/basename.h"
#include "analyzer/stacks/owner_names.h"
#include "analyzer/stacks/stack.h"

void liveholders_find(struct liveholders *h, const struct liverow *r)
{
	struct holders_query q = {
		.process = r->device->process,
		.device = r->device->ordinal,
		.of = r->device->has_tensors ? HOLDERS_TENSORS : HOLDERS_DRIVER,
		.by = HOLDERS_BY_SITE,
		.mark = MARK_END,
	};

	h->holders = (struct holders)HOLDERS_INIT;
	holders_find(&h->holders, &r->trace->replay, &q);
}

void liveholders_release(struct liveholders *h)
{
	holders_release(&h->holders);
}

static void place_text(char *buf, size_t size, const struct liverow *r, const struct group *g)
{
	struct stack_source source = replay_stack_source(&r->trace->replay, r->device->process);
	struct stack stack = { 0 };
	const struct stack_frame *node;
	struct stack_frame frame;
	char text[512] = "an unknown place";
	int site;

	stack_expand(&stack, &source, g->python_stack, g->native_stack);
	site = stack_site(&stack);
	node = stack_node(&stack);
	if (site >= 0) {
		frame = stack.frame[site];
		if (frame.file)
			frame.file = basename_of(frame.file);
		stack_frame_text(text, sizeof(text), &frame);
	}
	if (node && site < 0)
		snprintf(buf, size, "backward of %s", node->function);
	else
		snprintf(buf, size, "%s%s", node ? "backward of " : "", text);
	stack_release(&stack);
}

const char *liveholders_text(char *buf, size_t size, const struct liverow *r, const struct holder *h)
{
	const char *name = h->named ? namegroup_text(h->named) : NULL;
	char place[600];

	if (h->owner != OWNER_TORCH && h->largest->modelled)
		snprintf(place, sizeof(place), "%s", owner_titles[h->owner]);
	else
		place_text(place, sizeof(place), r, h->largest);
	snprintf(buf, size, "%s%s%s", name ? name : "", name ? "  " : "", place);
	return buf;
}
