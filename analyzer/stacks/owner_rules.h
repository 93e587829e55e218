/* SPDX-License-Identifier: MIT */
/*
 * The rules by which a file on a stack has an owner: those of owners.def, and before them those of the user's file,
 *
 *   PATTERN OWNER [FUNCTION]      # of files, and of functions in them; blanks between
 *
 * which is the one that VRAMTRACE_OWNERS names, else vramtrace/owners in $XDG_CONFIG_HOME or ~/.config, if there is
 * one. Patterns are those of the shell (fnmatch); FUNCTION is one for demangled names. Owner "-" passes a file over.
 *
 * Loaded once, before anything is looked up; afterwards read-only, any thread.
 */
#ifndef VT_OWNER_RULES_H
#define VT_OWNER_RULES_H

#include <stdbool.h>
#include <stdint.h>

#include "analyzer/stacks/owner_names.h"

#define OWNER_PASS_OVER NR_OWNERS /* "-" */
#define OWNER_NO_RULE (NR_OWNERS + 1)

/*
 * Read the user's file, if there is one. Returns 0; or the reason has been printed (message_error) with the line it
 * is about, and the value is CMD_TROUBLE.
 */
int owner_rules_load(void);

/* Does any rule ask for functions? Otherwise owner_rules_match() never calls `function`. */
bool owner_rules_need_functions(void);

/*
 * The owner of a file (its path), OWNER_PASS_OVER, or OWNER_NO_RULE. `function` (may be NULL) is called with `ctx` when
 * a rule for this file asks for the function's name; it returns NULL when that is not known.
 */
int owner_rules_match(const char *path, const char *(*function)(void *ctx), void *ctx);

#endif
