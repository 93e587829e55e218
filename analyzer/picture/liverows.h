/* SPDX-License-Identifier: MIT */
/*
 * Blocks and how long they lived, of one device, in rows of bounded number: the *large* ones one by one, all others summed
 * up by what they have in common, as they are seen at some moments (moments.h).
 *
 * What is large is told by bytes, and by how many events a block lives through: what stays counts for more than what a
 * single operation needs. A block is known when it ends, as only then one can say what it was for. Lives that are alike (a
 * *sort*: same group, module, phases, fate) are judged once, by one of them; large blocks each for itself.
 */
#ifndef VT_LIVEROWS_H
#define VT_LIVEROWS_H

#include "analyzer/picture/moments.h"
#include "analyzer/picture/pieces.h"
#include "analyzer/purpose/category.h"

#define LIVEROWS_LARGE 12000 /* blocks of a recording that are kept one by one, at the most */

/* What blocks have in common. */
struct liverow_kind {
	uint32_t group;  /* of the process's books */
	uint32_t module; /* path in its modulepaths, 0 = none is known */
	uint32_t name;   /* 1 + place in texts: what the program calls them, numbers as '*'; 0 = not known */
	uint8_t category; /* enum category */
	uint8_t phase;    /* of birth, enum phase */
};

/* A block; or, with a count, blocks of one kind and in one piece that are seen at the same moments. */
struct liverow {
	uint64_t birth_ns, death_ns; /* death UINT64_MAX: it was live at the end */
	uint64_t address, bytes;
	uint32_t kind;
	uint32_t step;  /* it was allocated in, from 1; 0 = none */
	uint32_t name;  /* its own, as kind has the pattern */
	uint32_t first, last; /* of summed ones: from this point up to, but not with, that one */
	uint32_t count;
	uint32_t piece; /* of summed ones, as pieces_find() has it */
};

/* Of one device. */
struct liverows;
struct liverows *liverows_open(struct replay_process *process, uint32_t device);
void liverows_close(struct liverows *r); /* NULL: there is nothing to close */

/* As struct lives_follower has it (times CLOCK_MONOTONIC), of blocks of this device. The moments are those so far. */
void liverows_begin(struct liverows *r, size_t place, uint64_t time_ns);
void liverows_end(struct liverows *r, const struct life *life, size_t place, uint64_t time_ns, const struct moments *m);

/* After the last event: take in what is still live, and judge all. */
void liverows_settle(struct liverows *r, const struct moments *m);

/* What is shown: valid until it is released. */
struct liverows_shown {
	struct liverow_kind *kind;
	size_t nr_kinds, kinds_room;
	struct liverow *large; /* by birth */
	size_t nr_large;
	struct liverow *summed; /* by first point */
	size_t nr_summed, summed_room;
	uint64_t nr_blocks;   /* of the device, large ones and all others */
	struct moments_point *point; /* that the summed ones are seen at */
	size_t nr_points;
	struct textset names;
};

/* How much is shown, and in which pieces of driver memory summed ones lie. */
struct liverows_limits {
	size_t max_large, max_parts;
	const struct pieces *pieces;
};

/* Choose at most so many large blocks, and sum up the others at the points of so many parts. To be released. */
void liverows_show(struct liverows_shown *s, const struct liverows *r, const struct moments *m,
		   const struct liverows_limits *limits);
void liverows_shown_release(struct liverows_shown *s);

/* What each category held at each point, in bytes: nr * NR_CATEGORIES, in a new array to be freed. */
uint64_t *liverows_categories(const struct liverows *r, const struct moments_point *point, size_t nr);

#endif
