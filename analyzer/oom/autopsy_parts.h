/* SPDX-License-Identifier: MIT */
/* Which part of the model made most of what a step needs, and what its batch is of. */
#ifndef VT_AUTOPSY_PARTS_H
#define VT_AUTOPSY_PARTS_H

#include "analyzer/oom/autopsy.h"

/* Fill a->parts, of a replay loaded with modules. */
void autopsy_find_parts(struct autopsy *a);

#endif
