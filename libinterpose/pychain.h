/* SPDX-License-Identifier: MIT */
/*
 * pychain: the calling thread's Python frames, as what has changed since its previous capture.
 *
 * A *level* is a frame of the interpreter's, hidden ones included, root first. A frame that stands where it
 * stood, in watched code (pycode.h), and above frames of which that is true, is not looked at further: of
 * most captures all but a few innermost frames are so, and no code object's memory is touched for them.
 *
 * Threading: a struct pychain belongs to one thread.
 */
#ifndef IP_PYCHAIN_H
#define IP_PYCHAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pycode.h"

#define PYCHAIN_MAX 1024u    /* levels of a thread's chain at first */
#define PYCHAIN_DEEP 65000u  /* and once the chain has been longer than that; still longer ones are not kept */
#define PYCHAIN_PLACES 256u
#define PYCHAIN_CALLS 64u    /* modules within modules; of those further in nobody knows which they are */

enum pylevel_flags {
	PYLEVEL_HIDDEN = 1,  /* not shown: a shim, or a frame that is still being set up */
	PYLEVEL_CALLED = 2,  /* the frame itself says that native code has entered the interpreter here */
	PYLEVEL_ENTRY = 4,   /* it has, here or at a hidden frame right below */
	PYLEVEL_MODULE = 8,  /* an nn.Module is called: the frame's first argument */
};

/* What of a level every capture looks at: side by side, four in a cache line. */
struct pyspot {
	const void *frame;
	uint64_t at; /* where the frame stands, and whether native code has entered there, as it says itself */
};

struct pylevel {
	const void *code;
	uint32_t deaths;   /* pywatch_deaths_at(code) then */
	uint32_t id;       /* of the code; 0 = could not be had */
	int32_t position;
	uint16_t flags;    /* enum pylevel_flags */
	uint32_t instance; /* of PYLEVEL_MODULE, as instances.h has it; else 0 */
};

/* A level that calls an nn.Module. */
struct pycall {
	const uintptr_t *argument; /* where the frame has its first */
	uintptr_t module;          /* what was there */
	uint32_t level;
};

/* A frame met above the kept ones. */
struct pymet {
	const void *frame;
	uint32_t id;    /* as struct pylevel has them */
	uint32_t level; /* the one that it is, as it stands; 0 = none */
	uint32_t flags;
	int32_t position;
};

/* How it is told that a frame stands as it stood. Nothing else of a frame matters that could be another by then. */
enum pychain_way {
	PYCHAIN_UNKNOWN,
	PYCHAIN_NUMBER,  /* by its position, a number in its code, and that code */
	PYCHAIN_ENTRY,   /* by its instruction's address, which tells the code, and who has called it */
	PYCHAIN_ADDRESS, /* by its instruction's address alone: another frame is the caller then */
};

/* All zero but `max`: nothing known. Followed by max + 1 spots, as many levels, and the frames met: pychain_bytes(). */
struct pychain {
	uint32_t max;         /* levels that there is room for */
	bool too_many;        /* the latest chain had more levels than that */
	uint32_t nr, kept;    /* levels, and those unchanged since the previous capture */
	uint32_t deaths;      /* pywatch_deaths() then */
	const void *until;
	enum pychain_way way;
	bool apart;           /* the chain has ended without `until` */
	uint16_t place[PYCHAIN_PLACES]; /* hash of a frame's address -> level */
	uint32_t nr_calls;
	uint32_t latest_instance; /* of instances_id() */
	struct pycall call[PYCHAIN_CALLS]; /* of the levels, by level */
	struct pyspot spot[]; /* of the levels; the root is level 1, no frame is level 0 */
};

/* What else is known of a level. */
static inline struct pylevel *pychain_level(const struct pychain *c, uint32_t level)
{
	return (struct pylevel *)&c->spot[c->max + 1] + level;
}

static inline size_t pychain_bytes(uint32_t max)
{
	return sizeof(struct pychain) + (max + 1) * (sizeof(struct pyspot) + sizeof(struct pylevel)) +
	       max * sizeof(struct pymet);
}

/*
 * Makes the levels those of the frames from `newest` (not NULL) to the one before `until` (NULL: the
 * oldest). False if there are too many; then nothing is known any more. Code must be watched.
 */
bool pychain_update(struct pychain *c, struct pycode_cache *codes, const struct pylayout *l, const void *newest,
		    const void *until);

#endif
