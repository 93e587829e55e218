/* SPDX-License-Identifier: MIT */
/* Who holds a model: the nn.Modules on the way to one of its tensors, and what that way leads through before them. */
#ifndef VT_MODELKEEPER_H
#define VT_MODELKEEPER_H

#include "analyzer/names/objectname.h"

struct modelkeeper {
	uint64_t outermost, innermost; /* modules on the way, by address; 0: none is, as of what an optimizer alone holds */
	const char *class_name; /* of the outermost; "" = not known; valid until the census is closed */
	uint32_t optimizer; /* the first on the way, object of the census; 0: none is */
	uint32_t parameter; /* of an optimizer's state: which it is of, object of the census; 0: not known */
	/*
	 * What holds the outermost of them: a variable, an attribute, a bound method, an entry of a list, a function by its closure;
	 * where there is none, the optimizer, or else what holds the tensor. Its text is the whole way from the variable on:
	 * server.predict, callbacks[2].model.
	 */
	struct objectname name;
};

/* Of a parameter, or of an optimizer's state. false: no object of the program's holds it. */
bool modelkeeper_find(struct modelkeeper *k, const struct tfmt_census *c, uint32_t object);

/* The class of the module that a parameter, or its gradient, is of: "Embedding". NULL: it is of none; valid until the census is closed. */
const char *modelkeeper_class(const struct tfmt_census *c, uint32_t object);

/*
 * The outermost module on the way to a parameter, its gradient or an optimizer's state of it that evaluates within one that
 * trains, and has modules of its own: its address. 0: none does.
 */
uint64_t modelkeeper_evaluated(const struct tfmt_census *c, uint32_t object);

/*
 * What leads to a parameter, its gradient or an optimizer's state of it, or is that parameter, and was to be frozen by an attribute
 * that freezes nothing (TFMT_OBJECT_FREEZES_NOTHING): the outermost, an object of the census. 0: nothing was.
 */
uint32_t modelkeeper_not_frozen(const struct tfmt_census *c, uint32_t object);

#endif
