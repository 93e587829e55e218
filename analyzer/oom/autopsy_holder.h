/* SPDX-License-Identifier: MIT */
/* Who holds what is older than it need be: a model or an optimizer that a newer one has come after. */
#ifndef VT_AUTOPSY_HOLDER_H
#define VT_AUTOPSY_HOLDER_H

#include "analyzer/names/modelkeeper.h"
#include "analyzer/oom/autopsy_facts.h"

/* Of a parameter's block, or of an optimizer's state; false: nothing is known to hold it. */
bool autopsy_find_holder(struct modelkeeper *k, const struct autopsy *a, size_t block);

/*
 * Say, as evidence, who holds a block and, if `other` is another, one that is held in the same way; and what they are called, for
 * advice. The finding is proven then. false: nothing is known to hold it.
 */
bool autopsy_say_holder(char text[static OBJECTNAME_MAX], const struct autopsy *a, struct autopsy_finding *f, size_t block,
			size_t other);

#endif
