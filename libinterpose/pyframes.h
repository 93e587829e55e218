/* SPDX-License-Identifier: MIT */
/*
 * pyframes: the calling thread's Python frames, read from the interpreter's structures without the GIL.
 *
 * Only the thread itself pushes and pops its frames, so its own chain is stable while a hook runs on it,
 * whether it holds the GIL or not. The one call into Python is PyGILState_GetThisThreadState, which reads
 * a thread-local; nothing here locks, allocates or writes to memory of the program.
 */
#ifndef IP_PYFRAMES_H
#define IP_PYFRAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "pylayout.h"

#define PYFRAMES_NEWEST 1024 /* frames kept of a deep stack: these many at its leaf */
#define PYFRAMES_OLDEST 16   /* and these at its root, where the program's own script is */
#define PYFRAMES_MAX (PYFRAMES_NEWEST + PYFRAMES_OLDEST)

struct pyframe {
	const void *code; /* PyCodeObject; alive for as long as the frame is */
	int32_t position; /* code units of two bytes; -1 = not started */
};

/* A captured chain, innermost frame first. */
struct pyframes {
	uint32_t nr;
	uint32_t nr_cut; /* frames left out between the newest and the last PYFRAMES_OLDEST ones */
	struct pyframe frame[PYFRAMES_MAX];
};

/*
 * Look for an interpreter that the program is linked with; `retry` also for one that an embedder has loaded
 * since. Takes the loader's lock, so never from a hook. May be called again: what was found stays.
 */
void pyframes_init(bool retry);

/* The layout in use, NULL if Python frames cannot be read in this process. */
const struct pylayout *pyframes_layout(void);

/*
 * Fill *out with the calling thread's frames. False, and nr = 0, if the thread runs no Python, or there is
 * no (supported) interpreter, or it is not initialised or no longer so.
 */
bool pyframes_capture(struct pyframes *out);

/* The interpreter is finalising, or was initialised and is so no more. */
bool pyframes_finalizing(void);

/* "supported: 3.11.7", "unsupported: Python 3.7.1 ...", "no Python". Static storage. */
const char *pyframes_support(void);

#endif
