/* SPDX-License-Identifier: MIT */
/*
 * Source files of the traced program, where they can be read when a recording is analysed. They may have changed
 * since, or be missing: whoever asks must be content without. Single-threaded.
 */
#ifndef VT_SOURCETEXT_H
#define VT_SOURCETEXT_H

#include <stddef.h>
#include <stdint.h>

struct sourcetext_file;

struct sourcetext {
	struct sourcetext_file *file;
	size_t nr_files;
};

/* A line (1 the first) without its end, not terminated: *len bytes; NULL if it cannot be had. Valid until release. */
const char *sourcetext_line(struct sourcetext *s, const char *path, uint32_t line, size_t *len);
void sourcetext_release(struct sourcetext *s);

#endif
