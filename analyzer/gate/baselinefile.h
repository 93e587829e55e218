/* SPDX-License-Identifier: MIT */
/*
 * Baselines: footprints as TOML files, to be checked in. Written in one order, one fact per line, so that they are read
 * in reviews, and merged, like source code.
 */
#ifndef VT_BASELINEFILE_H
#define VT_BASELINEFILE_H

#include <stdio.h>

#include "analyzer/gate/footprint.h"

#define BASELINE_SCHEMA "vramtrace/baseline/1"

/* Write the footprint without the stacks that hold less than f->min_bytes. Errors are those of `out`. */
void baselinefile_write(const struct footprint *f, FILE *out);

/*
 * Read a baseline. Returns 0, or CMD_TROUBLE after a message with the line it is about. footprint_release() is needed
 * either way.
 */
int baselinefile_read(struct footprint *f, const char *path);

#endif
