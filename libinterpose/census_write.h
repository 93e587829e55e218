/* SPDX-License-Identifier: MIT */
/* census_write: what a census has found, as FORMAT.md section 12 has it. In a copy of the process. */
#ifndef IP_CENSUS_WRITE_H
#define IP_CENSUS_WRITE_H

#include "census_walk.h"
#include "tracefmt/tracefmt.h"

/* A census that is being written. */
struct census_output;

/*
 * Begin one on an empty file, which can be read from then on. Each census_put() adds what has been found since the one
 * before, and census_finish() the facts by the end, flags included. NULL: it could not be written; the others return 0 or an
 * error as tfmt_writer_flush() does.
 */
struct census_output *census_begin(int fd, const struct tfmt_header *header, const struct tfmt_census_facts *facts,
				   struct census_walk *walk);
int census_put(struct census_output *o);
int census_finish(struct census_output *o, const struct tfmt_census_facts *facts);

#endif
