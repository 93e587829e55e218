/* SPDX-License-Identifier: MIT */
/* The page of `top` as lines of text, for a terminal that draws them anew and for one that does not. */
#ifndef VT_LIVEPAGE_H
#define VT_LIVEPAGE_H

#include "analyzer/base/term.h"
#include "analyzer/live/live.h"

struct livepage_line {
	char *text; /* no longer than the screen is wide, without control characters */
	enum term_style style;
};

/* Zero before first use. */
struct livepage {
	struct livepage_line *line;
	size_t nr_lines, room;
	size_t first_selected, end_selected; /* the lines of the selected row */
};

#define LIVEPAGE_ALL SIZE_MAX

struct livepage_view {
	int columns;
	bool utf8;
	size_t selected;     /* the row whose holders are shown, or LIVEPAGE_ALL */
	uint32_t nr_holders; /* how many of them */
};

/* Make the page anew. livepage_release() is needed. */
void livepage_make(struct livepage *p, const struct live *l, const struct livepage_view *v);
void livepage_release(struct livepage *p);

/* How a process ended, or that it runs. Returns buf. */
const char *livepage_end(char *buf, size_t size, const struct replay_process *p);

#endif
