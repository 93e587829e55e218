/* SPDX-License-Identifier: MIT */
/* Spans of time from a file. */
#include "analyzer/holders/spansfile.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/base/message.h"
#include "analyzer/command.h"

static bool take_number(const char **p, uint64_t most, uint64_t *number)
{
	char *end;

	if (!isdigit((unsigned char)**p))
		return false;
	errno = 0;
	*number = strtoull(*p, &end, 10);
	if (errno || *number > most || (*end && !isspace((unsigned char)*end)))
		return false;
	*p = end + strspn(end, " \t");
	return true;
}

static bool parse_line(const char *text, struct span *span)
{
	uint64_t pid;

	if (!take_number(&text, UINT32_MAX, &pid) || !take_number(&text, UINT64_MAX, &span->from_ns) ||
	    !take_number(&text, UINT64_MAX, &span->to_ns) || span->to_ns < span->from_ns)
		return false;
	span->pid = (uint32_t)pid;
	span->name = heap_copy(text);
	return true;
}

/* Returns 0 or CMD_TROUBLE after a message. */
static int add_line(struct spans *s, const char *path, const char *text, size_t line)
{
	if (!text[strspn(text, " \t")])
		return 0;
	s->span = heap_grow(s->span, &s->spans_room, s->nr_spans + 1, sizeof(*s->span));
	if (!parse_line(text, &s->span[s->nr_spans]))
		return message_error("cannot understand line %zu of '%s': expected 'PID FROM TO NAME', with times in "
				     "nanoseconds", line, path);
	s->span[s->nr_spans++].line = line;
	return 0;
}

static int compare_beginnings(const void *va, const void *vb)
{
	const struct span *a = va, *b = vb;

	if (a->from_ns != b->from_ns)
		return a->from_ns < b->from_ns ? -1 : 1;
	return (a->line > b->line) - (a->line < b->line);
}

int spansfile_read(struct spans *s, const char *path)
{
	FILE *in = strcmp(path, "-") ? fopen(path, "re") : stdin;
	char *text = NULL;
	size_t room = 0;
	ssize_t len = 0;
	int status = 0;

	if (!in)
		return message_error("cannot open '%s': %s", path, strerror(errno));
	for (size_t line = 1; !status && (len = getline(&text, &room, in)) >= 0; line++) {
		if (len && text[len - 1] == '\n')
			text[len - 1] = 0;
		status = add_line(s, path, text, line);
	}
	if (!status && ferror(in))
		status = message_error("cannot read '%s': %s", path, strerror(errno));
	free(text);
	if (in != stdin)
		fclose(in);
	if (s->nr_spans)
		qsort(s->span, s->nr_spans, sizeof(*s->span), compare_beginnings);
	return status;
}
