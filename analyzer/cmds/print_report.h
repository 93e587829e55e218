/* SPDX-License-Identifier: MIT */
/* The machine-readable report, vramtrace/report/1: every field is present, null where it does not apply. */
#ifndef VT_PRINT_REPORT_H
#define VT_PRINT_REPORT_H

#include "analyzer/model.h"
#include "analyzer/ui/emit.h"

#define REPORT_SCHEMA "vramtrace/report/1"

/* All members of the document; nothing in text. */
void report_json(struct emit *e, const struct model *m);

/* Driver memory at the driver's peak by who called the driver; the sum is the peak. */
void report_owners(const struct model_device *d, uint64_t bytes[static NR_OWNERS]);

#endif
