/* SPDX-License-Identifier: MIT */
/* Why an allocation failed, in words: the figures of a message, the verdict with its evidence, what to do. */
#ifndef VT_PRINT_OOM_H
#define VT_PRINT_OOM_H

#include "analyzer/oom/oomstory.h"
#include "analyzer/ui/print_wrapped.h"
#include "analyzer/ui/emit.h"

/* "2.50 GiB", "14.88 MiB", "0 bytes": as PyTorch prints it. Returns buf; 32 bytes are enough. */
const char *print_oom_figure(char buf[static 32], struct oom_figure f);

/*
 * Text: the known figures behind an empty line, one or two to a line. Returns how many lines these are; e NULL: would be.
 */
unsigned print_oom_figures(struct emit *e, const struct oom_message *m, const struct oom_story *s, unsigned columns);

/* Text: all about one message, 24 lines at most: evidence that does not fit is in JSON alone. Nothing in JSON. */
void print_oom_text(struct emit *e, const struct oom_message *m, const struct oom_story *s);

/* JSON: members of the object that is open, and the array "findings". Nothing as text. */
void print_oom_message(struct emit *e, const struct oom_message *m, const struct oom_story *s);
void print_oom_findings(struct emit *e, const struct oom_message *m, const struct oom_story *s);

#endif
