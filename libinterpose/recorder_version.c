/* SPDX-License-Identifier: MIT */
/* The recorder's version and commit, for the header of traces: the one object that a commit compiles anew. */
#include <stdio.h>

#include "info.h"

/* setup/version.sh gives both as they are, without quotes. */
#define TEXT(words) #words
#define TEXT_OF(macro) TEXT(macro)

void info_recorder(struct tfmt_header *h)
{
	snprintf(h->recorder, sizeof(h->recorder), "%s", TEXT_OF(VRAMTRACE_VERSION));
	snprintf(h->commit, sizeof(h->commit), "%s", TEXT_OF(VRAMTRACE_COMMIT));
}
