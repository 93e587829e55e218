/* SPDX-License-Identifier: MIT */
/*
 * In which module of the model an allocation was made: model.layers.17.mlp.down_proj.
 *
 * A stack has the nn.Modules that its frames call (tfmt_reader_call()); backward's stacks stand on those of the call in
 * forward that made the node that runs. What a module is called, a census tells (modulename.h). One that no census has
 * seen is <Class> within the module that called it first, and a number by the order of first calls where there are
 * several.
 *
 * A module that is moved to the device (Module.to() and the like) is the path of what that allocates, where a census knows
 * it; lines that move modules call none.
 *
 * Paths are interned: one number per distinct path, 0 for none.
 */
#ifndef VT_MODULEPATHS_H
#define VT_MODULEPATHS_H

#include "analyzer/names/names.h"
#include "analyzer/recording/textset.h"

struct modulepath {
	uint32_t parent; /* 0 = of a module that the program itself calls */
	uint32_t index;  /* of one of several */
	const char *name;
	bool indexed;
	bool by_class;   /* the name is its class's: no census tells another */
	uint32_t call;   /* the stack of the line that called it first */
	uint32_t nr_alike; /* of the first by its class: how many there are. private */
};

/* Of one process. Zero it but for the reader and the names. */
struct modulepaths {
	const struct tfmt_reader *reader;
	const struct names *names; /* NULL: there are none */
	struct modulepath *path; /* path i is path[i - 1] */
	uint32_t nr_paths, paths_room;

	/* private */
	struct textset texts;
	struct modulepaths_stack *of_stack; /* by stack id */
	uint32_t nr_stacks;
	uint32_t *of_instance; /* by instance's id */
	uint32_t nr_instances;
	uint32_t *slot; /* hash table of paths */
	uint32_t slots_room;
};

/* The path of an allocation. */
uint32_t modulepaths_next(struct modulepaths *m, const struct tfmt_event *ev);

/* Look at all stacks that are defined, as modulepaths_next() does at an event's: without events, for what lines call. */
void modulepaths_look(struct modulepaths *m);

/* The path of the module that holds a block (modulename_of_block()); 0: none is known to. */
uint32_t modulepaths_holder(struct modulepaths *m, const struct names_block *block, uint64_t moment);
void modulepaths_release(struct modulepaths *m);

/*
 * The stack (a frame's id is that of the stack it ends) of the line that calls the module `depth` deep, 1 the
 * outermost, which this stack of an allocation in forward runs in; 0: it is not known.
 */
uint32_t modulepaths_call(const struct modulepaths *m, uint32_t stack, uint32_t depth);

/*
 * The stack of the line that calls the outermost module of this one, 0 = none does; and whether that line has called
 * others as well, as a loop calls the members of a list.
 */
uint32_t modulepaths_outermost_call(const struct modulepaths *m, uint32_t stack);
bool modulepaths_calls_several(const struct modulepaths *m, uint32_t call);

/*
 * The stacks of the lines that call the innermost module which this stack runs in, and the module around that; 0 = none does.
 * And whether another stack runs in a call by such a line.
 */
#define MODULEPATHS_INNERMOST 2
void modulepaths_innermost_calls(const struct modulepaths *m, uint32_t stack, uint32_t call[static MODULEPATHS_INNERMOST]);
bool modulepaths_is_in_call(const struct modulepaths *m, uint32_t stack, uint32_t call);

/* The latest allocation within a call of the module with this address, as modulepaths_next() saw it: its ordinal; 0: none. */
uint64_t modulepaths_latest_call(const struct modulepaths *m, uint64_t module);

/* How many modules deep a path is; the ancestor of a path at a depth of at least 1, or itself. */
uint32_t modulepaths_depth(const struct modulepaths *m, uint32_t path);
uint32_t modulepaths_ancestor(const struct modulepaths *m, uint32_t path, uint32_t depth);

/* "model.layers.17.mlp"; classes in angle brackets. From the `from`-th module on, 0 the first. Returns buf. */
const char *modulepaths_text(const struct modulepaths *m, uint32_t path, uint32_t from, char *buf, size_t size);

#endif
