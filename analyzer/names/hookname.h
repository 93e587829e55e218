/* SPDX-License-Identifier: MIT */
/*
 * Hooks that keep: the function that model.layers.0.register_forward_hook() was given is held by a dict of that module, and what
 * it holds itself goes with it when the handle's remove() takes it out of there. The handle's own variable is not known: it
 * leads to the dict weakly, and many programs drop it.
 */
#ifndef VT_HOOKNAME_H
#define VT_HOOKNAME_H

#include "analyzer/names/objectname.h"

struct hookname {
	struct objectname of; /* the module, tensor, optimizer or Python module that has the hook */
	const char *call;     /* what gave it the hook: "register_forward_hook"; NULL: one of several, and nothing tells which */
};

/* The hook that is nearest to an object, on the way to it. false: the way passes none. */
bool hookname_find(struct hookname *h, const struct tfmt_census *c, uint32_t object);

/* Is it the name of a dict that hooks are kept in: _forward_hooks? */
bool hookname_is_dict(const char *name);

#endif
