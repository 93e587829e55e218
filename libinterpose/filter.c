/* SPDX-License-Identifier: MIT */
/* Patterns of program names; see filter.h. */
#include "filter.h"

#include <string.h>

/* Whether the text matches the pattern of this length. */
static bool matches(const char *pattern, size_t len, const char *text)
{
	const char *end = pattern + len, *star = NULL, *retry = NULL;

	for (;;) {
		if (pattern < end && *pattern == '*') {
			star = ++pattern;
			retry = text;
		} else if (*text && pattern < end && (*pattern == '?' || *pattern == *text)) {
			pattern++;
			text++;
		} else if (!*text && pattern == end) {
			return true;
		} else if (star && *retry) {
			/* The last star takes one character more. */
			pattern = star;
			text = ++retry;
		} else {
			return false;
		}
	}
}

static bool any_matches(const char *pattern, size_t len, const char *const *names, unsigned nr_names)
{
	for (unsigned i = 0; i < nr_names; i++)
		if (names[i] && names[i][0] && matches(pattern, len, names[i]))
			return true;
	return false;
}

bool ip_filter_admits(const char *filter, const char *const *names, unsigned nr_names)
{
	bool wanted = false, has_wanted = false;

	while (*filter) {
		size_t len = strcspn(filter, ",");
		bool excludes = len && *filter == '!';

		if (excludes && any_matches(filter + 1, len - 1, names, nr_names))
			return false;
		if (len && !excludes) {
			has_wanted = true;
			wanted |= any_matches(filter, len, names, nr_names);
		}
		filter += len + (filter[len] != 0);
	}
	return wanted || !has_wanted;
}
