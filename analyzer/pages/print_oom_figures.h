/* SPDX-License-Identifier: MIT */
/* The figures of a message about memory that ran out: one in words, all on a page, all in JSON. */
#ifndef VT_PRINT_OOM_FIGURES_H
#define VT_PRINT_OOM_FIGURES_H

#include "analyzer/errortexts/oomstory.h"
#include "analyzer/ui/emit.h"

/* "2.50 GiB", "14.88 MiB", "0 bytes": as PyTorch prints it. Returns buf; 32 bytes are enough. */
const char *print_oom_figure(char buf[static 32], struct oom_figure f);

/* "0.60 to 0.62 GiB": where the true value lies. Returns buf. */
const char *print_oom_range(char buf[static 64], struct oom_figure f);

/* Bytes in a figure's unit: 0 bytes, 1 KiB, 2 MiB, 3 GiB, 4 TiB. */
double print_oom_in_unit(double bytes, int unit);

/*
 * Text: the known figures after an empty line, one or two to a line. Returns how many lines these are; e NULL: would be.
 */
unsigned print_oom_figures(struct emit *e, const struct oom_message *m, const struct oom_story *s, unsigned columns);

/* JSON: members of the object that is open. Nothing as text. */
void print_oom_message(struct emit *e, const struct oom_message *m, const struct oom_story *s);

#endif
