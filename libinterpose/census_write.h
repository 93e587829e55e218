/* SPDX-License-Identifier: MIT */
/* census_write: what a census has found, as FORMAT.md section 12 has it. In a copy of the process. */
#ifndef IP_CENSUS_WRITE_H
#define IP_CENSUS_WRITE_H

#include "census_tensor.h"
#include "census_walk.h"
#include "tracefmt/tracefmt.h"

/*
 * Begin a census on an empty file: it can be read from then on. NULL, or what it was found to be by the end, flags
 * included, is written by census_finish(). Both return 0 or an error as tfmt_writer_flush() does.
 */
int census_begin(struct tfmt_writer **out, int fd, const struct tfmt_header *header, const struct tfmt_census_facts *facts);
int census_finish(struct tfmt_writer *w, const struct census_walk *walk, struct census_layout *layout,
		  const struct tfmt_census_facts *facts);

#endif
