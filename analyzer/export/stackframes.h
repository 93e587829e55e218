/* SPDX-License-Identifier: MIT */
/*
 * Stacks as other programs show them: frames with a name, and file and line where they are known, the outermost first.
 * Frames that are alike have one number, and so have names and files, each from 1.
 */
#ifndef VT_STACKFRAMES_H
#define VT_STACKFRAMES_H

#include "analyzer/base/keyset.h"
#include "analyzer/recording/textset.h"
#include "analyzer/stacks/stack.h"

struct frame {
	const char *name;   /* a function, "libfoo.so+0x1234", "(12 older frames not recorded)" */
	const char *file;   /* NULL = not known */
	uint32_t line;      /* 0 = not known */
	uint32_t number;    /* of the frame */
	uint32_t name_number, file_number; /* file_number 0: there is no file */
	bool is_new;        /* no frame before was like it */
};

/* Zero before first use. Texts stay valid until frames_release(). */
struct frames {
	struct frame *frame; /* of the stack, the outermost first */
	uint32_t nr_frames;
	size_t room;

	/* private */
	struct textset texts;
	struct keyset numbers;
	struct stack stack;
};

/* Begin a stack: it has no frames. */
void frames_clear(struct frames *f);

/* Add a frame within the last; file NULL and line 0: nothing is known of them. */
void frames_add(struct frames *f, const char *name, const char *file, uint32_t line);

/* Add the frames of a recorded stack. */
void frames_expand(struct frames *f, const struct stack_source *source, uint32_t python, uint32_t native);
void frames_release(struct frames *f);

#endif
