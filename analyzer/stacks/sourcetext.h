/* SPDX-License-Identifier: MIT */
/*
 * Source files of the traced program, where they can be read when a recording is analysed. They may be missing, or
 * edited since and then are none: whoever asks must be content without. Edited is a file of another content than the
 * trace tells (a fresh checkout has other times, and the same content); one of which it does not tell, if it was
 * changed after the recording began. Single-threaded.
 */
#ifndef VT_SOURCETEXT_H
#define VT_SOURCETEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tracefmt/tracefmt.h"

struct sourcetext_file;

/* Zero it. */
struct sourcetext {
	struct sourcetext_file *file;
	size_t nr_files;
	const struct tfmt_reader *reader; /* whose program's they are; NULL: files are read as they are */
};

/* Was a file edited? Its lines are no longer those that ran. false for one that is not there. */
bool sourcetext_is_edited(struct sourcetext *s, const char *path);

/* A line (1 the first) without its end, not terminated: *len bytes; NULL if it cannot be had. Valid until release. */
const char *sourcetext_line(struct sourcetext *s, const char *path, uint32_t line, size_t *len);
void sourcetext_release(struct sourcetext *s);

#endif
