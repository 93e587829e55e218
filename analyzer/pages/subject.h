/* SPDX-License-Identifier: MIT */
/* What `check`, `baseline` and `diff` look at: the footprint of a recording, or one that a baseline holds. */
#ifndef VT_SUBJECT_H
#define VT_SUBJECT_H

#include "analyzer/gate/footprint.h"
#include "analyzer/replay/replay.h"

struct subject {
	bool is_baseline; /* then there is no model */
	struct replay replay;
	struct footprint footprint;
	bool is_damaged; /* a trace is cut off, damaged or unreadable; it has been said */
};
#define SUBJECT_INIT { .footprint = FOOTPRINT_INIT }

/*
 * Load a recording; with `or_baseline` also a baseline, whichever the path is. What is missing from a recording is
 * said on stderr, unless quiet. Returns 0, or CMD_TROUBLE after a message; subject_release() is needed either way.
 */
int subject_load(struct subject *s, const char *path, bool or_baseline, bool quiet);
void subject_release(struct subject *s);

/* Did it take, or ask for, memory of a GPU? */
bool subject_has_memory(const struct subject *s);

/*
 * Why the recording does not tell what the program takes: it took nothing, it failed, it is still running. Returns
 * buf, or NULL if there is no such reason.
 */
const char *subject_obstacle(char *buf, size_t size, const struct subject *s);

/* The same for what makes its figures "at least". */
const char *subject_loss(char *buf, size_t size, const struct subject *s);

#endif
