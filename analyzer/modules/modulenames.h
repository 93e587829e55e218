/* SPDX-License-Identifier: MIT */
/*
 * The paths of modulepaths.h: interned, and, once all calls are known, without the numbers that turned out not to be
 * those of members.
 */
#ifndef VT_MODULENAMES_H
#define VT_MODULENAMES_H

#include "analyzer/modules/modulepaths.h"

/* The path one module further in. */
uint32_t modulenames_child(struct modulepaths *m, const struct modulepath *p);

#endif
