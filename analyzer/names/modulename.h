/* SPDX-License-Identifier: MIT */
/*
 * Where in a model an nn.Module, or what it holds, is: model, layers.3, mlp. The members of an nn.ModuleList or
 * nn.ModuleDict are one step with it: nobody calls the list itself.
 */
#ifndef VT_MODULENAME_H
#define VT_MODULENAME_H

#include "analyzer/names/names.h"

#define MODULENAME_STEPS 48 /* modules within modules; of deeper ones the outermost are told */

struct modulename {
	uint32_t nr_steps;
	const char *step[MODULENAME_STEPS]; /* outermost first, which is called as the program's variable or attribute */
	uint64_t outermost; /* the address of its object */
	char text[2 * OBJECTNAME_MAX];
};

/*
 * The module that an object of a census is, or that holds the object: a tensor, its gradient, what an optimizer keeps for
 * it. false: none does.
 */
bool modulename_of(struct modulename *m, const struct tfmt_census *c, uint32_t object);

/*
 * The module that was called, by the address of its object and its class, first at this time (CLOCK_MONOTONIC). A census
 * after that has seen it where it is called; an earlier one may have seen it while the model was being made, and is
 * believed where it knows the outermost module of the call, `outermost`, as the outermost. false: no census tells.
 */
bool modulename_find(struct modulename *m, const struct names *n, const struct tfmt_instance *module, uint64_t first_ns,
		     uint64_t outermost);

/* Whether a module trains or evaluates (enum tfmt_object_flags), by the latest census that has it; 0: none tells. */
uint32_t modulename_mode(const struct names *n, const struct tfmt_instance *module);

/* All that it has been in the censuses that know it. */
uint32_t modulename_modes(const struct names *n, const struct tfmt_instance *module);

/* The module that holds a block as its parameter or buffer, as a gradient or optimizer's state of one. */
bool modulename_of_block(struct modulename *m, const struct names *n, const struct names_block *block, uint64_t moment);

/* What a module is called, by the address of its object and the latest census that has it. false: none has. */
bool modulename_at(struct objectname *name, const struct names *n, uint64_t address);

#endif
