/* SPDX-License-Identifier: MIT */
/* A folder of our own below $TMPDIR, else /tmp, for as long as a command runs. */
#ifndef VT_SCRATCH_H
#define VT_SCRATCH_H

#include <limits.h>

#define SCRATCH_ROOM 64 /* a file's name in it may be so long */

/* Make "vramtrace-WHAT-XXXXXX". Returns 0, or CMD_TROUBLE after a message. */
int scratch_make(char path[static PATH_MAX], const char *what);

/* Remove it with all that it holds; "" is none. */
void scratch_remove(const char *path);

#endif
