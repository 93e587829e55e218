/* SPDX-License-Identifier: MIT */
/* Stretches of source lines. */
#include "analyzer/picturepages/sourcewindows.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/stacks/sourcetext.h"

#define AROUND 6 /* lines before and after */

/* A line that is wanted. */
struct wanted {
	uint32_t file, line;
};

static int by_line(const void *va, const void *vb)
{
	const struct wanted *a = va, *b = vb;

	if (a->file != b->file)
		return a->file < b->file ? -1 : 1;
	return (a->line > b->line) - (a->line < b->line);
}

/* The program's own lines that stacks stand for. */
static struct wanted *list(const struct stacktable *t, size_t *nr)
{
	struct wanted *wanted = heap_alloc(2 * t->nr_stacks, sizeof(*wanted));

	*nr = 0;
	for (size_t i = 0; i < t->nr_stacks; i++) {
		uint32_t of[] = { t->stack[i].site, t->stack[i].program };

		for (size_t k = 0; k < 2; k++) {
			const struct stacktable_frame *f = of[k] ? &t->frame[of[k] - 1] : NULL;

			if (f && f->file && f->line && f->flags & STACKTABLE_PYTHON && !(f->flags & STACKTABLE_FRAMEWORK))
				wanted[(*nr)++] = (struct wanted){ f->file, f->line };
		}
	}
	if (*nr)
		qsort(wanted, *nr, sizeof(*wanted), by_line);
	return wanted;
}

static void put_number(struct jsonout *j, const char *key, uint32_t number)
{
	char text[16];

	snprintf(text, sizeof(text), "%" PRIu32, number);
	jsonout_value(j, key, text);
}

static void print_stretch(struct jsonout *j, struct sourcetext *s, const char *path, uint32_t file, uint32_t first,
			  uint32_t last)
{
	size_t len;

	jsonout_begin(j, NULL, '{');
	put_number(j, "file", file);
	put_number(j, "first", first);
	jsonout_begin(j, "lines", '[');
	for (uint32_t line = first; line <= last; line++) {
		const char *text = sourcetext_line(s, path, line, &len);
		char *copy;

		if (!text)
			break;
		copy = heap_need(strndup(text, len));
		jsonout_string(j, NULL, copy);
		free(copy);
	}
	jsonout_end(j);
	jsonout_end(j);
}

void print_sources(struct jsonout *j, const struct replay *m, const struct stacktable *t, bool is_asked)
{
	struct sourcetext s = { .reader = m->nr_processes ? m->process[0].reader : NULL };
	struct wanted *wanted;
	size_t nr;

	if (!is_asked) {
		jsonout_value(j, "sources", "null");
		return;
	}
	wanted = list(t, &nr);
	jsonout_begin(j, "sources", '[');
	for (size_t i = 0, next; i < nr; i = next) {
		const char *path = t->texts.member[wanted[i].file - 1]->text;
		uint32_t first = wanted[i].line > AROUND ? wanted[i].line - AROUND : 1;

		for (next = i + 1; next < nr && wanted[next].file == wanted[i].file &&
				   wanted[next].line - wanted[next - 1].line <= 2 * AROUND; next++)
			;
		if (!sourcetext_is_edited(&s, path))
			print_stretch(j, &s, path, wanted[i].file, first, wanted[next - 1].line + AROUND);
	}
	jsonout_end(j);
	free(wanted);
	sourcetext_release(&s);
}
