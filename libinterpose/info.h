/* SPDX-License-Identifier: MIT */
/* What the trace says about its process: key and value pairs, entry point names. Drain thread only. */
#ifndef IP_INFO_H
#define IP_INFO_H

#include <stdbool.h>

#include "tracefmt/tracefmt.h"

/* One pair; keys are listed in FORMAT.md. An empty or NULL value is left out. */
void info_put(struct tfmt_writer *w, const char *key, const char *value);

/* Everything that is known when recording begins, and the names of all entry points. */
void info_begin(struct tfmt_writer *w, enum tfmt_storage kind);

/* What becomes known later (torch's version once it is loaded); cheap, called after each scan of modules. */
void info_update(struct tfmt_writer *w);

/* What the simulated device was asked for and could not do, one pair "unsupported.NAME" = calls a function. */
void info_unsupported(struct tfmt_writer *w);

/* Whether the device is a simulated one that never runs out: its total is no capacity. Any thread. */
bool info_is_capacity_unlimited(void);

/* The two clocks, read together. */
void info_clock(struct tfmt_writer *w);

/* Fill in the facts of this boot and host. */
void info_header(struct tfmt_header *h);

/* Put how many native stacks two unwinders have walked, and how many of them differed, if more have been. */
void info_comparison(struct tfmt_writer *w);

/* Fill in whose version and commit the recorder is (recorder_version.c). */
void info_recorder(struct tfmt_header *h);

#endif
