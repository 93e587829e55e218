/* SPDX-License-Identifier: MIT */
/*
 * The stacks that rows name, each printed once: texts, frames of texts, and *calls*, a frame and the call that it was made
 * by, so that what stacks have in common is there once.
 */
#ifndef VT_STACKTABLE_H
#define VT_STACKTABLE_H

#include "analyzer/recording/textset.h"
#include "analyzer/replay/replay.h"

enum stacktable_flags {
	STACKTABLE_PYTHON = 1,
	STACKTABLE_FRAMEWORK = 2,
	STACKTABLE_NODE = 4,
	STACKTABLE_FROM_FORWARD = 8,
	STACKTABLE_CUT = 16,
};

/* Numbers count from 1; 0 = none. */
struct stacktable_frame {
	uint32_t file, line, function, flags; /* file, function: of texts */
};

struct stacktable_call {
	uint32_t frame, caller;
};

struct stacktable_stack {
	uint32_t call;    /* the innermost */
	uint32_t site;    /* frame that stands for it */
	uint32_t program; /* frame of the program's own that led there, nearest to the allocation */
};

/* Zeroed: empty. */
struct stacktable {
	struct textset texts;
	struct stacktable_frame *frame;
	struct stacktable_call *call;
	struct stacktable_stack *stack;
	size_t nr_frames, frames_room, nr_calls, calls_room, nr_stacks, stacks_room;
	struct textset keys; /* private: what was added, kinds as in stacktable.c */
	struct stack expanded;
};

/* Numbers of a text, and of a stack of one process. */
uint32_t stacktable_text(struct stacktable *t, const char *text);
uint32_t stacktable_add(struct stacktable *t, const struct replay *m, struct replay_process *process, uint32_t python_stack,
			uint32_t native_stack);
void stacktable_release(struct stacktable *t);

#endif
