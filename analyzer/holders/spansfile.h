/* SPDX-License-Identifier: MIT */
/* The spans of time that a user lists in a file: `peak --spans`. */
#ifndef VT_SPANSFILE_H
#define VT_SPANSFILE_H

#include "analyzer/holders/spans.h"

/*
 * Read a file of lines "PID FROM TO NAME": a process id or 0, two times in ns, the rest is the name. "-" is standard
 * input. Returns 0, or CMD_TROUBLE after a message that names the line; spans_release() is needed either way.
 */
int spansfile_read(struct spans *s, const char *path);

#endif
