/* SPDX-License-Identifier: MIT */
/* A hash table of texts. */
#include "analyzer/recording/textset.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"

static uint64_t hash_of(unsigned kind, const char *text, size_t len)
{
	uint64_t hash = 0xcbf29ce484222325ull ^ kind;

	while (len--)
		hash = (hash ^ (unsigned char)*text++) * 0x100000001b3ull;
	return hash ^ hash >> 32;
}

static uint32_t *slot_of(const struct textset *s, unsigned kind, const char *text, size_t len)
{
	size_t i = hash_of(kind, text, len) & (s->nr_slots - 1);

	for (; s->slot[i]; i = (i + 1) & (s->nr_slots - 1)) {
		const struct textset_member *m = s->member[s->slot[i] - 1];

		if (m->kind == kind && m->len == len && !memcmp(m->text, text, len))
			break;
	}
	return &s->slot[i];
}

static void grow(struct textset *s)
{
	s->nr_slots = s->nr_slots ? 2 * s->nr_slots : 1024;
	free(s->slot);
	s->slot = heap_alloc(s->nr_slots, sizeof(*s->slot));
	s->room = s->nr_slots / 2;
	s->member = heap_need(realloc(s->member, s->room * sizeof(*s->member)));
	for (size_t i = 0; i < s->nr_members; i++)
		*slot_of(s, s->member[i]->kind, s->member[i]->text, s->member[i]->len) = (uint32_t)i + 1;
}

struct textset_member *textset_add(struct textset *s, unsigned kind, const char *text, size_t len)
{
	struct textset_member *m;
	uint32_t *slot;

	if (s->nr_members == s->room)
		grow(s);
	slot = slot_of(s, kind, text, len);
	if (*slot)
		return s->member[*slot - 1];
	m = heap_alloc(1, sizeof(*m) + len + 1);
	m->kind = kind;
	m->number = ++s->nr_of_kind[kind];
	m->len = len;
	if (len)
		memcpy(m->text, text, len);
	s->member[s->nr_members++] = m;
	*slot = (uint32_t)s->nr_members;
	return m;
}

void textset_release(struct textset *s)
{
	for (size_t i = 0; i < s->nr_members; i++) {
		free(s->member[i]->replacement);
		free(s->member[i]);
	}
	free(s->member);
	free(s->slot);
	*s = (struct textset){ 0 };
}

char *textset_format(const char *format, ...)
{
	va_list args;
	char *text;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		text = NULL;
	va_end(args);
	return heap_need(text);
}
