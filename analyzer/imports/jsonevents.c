/* SPDX-License-Identifier: MIT */
/* Following braces and strings, and no more: what an event holds, a library for JSON reads. */
#include "analyzer/imports/jsonevents.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "analyzer/base/heap.h"

#define CHUNK (1u << 18)
#define EVENT_MAX (1u << 24) /* bytes: the largest of real traces have some thousands */
#define KEY_MAX 32

struct scan {
	struct jsonevents *j;
	uint64_t depth;
	bool in_string, is_escaped, in_events, in_number;
	char key[KEY_MAX]; /* the latest string at depth 1, cut */
	size_t key_length;
	char *text; /* of the event */
	size_t length, room;
	bool in_event, is_too_long, is_wrong;
};

static void keep(struct scan *s, char c)
{
	if (s->length + 1 >= EVENT_MAX) {
		s->is_too_long = true;
		return;
	}
	s->text = heap_grow(s->text, &s->room, s->length + 2, 1);
	s->text[s->length++] = c;
}

static void end_event(struct scan *s)
{
	s->in_event = false;
	s->text[s->length] = 0;
	s->length = 0;
	s->j->nr_taken++;
	s->is_wrong = !s->j->take(s->j->ctx, s->text);
}

static void in_string(struct scan *s, char c)
{
	if (s->is_escaped)
		s->is_escaped = false;
	else if (c == '\\')
		s->is_escaped = true;
	else if (c == '"')
		s->in_string = false;
	if (s->depth == 1 && s->in_string && s->key_length < KEY_MAX - 1)
		s->key[s->key_length++] = c;
	s->key[s->key_length] = 0;
}

static void opened(struct scan *s, char c)
{
	if (c == '[' && s->depth == 1 && !strcmp(s->key, "traceEvents"))
		s->in_events = s->j->has_events = true;
	if (c == '{' && s->depth == 2 && s->in_events) {
		s->in_event = true;
		keep(s, c);
	}
	s->depth++;
}

static void closed(struct scan *s)
{
	s->depth -= s->depth > 0;
	if (s->in_event && s->depth == 2)
		end_event(s);
	if (s->depth < 2)
		s->in_events = false;
}

/* A digit of the one number that is wanted. */
static void number(struct scan *s, char c)
{
	if (s->depth == 1 && isdigit((unsigned char)c) && !strcmp(s->key, "baseTimeNanoseconds"))
		s->j->base_ns = s->j->base_ns * 10 + (uint64_t)(c - '0');
}

static void take(struct scan *s, char c)
{
	if (s->in_event && (c != '{' || s->depth > 2))
		keep(s, c);
	if (s->in_string) {
		in_string(s, c);
		return;
	}
	switch (c) {
	case '"':
		s->in_string = true;
		s->key_length = s->depth == 1 ? 0 : s->key_length;
		break;
	case '{':
	case '[':
		opened(s, c);
		break;
	case '}':
	case ']':
		closed(s);
		break;
	default:
		number(s, c);
	}
}

static int wrong(struct scan *s, char *why, size_t size, const char *what)
{
	snprintf(why, size, what, s->j->nr_taken);
	return -1;
}

static int read_all(struct scan *s, gzFile file, char *why, size_t size)
{
	char *chunk = heap_alloc(CHUNK, 1);
	int got, error;

	while ((got = gzread(file, chunk, CHUNK)) > 0 && !s->is_wrong && !s->is_too_long)
		for (int i = 0; i < got && !s->is_wrong && !s->is_too_long; i++)
			take(s, chunk[i]);
	free(chunk);
	if (s->is_wrong)
		return wrong(s, why, size, "its event %" PRIu64 " is none of JSON");
	if (s->is_too_long)
		return wrong(s, why, size, "an event after %" PRIu64 " others has more than 16 MiB");
	if (got < 0) {
		snprintf(why, size, "%s", gzerror(file, &error));
		return -1;
	}
	if (s->depth)
		return wrong(s, why, size, "the file ends after %" PRIu64 " events: it is not whole");
	return 0;
}

int jsonevents_read(struct jsonevents *j, const char *path, char *why, size_t size)
{
	struct scan s = { .j = j };
	gzFile file = gzopen(path, "re");
	int err;

	if (!file) {
		snprintf(why, size, "%s", strerror(errno));
		return -1;
	}
	err = read_all(&s, file, why, size);
	gzclose(file);
	free(s.text);
	return err;
}
