/* SPDX-License-Identifier: MIT */
/* Cause: a list of tensors is to become one, beside the list. */
#include <string.h>

#include "analyzer/allocator/torch.h"
#include "analyzer/oom/autopsy_causes.h"
#include "analyzer/oom/oom_thresholds.h"

struct list {
	uint32_t nr;
	uint64_t bytes, largest; /* of tensors, before the allocator's rounding */
};

/* What is live of one stack. */
static struct list find_list(const struct autopsy *a, uint32_t python_stack)
{
	struct list list = { 0 };

	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct group *g = autopsy_group(a, i);

		if (g->python_stack != python_stack || !g->shape_bytes)
			continue;
		list.nr++;
		list.bytes += g->shape_bytes;
		list.largest = g->shape_bytes > list.largest ? g->shape_bytes : list.largest;
	}
	return list;
}

static bool is_joining(const char *operation)
{
	static const char *const names[] = { "cat", "stack", "concat", "concatenate", "vstack", "hstack", "dstack" };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(operation, names[i]))
			return true;
	return false;
}

/* All tensors of the stack that holds most at any place have together what was asked for. */
bool autopsy_is_list(const struct autopsy *a, struct autopsy_finding *f)
{
	const struct autopsy_place *place = a->nr_places ? &a->place[0] : NULL;
	uint32_t stack = place ? autopsy_group(a, place->largest)->python_stack : TFMT_STACK_NOT_CAPTURED;
	struct list list;

	if (stack < TFMT_STACK_FIRST || !is_joining(a->operation))
		return false;
	list = find_list(a, stack);
	if (list.nr < LIST_MIN || torch_rounded(list.bytes) != torch_rounded(a->failure->asked))
		return false;
	f->bytes = list.bytes;
	autopsy_at_request(a, f);
	autopsy_say(f, SAID(list_joined, fact_count("tensors", list.nr), fact_bytes("bytes", list.bytes)));
	autopsy_evidence(f, SAID(list_made, fact_name("operation", a->operation), fact_site("site", &place->frame)));
	autopsy_advise(f, SAID(list_advice, fact_bytes("less", list.bytes - list.largest)));
	return true;
}
