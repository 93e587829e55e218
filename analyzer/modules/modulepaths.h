/* SPDX-License-Identifier: MIT */
/*
 * In which module of the model an allocation was made: "layers.17.mlp.down_proj", by the calls of forward
 * (or, while the model is made, of __init__) on its Python stack and by their order.
 *
 * A stack tells which line called which class's forward; the source line, where it can be read, tells by what
 * name (callsite.h). The layers of a list are called at one line: the n-th call within one call of the list's
 * owner is layer n, unless the loops around say otherwise (modulecalls.h). That a call is a new one shows
 * when its own frame goes back to an earlier instruction and no loop of the source (sourceloops.h) holds
 * both. Backward is followed in the opposite direction, by the calls of forward that made its nodes.
 *
 * Where a flight recorder dropped the beginning, the path of what was made in forward or backward before, and
 * in the cycle in which its trace begins, ends before the first of several modules.
 *
 * Paths are interned: one number per distinct path, 0 for none.
 */
#ifndef VT_MODULEPATHS_H
#define VT_MODULEPATHS_H

#include "analyzer/modules/modulecalls.h"
#include "analyzer/training/lives.h"

struct modulepath {
	uint32_t parent; /* 0 = of a module that the program itself calls */
	uint32_t index;  /* of one of several */
	const char *name;
	bool indexed;
	bool is_any;      /* one of several, nobody knows which */
	bool by_key;      /* one of an nn.ModuleDict: the index is the order in which they were called */
	bool is_variable; /* the name is a variable's of the program */
	bool by_class;   /* the name is its class's: no source told a better one */
};

struct modulepath_thread;

/* Of one process. Zero it but for the reader. */
struct modulepaths {
	const struct tfmt_reader *reader;
	struct modulepath *path; /* path i is path[i - 1] */
	uint32_t nr_paths, paths_room;

	/* private */
	struct modulestacks stacks;
	struct modulepath_thread *thread; /* by thread id; forward's and backward's calls apart */
	uint32_t nr_threads;
	struct modulecalls_table calls;
	uint32_t *settled; /* by path - 1 */
	uint32_t nr_settled;
	uint32_t *slot; /* hash table of paths */
	uint32_t slots_room;
	uint32_t nr_instances;
	uint32_t cut_cycle; /* the cycle, plus 1, whose beginning was dropped; 0 = none */
};

/*
 * The path of an allocation, the next of its thread: with its phase, and the backward passes and cycles before. 0 also
 * when memory runs out.
 */
uint32_t modulepaths_next(struct modulepaths *m, const struct tfmt_event *ev, const struct lives_when *now);
void modulepaths_release(struct modulepaths *m);

/*
 * The path without the numbers that are not those of members, as all calls have shown (modulecalls.h):
 * "layers.*.mlp". To be asked once all allocations are told, and before a table is made by the number of
 * paths.
 */
uint32_t modulepaths_settled(struct modulepaths *m, uint32_t path);

/*
 * The stack (a frame's id is that of the stack it ends) of the line that calls the module `depth` deep, 1 the
 * outermost, which this stack of an allocation in forward runs in; 0: it is not known.
 */
uint32_t modulepaths_call(struct modulepaths *m, uint32_t stack, uint32_t depth);

/* How many modules deep a path is; the ancestor of a path at a depth of at least 1, or itself. */
uint32_t modulepaths_depth(const struct modulepaths *m, uint32_t path);
uint32_t modulepaths_ancestor(const struct modulepaths *m, uint32_t path, uint32_t depth);

/*
 * "model.layers.17.mlp"; classes in angle brackets, "*" for one of several that is not known, "heads.<0>" for
 * the one of an nn.ModuleDict that is called first. From the `from`-th module on, 0 the first. Returns buf.
 */
const char *modulepaths_text(const struct modulepaths *m, uint32_t path, uint32_t from, char *buf, size_t size);

#endif
