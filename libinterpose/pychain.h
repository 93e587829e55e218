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
#include <stdint.h>

#include "pycode.h"

#define PYCHAIN_MAX 1024u /* levels; longer chains are not for this file */
#define PYCHAIN_PLACES 256u

enum pylevel_flags {
	PYLEVEL_HIDDEN = 1,  /* not shown: a shim, or a frame that is still being set up */
	PYLEVEL_CALLED = 2,  /* the frame itself says that native code has entered the interpreter here */
	PYLEVEL_ENTRY = 4,   /* it has, here or at a hidden frame right below */
};

struct pylevel {
	const void *frame, *code;
	uint64_t at, kind; /* where the frame stands, as it says itself, and what kind of frame it is */
	uint32_t deaths;   /* pywatch_deaths_at(code) then */
	uint32_t id;       /* of the code; 0 = could not be had */
	int32_t position;
	uint32_t flags;    /* enum pylevel_flags */
};

/* A frame met above the kept ones. */
struct pymet {
	const void *frame;
	uint32_t id;    /* as struct pylevel has them */
	uint32_t level; /* the one that it is, as it stands; PYCHAIN_MAX = none */
	uint32_t flags;
	int32_t position;
};

/* Which bits of a frame tell that it stands as it stood; two words, wherever the layout has them. */
struct pywords {
	long at, kind;
	uint64_t at_bits, kind_bits;
};

/* All zero: nothing known. */
struct pychain {
	uint32_t nr, kept;    /* levels, and those unchanged since the previous capture */
	uint32_t deaths;      /* pywatch_deaths() then */
	const void *until;
	struct pywords words;
	uint16_t place[PYCHAIN_PLACES]; /* hash of a frame's address -> level */
	struct pylevel level[PYCHAIN_MAX];
	struct pymet met[PYCHAIN_MAX];
};

/*
 * Makes the levels those of the frames from `newest` (not NULL) to the one before `until` (NULL: the
 * oldest). False if there are too many; then nothing is known any more. Code must be watched.
 */
bool pychain_update(struct pychain *c, struct pycode_cache *codes, const struct pylayout *l, const void *newest,
		    const void *until);

#endif
