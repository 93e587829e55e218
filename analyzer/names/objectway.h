/* SPDX-License-Identifier: MIT */
/* The way from a root of a census to an object, and what its steps mean. */
#ifndef VT_OBJECTWAY_H
#define VT_OBJECTWAY_H

#include <stdbool.h>
#include <stdint.h>

#include "tracefmt/tracefmt.h"

#define OBJECTWAY_MAX 128 /* steps; of a longer way, the last */

/* Of a chain (node.parent.parent.parent) two steps are kept, the first and the last: all its objects have one name. */

struct objectway {
	const struct tfmt_object_facts *step[OBJECTWAY_MAX]; /* from the root, or below it, to the object */
	uint32_t id[OBJECTWAY_MAX];
	uint32_t nr;
	const struct tfmt_object_facts *root;
	bool is_cut;      /* that is further off than the first step */
	uint32_t start;   /* the step of the variable where names begin: of a frame, a closure, a Python module */
	uint32_t top;     /* the step of the outermost nn.Module from there on; nr: none */
};

/* Of what lies on this device of a sharded tensor: the way to that tensor. */
void objectway_find(struct objectway *w, const struct tfmt_census *c, uint32_t object);

/* Is the step a further one of a chain: the same attribute of the attribute's object? */
bool objectway_is_of_chain(const struct objectway *w, uint32_t i);

/*
 * Is it one of the dicts that an nn.Module keeps its own in, an object's own dict, or what functools.lru_cache and
 * threading.local keep theirs in? It reads as if it were not there.
 */
bool objectway_is_transparent(const struct objectway *w, uint32_t i);

/* Is the step an object of this class, whatever module that is of? */
bool objectway_is_of_class(const struct objectway *w, uint32_t i, const char *name);

/* Is the step an object of functools.lru_cache, or of threading.local? */
bool objectway_is_cache(const struct objectway *w, uint32_t i);
bool objectway_is_thread_local(const struct objectway *w, uint32_t i);

/* Is the step one of the two dicts of a tensor's hooks: for its gradient, and for when that was accumulated? They have no names. */
bool objectway_is_hooks_of_tensor(const struct objectway *w, uint32_t i);

/* Is the step a dict that a module calls so: _parameters? */
bool objectway_is_own(const struct objectway *w, uint32_t i, const char *name);

/* The outermost container of a variable's that leads to an object: checkpoint of checkpoint['model']['weight']; 0: none does. */
uint32_t objectway_container(const struct tfmt_census *c, uint32_t object);

/* The nearest object of this class that leads to an object; 0: none does. */
uint32_t objectway_through(const struct tfmt_census *c, uint32_t object, const char *class_name);

/* The latest step that is the state of one parameter in an optimizer; 0: there is none, for that is no root. */
uint32_t objectway_state(const struct objectway *w, const struct tfmt_census *c);

#endif
