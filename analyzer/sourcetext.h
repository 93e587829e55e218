/* SPDX-License-Identifier: MIT */
/*
 * Source files of the traced program, where they can be read when a recording is analysed. They may be missing, or
 * edited since and then are none: whoever asks must be content without. Single-threaded.
 */
#ifndef VT_SOURCETEXT_H
#define VT_SOURCETEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sourcetext_file;

/* Zero it. */
struct sourcetext {
	struct sourcetext_file *file;
	size_t nr_files;
	uint64_t recorded_ns; /* realtime: of a file changed later, nothing is told. 0: of any */
};

/* Was a file changed after this time? Its lines are no longer those that ran. */
bool sourcetext_is_newer(const char *path, uint64_t realtime_ns);

/* A line (1 the first) without its end, not terminated: *len bytes; NULL if it cannot be had. Valid until release. */
const char *sourcetext_line(struct sourcetext *s, const char *path, uint32_t line, size_t *len);
void sourcetext_release(struct sourcetext *s);

#endif
