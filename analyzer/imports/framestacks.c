/* SPDX-License-Identifier: MIT */
/* Frames told by their files' names, stacks as trees of nodes. */
#include "analyzer/imports/framestacks.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"

void framestacks_init(struct framestacks *s)
{
	*s = (struct framestacks){ 0 };
}

void framestacks_release(struct framestacks *s)
{
	textset_release(&s->texts);
	keyset_release(&s->frames);
	keyset_release(&s->nodes);
	keyset_release(&s->pairs);
	keyset_release(&s->lists);
	free(s->list_pair);
	free(s->frame);
	*s = (struct framestacks){ 0 };
}

const char *framestacks_text(const struct framestacks *s, uint32_t number)
{
	return s->texts.member[number - 1]->text;
}

static bool ends_with(const char *text, size_t len, const char *end)
{
	size_t n = strlen(end);

	return len >= n && !memcmp(text + len - n, end, n);
}

/* Python's files end in .py or are no files ("<string>", "<frozen runpy>"). */
static bool is_python(const char *name, const char *file, size_t len)
{
	if (ends_with(file, len, ".py") || (len && *file == '<'))
		return true;
	return !strchr(name, ':') && !strchr(name, '(') && len && !strchr(file, '.') && strcmp(file, "??") != 0;
}

/* By the function's name, or by that of PyTorch's profiler for it. */
static bool runs_node(const char *name)
{
	return strstr(name, "torch::autograd::Engine::evaluate_function(") ||
	       strstr(name, "autograd::engine::evaluate_function: ");
}

uint32_t framestacks_frame(struct framestacks *s, const char *name, size_t name_len, const char *file, size_t file_len,
			   uint32_t line)
{
	struct keyset_key key = { {
	    textset_add(&s->texts, 0, name, name_len)->number,
	    textset_add(&s->texts, 0, file, file_len)->number,
	    line,
	    is_python(name, file, file_len) ? FRAMESTACKS_PYTHON :
	    runs_node(name)		    ? FRAMESTACKS_AUTOGRAD :
					      FRAMESTACKS_NATIVE,
	} };

	s->has_native |= key.part[3] != FRAMESTACKS_PYTHON;
	return keyset_add(&s->frames, key, NULL);
}

void framestacks_push(struct framestacks *s, uint32_t frame)
{
	s->frame = heap_grow(s->frame, &s->frames_room, s->nr_frames + 1, sizeof(*s->frame));
	s->frame[s->nr_frames++] = frame;
}

static enum framestacks_kind kind_of(const struct framestacks *s, size_t i)
{
	return s->frames.key[s->frame[i]].part[3];
}

static bool is_native(const struct framestacks *s, size_t i)
{
	return kind_of(s, i) != FRAMESTACKS_PYTHON;
}

static struct keyset_key list_hash(const struct framestacks *s)
{
	uint64_t a = s->nr_frames, b = ~a;

	for (size_t i = 0; i < s->nr_frames; i++) {
		a = (a ^ s->frame[i]) * 0x9e3779b97f4a7c15ull;
		b = (b + s->frame[i]) * 0xc2b2ae3d27d4eb4full;
		a ^= a >> 29;
		b ^= b >> 31;
	}
	return (struct keyset_key){ { (uint32_t)a, (uint32_t)(a >> 32), (uint32_t)b, (uint32_t)(b >> 32) } };
}

static uint32_t add_stack(struct framestacks *s)
{
	uint32_t leaf[2] = { 0, 0 }; /* of Python, native */
	bool in_node = false;

	for (size_t i = s->nr_frames; i-- > 0;) {
		bool native = is_native(s, i);
		bool is_border = native ? i && !is_native(s, i - 1) : i + 1 < s->nr_frames && is_native(s, i + 1);
		uint32_t flag = !is_border ? 0 : native ? FRAMESTACKS_RUNS : FRAMESTACKS_ENTRY;

		in_node |= kind_of(s, i) == FRAMESTACKS_AUTOGRAD;
		leaf[native] = keyset_add(&s->nodes, (struct keyset_key){ { leaf[native], s->frame[i], flag } }, NULL) + 1;
	}
	return keyset_add(&s->pairs, (struct keyset_key){ { leaf[0], leaf[1], in_node } }, NULL);
}

/* The same list comes again and again: only the first time it is taken apart. */
uint32_t framestacks_end(struct framestacks *s)
{
	size_t nr_lists = s->lists.nr;
	uint32_t list;

	if (!s->nr_frames)
		return 0;
	list = keyset_add(&s->lists, list_hash(s), NULL);
	if (s->lists.nr > nr_lists) {
		s->list_pair = heap_grow(s->list_pair, &s->list_pairs_room, s->lists.nr, sizeof(*s->list_pair));
		s->list_pair[list] = add_stack(s);
	}
	s->nr_frames = 0;
	return s->list_pair[list] + 1;
}
