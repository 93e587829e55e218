/* SPDX-License-Identifier: MIT */
/* Messages about memory that ran out, taken out of a text; see oomtext.h. */
#include "analyzer/errortexts/oomtext.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"

/* ---- the messages of a text ------------------------------------------------------------------ */

static bool same_figure(const struct oom_figure *a, const struct oom_figure *b)
{
	return a->known == b->known && (!a->known || (a->bytes == b->bytes && a->unit == b->unit));
}

/* A launcher repeats what a rank has printed, with a prefix: those are the same. */
static bool same_message(const struct oom_message *a, const struct oom_message *b)
{
	return a->wording == b->wording && a->device == b->device &&
	       (a->rank == b->rank || a->rank < 0 || b->rank < 0) &&
	       same_figure(&a->requested, &b->requested) && same_figure(&a->capacity, &b->capacity) &&
	       same_figure(&a->free, &b->free) && same_figure(&a->allocated, &b->allocated) &&
	       same_figure(&a->reserved, &b->reserved) && same_figure(&a->unused, &b->unused) &&
	       same_figure(&a->allowed, &b->allowed) && same_figure(&a->own, &b->own);
}

static void text_add(struct oom_text *t, const struct oom_message *m)
{
	for (size_t i = t->nr_messages; i-- > 0;) {
		if (!same_message(&t->message[i], m))
			continue;
		t->message[i].count++;
		if (t->message[i].rank < 0)
			t->message[i].rank = m->rank;
		return;
	}
	if (t->nr_messages == OOM_MESSAGES_MAX) {
		/* The last one is what gets explained: it takes the place of the one before. */
		t->nr_left_out++;
		t->nr_messages--;
	}
	if (!t->message)
		t->message = heap_alloc(OOM_MESSAGES_MAX, sizeof(*m));
	t->message[t->nr_messages++] = *m;
}

/* ---- the stream ------------------------------------------------------------------------------ */

#define WINDOW_MAX (1 << 16)
#define MESSAGE_MAX (1 << 13) /* no message is longer without its white space: 64 processes, 40 bytes each   \
			       */
#define HEAD_MAX 64           /* of a line: where launchers put their prefixes */

struct stream {
	struct oom_text *text;
	char window[WINDOW_MAX + 1];
	int64_t rank_at[WINDOW_MAX]; /* of the line that a byte of the window comes from */
	size_t nr, scanned;          /* bytes in the window; those already searched */
	int64_t rank;
	char head[HEAD_MAX + 1];
	size_t nr_head;
	bool in_head, in_escape, after_backslash;
};

/* Search the window; but for `is_end`, what may go on beyond it waits. */
static void stream_scan(struct stream *s, bool is_end)
{
	size_t limit = is_end ? s->nr : s->nr > MESSAGE_MAX ? s->nr - MESSAGE_MAX : 0;
	const char *p = s->window + s->scanned, *where = NULL;
	struct oommessage_search search = { 0 };
	struct oom_message m;
	size_t keep;

	s->window[s->nr] = 0;
	while (oommessage_next(&search, s->window, &p, s->window + limit, &where, &m)) {
		m.rank = s->rank_at[where - s->window];
		text_add(s->text, &m);
	}
	if (p < s->window + limit)
		p = s->window + limit;
	/* What stands before an anchor belongs to it: the backend's name, the device. */
	keep = (size_t)(p - s->window);
	keep = keep > HEAD_MAX ? keep - HEAD_MAX : 0;
	s->scanned = (size_t)(p - s->window) - keep;
	memmove(s->window, s->window + keep, s->nr - keep);
	memmove(s->rank_at, s->rank_at + keep, (s->nr - keep) * sizeof(*s->rank_at));
	s->nr -= keep;
}

/* A byte that is no prefix of a line. White space, control characters and colours are left out, and "\n"
 * spelt out. */
static void stream_push(struct stream *s, char c)
{
	if (s->in_escape) {
		s->in_escape = c == '[' || c == ';' || isdigit((unsigned char)c);
		return;
	}
	if (c == '\033')
		s->in_escape = true;
	if ((unsigned char)c <= ' ')
		return;
	if (s->after_backslash && c == 'n') {
		s->nr -= s->nr > 0;
		s->after_backslash = false;
		return;
	}
	if (c == '\xa0' && s->nr &&
	    s->window[s->nr - 1] == '\xc2') { /* U+00A0, the space that web pages do not break */
		s->nr--;
		return;
	}
	s->after_backslash = c == '\\';
	s->window[s->nr] = c;
	s->rank_at[s->nr++] = s->rank;
	if (s->nr == WINDOW_MAX)
		stream_scan(s, false);
}

/* "[rank3]: " (PyTorch), "[default3]:" (torchrun), "[1,3]<stderr>: " (mpirun): length, and the rank. 0: none.
 */
static size_t rank_prefix(const char *head, int64_t *rank)
{
	const char *p = head;
	uint64_t number, job;
	bool is_mpi = false;

	while (*p == ' ')
		p++;
	if (oommessage_take(&p, "[rank") || oommessage_take(&p, "[default")) {
		if (!oommessage_take_number(&p, &number))
			return 0;
	} else if (oommessage_take(&p, "[")) {
		is_mpi = oommessage_take_number(&p, &job) && oommessage_take(&p, ",") && oommessage_take_number(&p, &number);
		if (!is_mpi)
			return 0;
	} else {
		return 0;
	}
	if (!oommessage_take(&p, "]") || (is_mpi && !oommessage_take(&p, "<stderr>") && !oommessage_take(&p, "<stdout>")) || !oommessage_take(&p, ":") ||
	    number > INT32_MAX)
		return 0;
	*rank = (int64_t)number;
	return (size_t)(p - head);
}

/* "2025-11-12T11:25:13.496Z ", "> ", "| ": what log collectors and mails put before a line. */
static size_t plain_prefix(const char *head)
{
	size_t n = strspn(head, " >|");

	if (strspn(head + n, "0123456789") == 4 && head[n + 4] == '-')
		n += strspn(head + n, "0123456789-:.,TZ+");
	return n;
}

/* The head of a line is whole: its prefixes are left out, the rest goes on. */
static void stream_end_head(struct stream *s)
{
	size_t at = 0, n;

	s->in_head = false;
	s->head[s->nr_head] = 0;
	s->rank = -1;
	do {
		n = plain_prefix(s->head + at);
		n += rank_prefix(s->head + at + n, &s->rank);
		at += n;
	} while (n);
	for (; at < s->nr_head; at++)
		stream_push(s, s->head[at]);
	s->nr_head = 0;
}

static void stream_take(struct stream *s, char c)
{
	if (!c)
		return;
	if (c == '\n' || c == '\r') {
		stream_end_head(s);
		s->in_head = true;
	} else if (s->in_head) {
		s->head[s->nr_head++] = c;
		if (s->nr_head == HEAD_MAX)
			stream_end_head(s);
	} else {
		stream_push(s, c);
	}
}

int oomtext_read(struct oom_text *t, FILE *in)
{
	struct stream *s = heap_alloc(1, sizeof(*s));
	char chunk[4096];
	size_t n;
	int err = 0;

	*t = (struct oom_text){ 0 };
	s->text = t;
	s->in_head = true;
	errno = 0;
	while ((n = fread(chunk, 1, sizeof(chunk), in)) > 0) {
		t->nr_bytes += n;
		for (size_t i = 0; i < n; i++)
			stream_take(s, chunk[i]);
	}
	if (ferror(in)) {
		err = errno ? -errno : -EIO;
	} else {
		stream_end_head(s);
		stream_scan(s, true);
	}
	free(s);
	return err;
}

void oomtext_release(struct oom_text *t)
{
	free(t->message);
	*t = (struct oom_text){ 0 };
}
