/* SPDX-License-Identifier: MIT */
/*
 * The executable mappings of the process, written into the trace as module definitions. Read from
 * /proc/self/maps and the files themselves: the drain takes no loader lock. Drain thread only.
 */
#ifndef IP_MODULES_H
#define IP_MODULES_H

#include <stdbool.h>
#include <stdint.h>

#include "tracefmt/tracefmt.h"

/* Define the mappings that are not in the trace yet. */
void modules_scan(struct tfmt_writer *w);

/* Does a defined module hold this address? When not, a library was loaded since the last scan. */
bool modules_cover(uint64_t address);

/* Path of the first module whose file name begins with `name`, NULL if there is none. Valid for ever. */
const char *modules_find(const char *name);

#endif
