/* SPDX-License-Identifier: MIT */
/* Who holds what is older than it need be. */
#include "analyzer/oom/autopsy_holder.h"

#include <stdio.h>
#include <string.h>

/*
 * What several holders are called: their pattern, if it is one; session.by_task['ner'] and session.by_task['tags'] are
 * session.by_task[*]. Where they differ by more than one key, as the first is.
 */
static void text_of_several(char text[static OBJECTNAME_MAX], const struct objectname *first, const struct objectname *other)
{
	const char *a = first->text, *b = other->text, *key = a, *ends[2];

	for (const char *at = a; *at && *at == b[at - a]; at++)
		key = *at == '[' ? at : key;
	ends[0] = strchr(key, ']');
	ends[1] = strchr(b + (key - a), ']');
	if (!strcmp(first->pattern, other->pattern) || *key != '[' || !ends[0] || !ends[1] || strcmp(ends[0], ends[1]) != 0)
		snprintf(text, OBJECTNAME_MAX, "%s", first->pattern);
	else
		snprintf(text, OBJECTNAME_MAX, "%.*s[*%s", (int)(key - a), a, ends[0]);
}

bool autopsy_find_holder(struct modelkeeper *k, const struct autopsy *a, size_t block)
{
	struct named named;

	return namedblocks_name(&named, a->device->process, &a->categories.block[block].life, LIVES_OOM) &&
	       modelkeeper_find(k, named.census->census, named.object);
}

bool autopsy_say_holder(char text[static OBJECTNAME_MAX], const struct autopsy *a, struct autopsy_finding *f, size_t block,
			size_t other)
{
	struct modelkeeper k, second;

	if (!autopsy_find_holder(&k, a, block))
		return false;
	if (other != block && autopsy_find_holder(&second, a, other))
		text_of_several(text, &k.name, &second.name);
	else
		snprintf(text, OBJECTNAME_MAX, "%s", k.name.text);
	f->certainty = CERTAINTY_PROVEN;
	autopsy_evidence(f, SAID(older_holder, fact_name("holder", text),
				 fact_line("site", k.name.file, k.name.line, k.name.function)));
	return true;
}
