/* SPDX-License-Identifier: MIT */
/* Memory over time in one line of a screen. */
#ifndef VT_SPARKLINE_H
#define VT_SPARKLINE_H

#include "analyzer/live/live.h"

/*
 * What tensors, or without any the driver, had allocated on the row's device since the process began, each character the
 * maximum of its part of the time; the highest stands for the peak. At most `columns` of them. False: there is nothing.
 */
bool sparkline(char *text, size_t size, const struct liverow *r, uint32_t columns, bool utf8);

/* Cut a text of UTF-8 to so many columns of a screen. */
void livepage_cut(char *text, int columns);

#endif
