/* SPDX-License-Identifier: MIT */
/*
 * Calls of modules at one place of the source within one call of their owner, numbered: the n-th is of member
 * n of a list, unless the loops around the place say otherwise. A list that an outer loop goes through again
 * begins anew where that loop has shown, by an allocation outside of the inner one; a member that an inner
 * loop calls again stays the member. Where such a loop has never shown, the numbers are not known.
 */
#ifndef VT_MODULECALLS_H
#define VT_MODULECALLS_H

#include "analyzer/modules/modulestacks.h"

/* Whose calls are numbered together; place 0 = empty. As struct modulelevel has them, of an owner. */
struct modulecalls_key {
	uint32_t owner_path, place, branch;
};

/* Calls at one place within one call of the owner. */
struct modulecalls {
	struct modulecalls_key key;
	const char *name;            /* of the list; NULL = it is none */
	uint32_t instance, nr;           /* of forward or __init__: in the latest call of the owner */
	uint32_t back_instance, nr_back; /* of backward */
	uint32_t *member; /* the number of the member that each call was of */
	size_t members_room;
	uint32_t most;    /* calls in one call of the owner */
	uint32_t loop_line; /* of the loop over the list, 0 = not known */
	bool is_unbound;  /* as callsite.h has it */
	bool skips;       /* members may be passed over, as callsite.h has it, */
	bool may_skip, varies; /* ... which shows in their number */
	uint32_t nr_before; /* of calls in the call of the owner before; 0 = there was none */
	bool is_untold;   /* members that allocate nothing may stand between those seen */
	bool begins_again; /* an nn.Sequential's own, that was called again when all of its members had been */
	bool left, left_inner; /* since the latest call: the loop over the list; a loop within it */
	bool went_outer, went_inner; /* an outer loop has gone round the list, or an inner one round a member, unseen */
	bool shows_outer, shows_inner; /* ... and was seen to */
	/*
	 * A call here goes round a loop of its own that it begins with: the next call would look the same,
	 * unless (apart) something else is allocated between the calls.
	 */
	bool looks_alike, apart;
	struct modulecalls_key outer; /* such a call goes round these calls: its own place; 0 = none does */
};

/* All zero: none. */
struct modulecalls_table {
	struct modulecalls *place; /* hash table */
	uint32_t nr, room;
};

/* A call's place, added if need be; good until the next one is added. */
struct modulecalls *modulecalls_at(struct modulecalls_table *t, struct modulecalls_key key);

/* ... or NULL if there is no such place. */
struct modulecalls *modulecalls_find(const struct modulecalls_table *t, struct modulecalls_key key);

/*
 * The number of a new call in this call of its owner. `sequence`: the members of the list, or NULL; `loops`: around the
 * place, NULL = not known.
 */
uint32_t modulecalls_number(struct modulecalls *c, uint32_t instance, const struct sequence *sequence,
			    const struct modulelevel *l, const struct sourceloops *loops);

/* Which of the loops around the place goes over the list. */
uint32_t modulecalls_list_loop(const struct modulecalls *c, const struct sourceloops *loops);

/* The same in backward: the latest call of forward that has not come by. */
uint32_t modulecalls_number_back(struct modulecalls *c, uint32_t instance);

/* Are the numbers given here those of members? */
bool modulecalls_are_numbered(const struct modulecalls_table *t, const struct modulecalls *c);

void modulecalls_release(struct modulecalls_table *t);

#endif
