/* SPDX-License-Identifier: MIT */
/*
 * Other code, as it is asked for: without something, with something smaller, in another type, with checkpointed layers, with
 * another batch; and what that makes of each request of a recording (whatif/edits.h).
 *
 * A recording is read once for that, its blocks judged cycle by cycle (training/steps.h): each cycle has its own batch. What a
 * change makes the program do in other ways is not known: it is the recorded requests that are changed. Single-threaded.
 */
#ifndef VT_CHANGES_H
#define VT_CHANGES_H

#include "analyzer/changes/selector.h"
#include "analyzer/whatif/edits.h"

#define CHANGES_MAX 16

enum change_kind { CHANGE_WITHOUT, CHANGE_SCALE, CHANGE_DTYPE, CHANGE_CHECKPOINT, CHANGE_BATCH };
extern const char *const change_names[]; /* as the options are called */

struct change {
	enum change_kind kind;
	const char *text;   /* as it was asked for; the caller's */
	struct selector of; /* but for a batch */
	double factor;      /* CHANGE_SCALE */
	unsigned bits;      /* CHANGE_DTYPE: of an element */
	uint64_t batch;     /* CHANGE_BATCH */

	/* what became of it */
	uint64_t blocks, bytes; /* that it changed, as they were recorded */
	uint64_t cycles;        /* CHANGE_BATCH: with a batch that was changed; CHANGE_CHECKPOINT: calls of modules */
	uint64_t batch_was;     /* CHANGE_BATCH: the largest that it took the place of */
	uint64_t unchanged;     /* CHANGE_DTYPE: blocks whose type is not known, or that are of no floating-point type */
};

/* Zero it. */
struct changes {
	struct change change[CHANGES_MAX];
	size_t nr;
	struct edits *edits; /* one for each device of each process that has tensors */
	size_t nr_edits;

	/* private */
	struct replay replay;
	struct livelist *list;
	size_t nr_lists, lists_room;
	struct refused *refused; /* requests that failed */
	size_t nr_refused, refused_room;
};

/* One more change. false: it is wrong; why says what. changes_release() is needed either way. */
bool changes_add(struct changes *c, enum change_kind kind, const char *text, char *why, size_t size);

/*
 * Read the recording and make the edits. Returns 0, or CMD_TROUBLE after a message: it cannot be read, its blocks are too many,
 * or a change is of nothing that is there.
 */
int changes_make(struct changes *c, const char *path);
void changes_release(struct changes *c);

#endif
