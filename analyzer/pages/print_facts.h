/* SPDX-License-Identifier: MIT */
/*
 * What a report says of how far its figures hold, in text: whether they are one sample or the range of several
 * runs, where the program depended on values that a simulated device does not compute, and what was modelled.
 */
#ifndef VT_PRINT_FACTS_H
#define VT_PRINT_FACTS_H

#include "analyzer/gate/repeat.h"
#include "analyzer/holders/readplaces.h"
#include "analyzer/replay/replay.h"
#include "analyzer/ui/emit.h"

struct facts {
	struct repeat repeat; /* of a repeated recording */
	struct readplaces places; /* of all its processes; for text alone */
};
#define FACTS_INIT { .repeat = REPEAT_INIT }

/* To be released with facts_release(). */
void facts_find(struct facts *f, const struct replay *m, bool is_text);
void facts_release(struct facts *f);

/* The lines about device d that are shown at once; returns how many (at most 4). */
unsigned print_facts(struct emit *e, const struct replay *m, const struct replay_device *d,
		     const struct facts *f);

/* All of it, for -v. */
void print_facts_whole(struct emit *e, const struct facts *f);

#endif
