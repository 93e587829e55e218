/* SPDX-License-Identifier: MIT */
/* Who keeps the blocks of a group: objectname.h's keepers of its largest one, as what they are for the whole of it. */
#ifndef VT_GROUPKEEPER_H
#define VT_GROUPKEEPER_H

#include "analyzer/names/namegroups.h"

#define GROUPKEEPER_MOST 16 /* keepers that are looked at, the nearest */

/* The nearest keeper, and the next, of kind 0 if there is none. false: nothing keeps it. */
bool groupkeeper_nearest(struct keeper *k, struct keeper *next, const struct namegroup *g);

/*
 * Of many blocks the container that has an entry for each (for some, they came after the census): that of the records,
 * exceptions or contexts which hold them, where the nearest is one of those. false: there is none.
 */
bool groupkeeper_container(struct keeper *k, const struct namegroup *g);

/* The container that has the object of this kind (TFMT_KIND_EXCEPTION) which leads to the group. false: none has it. */
bool groupkeeper_around(struct keeper *k, const struct namegroup *g, uint8_t kind);

/* The nearest container that had more entries from census to census: what grows. false: none is known to. */
bool groupkeeper_growing(struct keeper *k, const struct namegroup *g);

/* The nearest nn.Module on the way that had more modules or parameters of its own from census to census. false: none is known to. */
bool groupkeeper_growing_module(struct keeper *k, const struct namegroup *g);

/*
 * Of what has many names: the largest group of those that one container which grows has, if all of these are more than half of
 * the bytes; *bytes: that many. NULL: there is no such container.
 */
const struct namegroup *groupkeeper_most(const struct namegroups *g, uint64_t *bytes);

/*
 * The same of a container or another keeper, whether it grows or not, by its name: that of the attributes of objects of one kind, or of lists
 * that a dict has by key. *unseen: what of them no view looks at. NULL: no keeper of the largest group has more than half of the bytes.
 */
const struct namegroup *groupkeeper_alike(const struct namegroups *g, uint64_t *bytes, uint64_t *unseen);

/* The nearest keeper, or that container, if it has a bound (maxlen, maxsize). false: it has none, or none is known. */
bool groupkeeper_bounded(struct keeper *k, const struct namegroup *g);

/* Has the container that keeps it a bound that it has reached, and grows none that holds such ones? Then this is no more than is meant. */
bool groupkeeper_is_full(const struct namegroup *g);

/* A call that has begun and waits: of a generator, or (is_async) of an async function. Valid until the census is closed. */
struct suspended {
	const char *variable, *function; /* the nearest variable of the call's that leads to the block; function: NULL = not known */
	bool is_async;
};
/* The nearest such call by whose variable it is kept. false: none keeps it. */
bool suspended_find(struct suspended *s, const struct named *named);

/* Is a list, deque, dict or set on its way, but for what modules and objects keep their own in? */
bool named_is_in_container(const struct named *named);

/* A list, deque, dict or set; the cache of functools.lru_cache(); a variable that is the tensor itself. */
bool keeper_has_entries(const struct keeper *k);
bool keeper_is_lru_cache(const struct keeper *k);
bool keeper_is_variable(const struct keeper *k);

/* What a keeper of the group is called: its name, of keepers of several blocks the pattern. */
const char *groupkeeper_name(const struct namegroup *g, const struct objectname *n);

#endif
