/* SPDX-License-Identifier: MIT */
/* Judging a recording: what `check` and `run --check` do alike. */
#ifndef VT_JUDGE_H
#define VT_JUDGE_H

#include <stdio.h>

#include "analyzer/checkpages/print_check.h"
#include "analyzer/gate/limits.h"
#include "analyzer/ui/emit.h"

struct judge_opts {
	enum check_format format;
	struct emit_opts emit; /* of text */
	uint32_t top;
	bool quiet; /* caveats have been said */
};

/*
 * Load the recording, and the baseline if the limits have one, judge, and print the verdict on `out`. Returns
 * CMD_FINE, CMD_FINDING (a limit is broken), or CMD_TROUBLE: it could not be told, or what is wrong has been said.
 */
int judge_recording(const char *path, const struct limits *limits, const struct judge_opts *o, FILE *out);

#endif
