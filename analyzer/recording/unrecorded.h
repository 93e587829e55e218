/* SPDX-License-Identifier: MIT */
/*
 * Processes that used GPU memory and did not record it, or not all of it: the reasons that they left in a recording's
 * folder, HOST.PID.START.why, or in its job file (tracefmt/FORMAT.md, section 11). A recording with such a file is not complete.
 */
#ifndef VT_UNRECORDED_H
#define VT_UNRECORDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UNRECORDED_TEXT_MAX 512

struct unrecorded {
	uint32_t pid;
	unsigned why; /* enum tfmt_why; TFMT_WHY_NONE: one that this build does not know */
	int error;    /* an errno, 0 = none */
	uint64_t nr;  /* events that nobody holds */
	char program[64];
};

/* Is this the name of such a file? */
bool unrecorded_is_file(const char *name);

/*
 * Those of a folder into *list, malloc'ed, to be freed in any case. Returns how many; a file that cannot be read
 * counts, with nothing known of it.
 */
size_t unrecorded_read(struct unrecorded **list, const char *folder);

/* "pid 12 (train.py) did not record its use of GPU memory: there was no thread to write with (...); 3 events are missing" */
const char *unrecorded_text(char buf[static UNRECORDED_TEXT_MAX], const struct unrecorded *u);

#endif
