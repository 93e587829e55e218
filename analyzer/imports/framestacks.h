/* SPDX-License-Identifier: MIT */
/*
 * Call stacks made of names: frames of Python and native ones, as other tools have resolved them, each stack once.
 *
 * A stack of theirs may mix both; here it is a *pair*, a stack of Python and a native one, whose frames can be put back
 * into their order (tracefmt/FORMAT.md, kinds of stack nodes).
 */
#ifndef VT_FRAMESTACKS_H
#define VT_FRAMESTACKS_H

#include <stdbool.h>

#include "analyzer/base/keyset.h"
#include "analyzer/recording/textset.h"

struct framestacks {
	struct textset texts;
	struct keyset frames; /* name, file, line, enum framestacks_kind */
	struct keyset nodes;  /* parent's number + 1 (0: none), frame, enum framestacks_flag */
	struct keyset pairs;  /* Python node + 1, native node + 1, 1: an autograd node runs in it */
	struct keyset lists;  /* stacks as they came: a hash of 128 bits each */
	uint32_t *list_pair;  /* of each list: its pair's number */
	size_t list_pairs_room;
	uint32_t *frame;      /* of the stack that is being put together, innermost first */
	size_t nr_frames, frames_room;
	bool has_native;
};

enum framestacks_kind { FRAMESTACKS_PYTHON, FRAMESTACKS_NATIVE, FRAMESTACKS_AUTOGRAD /* native: it runs an autograd node */ };

enum framestacks_flag {
	FRAMESTACKS_ENTRY = 1, /* Python: native code called it */
	FRAMESTACKS_RUNS = 2,  /* native: it runs the frames of Python up to the next that was called so */
};

void framestacks_init(struct framestacks *s);
void framestacks_release(struct framestacks *s);

/* The number of a frame; line 0 = not known. */
uint32_t framestacks_frame(struct framestacks *s, const char *name, size_t name_len, const char *file, size_t file_len,
			   uint32_t line);

/* Frames of one stack, innermost first; then the number of its pair + 1, 0 if there were none. */
void framestacks_push(struct framestacks *s, uint32_t frame);
uint32_t framestacks_end(struct framestacks *s);

/* Texts of frames, by number. */
const char *framestacks_text(const struct framestacks *s, uint32_t number);

#endif
