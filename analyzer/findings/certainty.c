/* SPDX-License-Identifier: MIT */
#include "analyzer/findings/certainty.h"

const char *certainty_name(enum certainty c)
{
	static const char *const names[] = {
		[CERTAINTY_HINT] = "hint",
		[CERTAINTY_LIKELY] = "likely",
		[CERTAINTY_PROVEN] = "proven",
	};

	return names[c];
}

const char *certainty_word(enum certainty c)
{
	static const char *const words[] = {
		[CERTAINTY_HINT] = "perhaps ",
		[CERTAINTY_LIKELY] = "probably ",
		[CERTAINTY_PROVEN] = "",
	};

	return words[c];
}
