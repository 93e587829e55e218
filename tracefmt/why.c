/* SPDX-License-Identifier: MIT */
/* Names of the reasons why a process could not record. */
#include <string.h>

#include "tracefmt/tracefmt.h"

_Static_assert(sizeof(struct tfmt_witness) == 64, "an entry is one cache line");
_Static_assert(sizeof(struct tfmt_witnesses) == 65536, "sixteen pages");

static const char *const names[TFMT_NR_WHY] = {
	[TFMT_WHY_NONE] = "",
	[TFMT_WHY_THREAD] = "thread",
	[TFMT_WHY_MEMORY] = "memory",
	[TFMT_WHY_FOLDER] = "folder",
	[TFMT_WHY_NOT_OURS] = "not-ours",
	[TFMT_WHY_TRACE] = "trace",
	[TFMT_WHY_REMOVED] = "removed",
	[TFMT_WHY_SLOW] = "slow",
};

const char *tfmt_why_name(unsigned why)
{
	return why < TFMT_NR_WHY ? names[why] : "";
}

enum tfmt_why tfmt_why_named(const char *name)
{
	for (unsigned why = 1; why < TFMT_NR_WHY; why++)
		if (!strcmp(name, names[why]))
			return (enum tfmt_why)why;
	return TFMT_WHY_NONE;
}
