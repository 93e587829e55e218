/* SPDX-License-Identifier: MIT */
/* The progress line on stderr. */
#include "analyzer/base/progress.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "analyzer/base/term.h"

#define FIRST_DRAW_NS 500000000u
#define REDRAW_NS 100000000u

static struct {
	char what[128];
	uint64_t next_draw_ns; /* 0 = not active */
	bool is_drawn;
} progress;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void progress_begin(const char *what)
{
	const char *term = getenv("TERM");

	progress_end();
	if (!isatty(STDERR_FILENO) || !term || !strcmp(term, "dumb"))
		return;
	snprintf(progress.what, sizeof(progress.what), "%s", what);
	progress.next_draw_ns = now_ns() + FIRST_DRAW_NS;
}

void progress_update(uint64_t done, uint64_t total)
{
	uint64_t now;
	int room;

	if (!progress.next_draw_ns || (now = now_ns()) < progress.next_draw_ns)
		return;
	progress.next_draw_ns = now + REDRAW_NS;
	room = term_columns(stderr) - 12;
	if (total)
		fprintf(stderr, "\r\033[K%.*s  %3u%%", room > 0 ? room : 0, progress.what,
			done >= total ? 100u : (unsigned)((double)done / (double)total * 100));
	else
		fprintf(stderr, "\r\033[K%.*s ...", room > 0 ? room : 0, progress.what);
	fflush(stderr);
	progress.is_drawn = true;
}

void progress_hide(void)
{
	if (!progress.is_drawn)
		return;
	fputs("\r\033[K", stderr);
	fflush(stderr);
	progress.is_drawn = false;
}

void progress_end(void)
{
	progress_hide();
	progress.next_draw_ns = 0;
}
