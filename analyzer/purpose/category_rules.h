/* SPDX-License-Identifier: MIT */
/*
 * The rules by which a frame tells what memory is for: those of categories.def, and before them those of the user's
 * file,
 *
 *   FILE CATEGORY [FUNCTION [LIFE]]      # patterns of the shell; blanks between
 *
 * which is the one that VRAMTRACE_CATEGORIES names, else vramtrace/categories in $XDG_CONFIG_HOME or ~/.config, if
 * there is one. Category "-" passes a frame over. A FILE without '/' is compared with the file's name alone.
 *
 * Loaded once, before anything is looked up; afterwards read-only, any thread.
 */
#ifndef VT_CATEGORY_RULES_H
#define VT_CATEGORY_RULES_H

#include <stdbool.h>
#include <stdint.h>

enum category {
	CATEGORY_PARAMETER, /* and buffers of modules */
	CATEGORY_GRADIENT,
	CATEGORY_OPTIMIZER_STATE,
	CATEGORY_ACTIVATION,
	CATEGORY_INPUT,
	CATEGORY_WORKSPACE,
	CATEGORY_COMMUNICATION,
	CATEGORY_TEMPORARY,
	CATEGORY_UNKNOWN,
	CATEGORY_BUFFER, /* of a module, where a census saw it: no rule and no inference tells it from a parameter */
	NR_CATEGORIES,
	CATEGORY_PASS_OVER = NR_CATEGORIES, /* "-" */
	CATEGORY_NO_RULE,
};
extern const char *const category_names[NR_CATEGORIES];

/* Has a category its row, or its member, for so many bytes? Buffers have one only where there are any. */
static inline bool category_has_row(int category, uint64_t bytes)
{
	return category != CATEGORY_BUFFER || bytes;
}

/*
 * Read the user's file, if there is one. Returns 0; or the reason has been printed (message_error) with the line it
 * is about, and the value is CMD_TROUBLE.
 */
int category_rules_load(void);

/*
 * What a frame of this file and function (without class) tells of a block that is kept, or of one that is not:
 * CATEGORY_PASS_OVER and CATEGORY_NO_RULE also.
 */
enum category category_rules_match(const char *file, const char *function, bool kept);

#endif
