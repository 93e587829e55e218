/* SPDX-License-Identifier: MIT */
/* census_copy: what the copy of a process does; see census.h. */
#ifndef IP_CENSUS_COPY_H
#define IP_CENSUS_COPY_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "census_room.h"
#include "census_tensor.h"
#include "pyobjects.h"
#include "tracefmt/tracefmt.h"

/* How a copy ends, its exit status. */
enum census_status {
	CENSUS_DONE = 0,
	CENSUS_NO_FILE = 1,   /* its file could not be made */
	CENSUS_NO_MEMORY = 2,
	CENSUS_NO_WRITE = 3,
	CENSUS_NO_ROOM = 4,   /* the program's control group was about to run out of memory */
	CENSUS_NOT_FIRST = 5, /* where memory runs out it might not have been the first to be killed */
};

/* Goes after "because". */
const char *census_status_text(int status);

/* All that a copy needs. Filled in before it is made. */
struct census_order {
	struct pyobjects py;
	struct census_torch torch;
	char path[PATH_MAX]; /* of the file to make */
	struct tfmt_census_facts facts;
	uint32_t pid;        /* of the program */
	uint64_t image_start_ns;
	uint64_t max_bytes, max_ns;
	bool is_first;       /* of this process: there are no names yet */
	const struct census_room *room;
};

/* In the copy, on a stack of its own: never returns to the program's code. The argument is the order. */
int census_copy_main(void *order);

#endif
