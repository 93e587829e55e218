/* SPDX-License-Identifier: MIT */
/* What attempts that failed, and were caught, have left: looked for once, before the causes are asked. */
#ifndef VT_AUTOPSY_ATTEMPTS_H
#define VT_AUTOPSY_ATTEMPTS_H

#include "analyzer/oom/autopsy.h"

/* Fill a->attempts. */
void autopsy_find_attempts(struct autopsy *a);

#endif
