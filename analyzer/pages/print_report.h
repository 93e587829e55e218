/* SPDX-License-Identifier: MIT */
/* The machine-readable report, vramtrace/report/1: every field is present, null where it does not apply. */
#ifndef VT_PRINT_REPORT_H
#define VT_PRINT_REPORT_H

#include "analyzer/advice/advice.h"
#include "analyzer/gate/repeat.h"
#include "analyzer/oom/autopsy.h"
#include "analyzer/replay/replay.h"
#include "analyzer/ui/emit.h"

#define REPORT_SCHEMA "vramtrace/report/1"

/*
 * All members of the document. *r holds the runs of a repeated recording; the findings are those of the autopsy, and
 * what grows on the other devices.
 */
void report_json(struct emit *e, const struct replay *m, const struct repeat *r, const struct autopsy *a,
		const struct advices *advices);

#endif
