/* SPDX-License-Identifier: MIT */
/*
 * How an object of a census reads: model.layers.3.mlp.weight, self.history[17], exp_avg of model.0.weight.
 *
 * A name begins at a variable: of a frame, a Python module, a closure; what is below an nn.Module begins at the outermost
 * one, wherever that hangs (model.layers.3.weight, not trainer.engine.model.layers.3.weight). The *root* is where the way
 * to the object begins.
 */
#ifndef VT_OBJECTNAME_H
#define VT_OBJECTNAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tracefmt/tracefmt.h"

#define OBJECTNAME_MAX 512

/* Who holds what a way leads to. */
enum objectname_root {
	ROOT_LOCAL, /* a variable of a frame */
	ROOT_GLOBAL,
	ROOT_CLASS,
	ROOT_CLOSURE,
	ROOT_DEFAULT,
	ROOT_GENERATOR,
	ROOT_EXCEPTION,
	ROOT_THREAD,
	ROOT_NATIVE,
	ROOT_UNNAMED, /* a container that no variable has, as while a comprehension makes it; a method that C code has, as atexit does */
	ROOT_CYCLE, /* nobody: it waits for the collector */
	NR_ROOTS
};
extern const char *const objectname_roots[NR_ROOTS];

struct objectname {
	char text[OBJECTNAME_MAX];
	char pattern[OBJECTNAME_MAX]; /* the same with '*' for numbers */
	enum objectname_root root;
	bool of_method; /* the root is a method that C code has */
	bool of_module; /* by the path of an nn.Module: the root is no part of what it is called */
	const char *file, *function; /* of the frame, or the function's; NULL = not known */
	uint32_t line;  /* 0 = not known */
};

/* *n is all set; its strings are valid until the census is closed. */
void objectname_find(struct objectname *n, const struct tfmt_census *c, uint32_t object);

/* What an object's kind is called, as JSON has it: "list". */
const char *objectname_kind(uint8_t kind);

/*
 * The step that a name begins with; what a root that has no name is called, if the name begins with that, and the first step after
 * what was said; and what a step adds to the text of a name that has those before.
 */
struct objectway;
uint32_t objectname_first_step(const struct objectway *w);
uint32_t objectname_begin(struct objectname *n, const struct objectway *w, uint32_t first);
void objectname_add_step(struct objectname *n, const struct tfmt_census *c, const struct objectway *w, uint32_t i);

/* One of those that hold a block. */
struct keeper {
	struct objectname name;
	uint8_t kind;    /* enum tfmt_object_kind */
	const char *class_name; /* "" = not known; valid until the census is closed */
	uint8_t edge;		/* enum tfmt_edge, by which its holder has it, */
	const char *step;	/* and under which name; valid likewise */
	uint64_t length; /* entries; valid if has_length */
	uint64_t bound;  /* how many it has at most; valid if has_bound */
	bool has_length, has_bound;
};

/*
 * Who keeps what an object is: the containers on the way to it, the nearest first; where it hangs on its root itself, that
 * variable. What only leads from an nn.Module to its own, and Python modules, are no keepers. Returns how many, at most `max`.
 */
uint32_t objectname_keepers(struct keeper *out, uint32_t max, const struct tfmt_census *c, uint32_t object);

/* The dicts on the way in which nn.Modules keep their modules and parameters, as that of an nn.ModuleDict, likewise; called by the module. */
uint32_t objectname_own_dicts(struct keeper *out, uint32_t max, const struct tfmt_census *c, uint32_t object);

/* What a tensor is for, where the way to it tells. */
enum objectname_use { USE_PARAMETER, USE_BUFFER, USE_GRADIENT, USE_OPTIMIZER_STATE, USE_UNKNOWN };
enum objectname_use objectname_use(const struct tfmt_census *c, uint32_t object);

#endif
