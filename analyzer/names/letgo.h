/* SPDX-License-Identifier: MIT */
/* The one line of a program that would let go of what it keeps, where who keeps it makes that certain. */
#ifndef VT_LETGO_H
#define VT_LETGO_H

#include "analyzer/findings/said.h"
#include "analyzer/names/hookname.h"
#include "analyzer/names/namegroups.h"

/*
 * "history.clear()", "losses.append(x.detach()) in place of x": as it would stand in the program; of a hook with words that say
 * which handle it is. of_graph: it is the graph that is to go, not the tensors. SAY_nothing: nothing is certain to do it.
 */
struct said letgo_said(const struct namegroup *g, bool of_graph);

/* The same of containers that are no more than a part of what the program knows: a queue's, an iterator's. */
struct said letgo_of_owner(const struct namegroup *g);

/*
 * Functions of which each has the one before it in a variable of its closure, as handlers of a signal that call what they replace:
 * that variable. NULL: it is not kept so.
 */
const char *letgo_chain_of_functions(const struct namegroup *g);

/*
 * Objects on the way to it that have each other by the same attribute, as nodes have their parents: that attribute. first: what the
 * first of them is called by which another is had, tree.root.parent (NULL: nobody asks). Returns NULL if there are none.
 */
const char *letgo_chain_of_objects(struct objectname *first, const struct namegroup *g);

/* Its class: "TimerHandle". NULL: it is in no such container. */
const char *letgo_owner_class(const struct namegroup *g);

/* The same of an object that weakref.finalize() alone leads to: nothing of the program refers to it any more. SAY_nothing: it is another's. */
struct said letgo_of_finalizer(const struct named *named);

/* What keeps it for an iterator that has yet to take it: "itertools.tee()"; NULL: nothing that is known to. */
const char *letgo_waiting(const struct namegroup *g);

/* Is it of objects of which a method was given to C code, as atexit.register() is, that calls it later? */
bool letgo_is_of_methods(const struct namegroup *g);

/*
 * The dict that keeps it with a tensor as the key of each: a tensor is found again only by itself, not by another of the same values. n: what
 * that dict is called. false: there is none, or it is an optimizer's.
 */
bool letgo_keyed_by_tensors(struct objectname *n, const struct namegroup *g);

/* Does a hook alone keep it, as far as the census tells? Its removal is said then. */
bool letgo_is_hook(struct hookname *h, const struct namegroup *g);

/* The attribute that a Function of the program's own has set on its ctx, of the tensor it holds so; the census's. NULL: it is none. */
const char *letgo_ctx_attribute(const struct namegroup *g);

/* The optimizer by whose groups alone a parameter is known: no module has it any more. false: it is another's. */
bool letgo_group_owner(struct objectname *n, const struct named *named);

#endif
