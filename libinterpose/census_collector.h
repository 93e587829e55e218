/* SPDX-License-Identifier: MIT */
/*
 * census_collector: what the collector of the interpreter has in its lists: all Python modules, and what no variable and
 * no module leads to. In a copy of the process.
 */
#ifndef IP_CENSUS_COLLECTOR_H
#define IP_CENSUS_COLLECTOR_H

#include "census_walk.h"

/* Go on from there, when all frames were looked at. */
void census_collector(struct census_walk *w);

/* ---- of census_walk.c ---- */

/* A new node, which will be looked at; 0 if there is one of its object, or no room. is_first: before others. */
uint32_t census_add(struct census_walk *w, const struct census_node *n, bool is_first);

/* Look at one node, or at all that are left. */
void census_look(struct census_walk *w, uint32_t node);
void census_run(struct census_walk *w);

/* One object more: now and then sees whether there is still time for them, and room. */
void census_beat(struct census_walk *w);

/* So many bytes are about to be taken at once, or a few: does not come back if the limits leave no room for them. */
void census_need(const struct census_walk *w, uint64_t bytes);

#endif
