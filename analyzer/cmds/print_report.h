/* SPDX-License-Identifier: MIT */
/* The machine-readable report, vramtrace/report/1: every field is present, null where it does not apply. */
#ifndef VT_PRINT_REPORT_H
#define VT_PRINT_REPORT_H

#include "analyzer/model.h"
#include "analyzer/repeat.h"
#include "analyzer/ui/emit.h"

#define REPORT_SCHEMA "vramtrace/report/1"

/*
 * All members of the document; nothing in text. *r holds the runs of a repeated recording. Returns 0 or
 * TFMT_E_NOMEM.
 */
int report_json(struct emit *e, const struct model *m, const struct repeat *r);

/* Driver memory at the driver's peak by owner, modelled memory of libraries included; the sum is the peak. */
void report_owners(const struct model_device *d, uint64_t bytes[static NR_OWNERS]);

/* What of the device is modelled, context and code too, at the driver's peak by owner; false if nothing is. */
bool report_modelled(const struct model_device *d, uint64_t bytes[static NR_OWNERS]);

/* What the driver takes for itself, of those. */
uint64_t report_context_bytes(const uint64_t modelled[static NR_OWNERS]);

#endif
