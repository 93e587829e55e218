/* SPDX-License-Identifier: MIT */
/* The rules that users write, of owners and of categories, read before a recording is loaded. */
#ifndef VT_RULES_H
#define VT_RULES_H

/*
 * Read both files of rules, as far as there are any. Whoever loads a recording calls it first, each time: only the first
 * call reads. Returns 0; or the reason has been printed by the first call, and the value is CMD_TROUBLE.
 */
int rules_load(void);

#endif
