/* SPDX-License-Identifier: MIT */
/*
 * Limits of this machine that a simulated GPU would run into: a host limit must not look like CUDA running
 * out of memory (RECORDING.md, rule 20), so `run --simulate` names them before the program starts; and a real
 * GPU, which the program will not see.
 */
#ifndef VT_HOSTLIMITS_H
#define VT_HOSTLIMITS_H

#include <stdbool.h>

/*
 * Print a line about a real GPU, and one for each limit that may be too low (unless quiet). Returns 0, or
 * RUN_TROUBLE after a message when the simulated GPU cannot work at all.
 */
int hostlimits_check(bool quiet);

#endif
