/* SPDX-License-Identifier: MIT */
/* Eighths of a line. */
#include "analyzer/livepages/sparkline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/base/term.h"
#include "analyzer/holders/timeline.h"

#define LEVELS 9
#define BYTES_OF_ONE 3

static const char *const blocks[LEVELS] = { " ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
static const char *const letters[LEVELS] = { " ", ".", ":", "-", "=", "+", "*", "#", "@" };

/* Only nothing is shown as nothing. */
static unsigned level_of(uint64_t value, uint64_t top)
{
	unsigned level = (unsigned)((double)value / (double)top * (LEVELS - 1) + 0.5);

	return value && !level ? 1 : level;
}

bool sparkline(char *text, size_t size, const struct liverow *r, uint32_t columns, bool utf8)
{
	const struct series_track *track =
		series_find(&r->trace->series, r->process->books, r->device->ordinal);
	int of = r->device->has_tensors ? TIMELINE_ALLOCATED : TIMELINE_DRIVER;
	struct series_values *values;
	uint64_t top = 0;
	size_t at = 0;

	if (columns > (size - 1) / BYTES_OF_ONE)
		columns = (uint32_t)((size - 1) / BYTES_OF_ONE);
	if (!track || !columns || columns > INT32_MAX)
		return false;
	values = heap_alloc(columns, sizeof(*values));
	series_resample(&r->trace->series, track, r->trace->now_ns ? r->trace->now_ns : 1, values, columns);
	for (uint32_t i = 0; i < columns; i++)
		top = values[i].value[of] > top ? values[i].value[of] : top;
	text[0] = 0;
	for (uint32_t i = 0; i < columns && top; i++)
		at += (size_t)snprintf(text + at, size - at, "%s",
				       (utf8 ? blocks : letters)[level_of(values[i].value[of], top)]);
	free(values);
	return top > 0;
}

void livepage_cut(char *text, int columns)
{
	size_t len = strlen(text), at = 0;
	uint32_t point;
	int width = 0;

	while (at < len) {
		int n = term_decode_utf8(text + at, len - at, &point);
		int wide;

		n = n ? n : 1;
		wide = term_text_width(text + at, (size_t)n);
		if (width + wide > columns)
			break;
		width += wide;
		at += (size_t)n;
	}
	text[at] = 0;
}
