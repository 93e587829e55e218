/* SPDX-License-Identifier: MIT */
/* Memory by the names that the program has for it, as a table (peak --by name); names and keepers in other pages. */
#ifndef VT_PRINT_NAMES_H
#define VT_PRINT_NAMES_H

#include "analyzer/findings/said.h"
#include "analyzer/names/namegroups.h"
#include "analyzer/replay/replay.h"
#include "analyzer/ui/emit.h"

struct print_names_options {
	uint64_t total; /* bytes that were allocated */
	uint64_t top;   /* rows at most; 0 = all */
	bool verbose;   /* who keeps each, also where its name tells that */
};

/* The table "groups". */
void print_names(struct emit *e, const struct replay_process *p, const struct namegroups *g,
		 const struct print_names_options *o);

/* Members "name" and "keepers" of the object that is open; JSON alone. */
void json_name(struct emit *e, const struct namegroup *g);

/* "named self.history[*], kept by self.history, a list of 200, in ...": a name, with its keeper where that says more. */
struct said named_said(const struct namegroup *g);

/*
 * "from census to census it had 4, 51, 102 and 204 entries": how the nearest keeper grew. SAY_nothing: it did not, or
 * only one census knows it. In JSON "keeper_lengths" of the object that is open.
 */
struct said lengths_said(const struct names *names, const struct namegroup *g);
void json_lengths(struct emit *e, const struct names *names, const struct namegroup *g);

/* "let_go_by" (letgo.h) of the object that is open; JSON alone. */
void json_let_go(struct emit *e, const struct namegroup *g, bool of_graph);

#endif
