/* SPDX-License-Identifier: MIT */
/*
 * census_walk: which objects of a program lead to its tensors, each by one of the shortest ways. In a copy of the process.
 *
 * Breadth first, from the variables of the program's own frames, then of its libraries', then from all Python modules. Of
 * what hangs on an object that an nn.Module holds as its own comes first, so that parameters go by their paths; what is
 * known by a key that is no text, classes and functions come last. What nothing leads to is held by something that is not
 * Python's, or waits in a cycle for the collector: the counts of references tell.
 */
#ifndef IP_CENSUS_WALK_H
#define IP_CENSUS_WALK_H

#include <stdbool.h>
#include <stdint.h>

#include "census_room.h"
#include "census_tensor.h"
#include "pyobjects.h"

/* An object that was met. */
struct census_node {
	const void *object;
	const void *name;  /* what the edge has: see struct pyedge */
	uint32_t parent;   /* node; 0 = a root */
	uint32_t number;   /* of INDEX; of a LOCAL that is a root, its place */
	uint16_t holders;  /* references to it that were met, up to 65535 */
	uint8_t edge;      /* enum tfmt_edge */
	uint8_t kind;      /* enum tfmt_object_kind */
	bool is_updated;   /* an optimizer has it in a group, as far as was looked */
};

/* A frame whose variables are roots. */
struct census_place {
	const void *code;
	uint32_t thread; /* a number, 0 = the main one */
};

struct census_walk {
	const struct pyobjects *py;
	const void *tensor_type; /* the class of all tensors; objects of it are what is looked for */
	struct census_layout layout;
	uint64_t deadline_ns;
	uint64_t max_bytes;
	bool is_first; /* see struct census_order */
	bool is_in_group; /* what is looked at now is the list of a group's parameters */
	const struct census_room *room;                       /* NULL: there is enough */
	/* Is called now and then, and before so many bytes are taken at once; ends the copy if they are not to be had. */
	void (*look_for_room)(const struct census_walk *w, uint64_t bytes);

	struct census_node *node; /* 1 to nr - 1 */
	uint32_t nr, max;
	struct census_place *place;
	uint32_t nr_places;
	bool no_memory, no_time, has_collector; /* has not all of it; the collector's lists were read */
	uint64_t nr_objects; /* that were looked at */

	/* inside */
	const void **thread, **frame; /* newest first; room for one thread's frames */
	uint32_t nr_threads;
	uint32_t *slot, slot_mask;
	uint32_t *queue[2], queue_end[2], queue_next[2];
	struct census_node *later;
	uint32_t later_end, later_next, later_max;
	uint32_t at;      /* the node that is looked at */
	uint32_t nr_beats;
	struct census_type *types;
	struct unmet *unmet;
};

/*
 * Begin; false if there is no memory for it. Then look at what the program's own frames lead to; then at all the rest. What
 * is found stays as it is until the process ends.
 */
bool census_walk_begin(struct census_walk *w);
void census_walk_program(struct census_walk *w);
void census_walk_rest(struct census_walk *w);

/* The node of an object, 0 if it was not met. */
uint32_t census_find(const struct census_walk *w, const void *object);

#endif
