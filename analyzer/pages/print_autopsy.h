/* SPDX-License-Identifier: MIT */
/* The autopsy of a failed allocation (oom/autopsy.h), as one page and as JSON. */
#ifndef VT_PRINT_AUTOPSY_H
#define VT_PRINT_AUTOPSY_H

#include "analyzer/advice/advice.h"
#include "analyzer/oom/autopsy.h"
#include "analyzer/ui/emit.h"

/*
 * The page; with `verbose` all findings. Of what to do, at most three, some of them the advices'. So many lines of the
 * screen are left to what is printed after it.
 */
void print_autopsy(struct emit *e, const struct autopsy *a, const struct advices *advices, unsigned lines_after, bool verbose);

/* The verdict in one line, without its sentence. Returns its lines: 1, or 0 where there is none. */
unsigned print_autopsy_brief(struct emit *e, const struct autopsy *a);

/*
 * What to do against the verdict itself, where no saving of memory elsewhere is the cure. Returns how many lines there
 * are, and without an e only counts them.
 */
unsigned print_autopsy_action(struct emit *e, const struct autopsy *a);

/* As members of the device's object: state, holders, findings. */
void print_autopsy_state(struct emit *e, const struct autopsy *a);

/* The array "findings"; NULL: it is empty. */
void print_autopsy_findings(struct emit *e, const struct autopsy *a);

/* What is in that array; others may follow. */
void print_autopsy_finding_objects(struct emit *e, const struct autopsy *a);

/* The sentence about so many requests that failed, all of them handled. */
void print_gone_on(struct emit *e, uint64_t nr);

/* Failures of a device: a table (text), the array "failures". */
void print_failures(struct emit *e, const struct replay *m, const struct replay_device *d,
		    const struct failures_of_device *failures);

#endif
