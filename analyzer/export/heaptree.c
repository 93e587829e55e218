/* SPDX-License-Identifier: MIT */
/* Nodes by parent and frame, sorted when they are written. */
#include "analyzer/export/heaptree.h"

#include <inttypes.h>
#include <stdlib.h>

#include "analyzer/base/heap.h"
#include "analyzer/recording/basename.h"

#define DEPTH_MAX 90 /* ms_print recurses, and Perl warns from 100 on */
#define THRESHOLD 100

/* What is written: children of one node lie side by side, the largest first. */
struct sorted {
	const struct heaptree *t;
	uint32_t *node;  /* all but the top */
	uint32_t *first; /* of each node: its first child's place */
	FILE *out;
};

void heaptree_clear(struct heaptree *t)
{
	keyset_release(&t->keys);
	t->keys = (struct keyset){ 0 };
	t->node = heap_grow(t->node, &t->room, 1, sizeof(*t->node));
	t->node[0] = (struct heaptree_node){ 0 };
	t->nr_nodes = 1;
}

static uint32_t child(struct heaptree *t, uint32_t parent, const struct frame *f)
{
	bool is_new;
	uint32_t n = 1 + keyset_add(&t->keys, (struct keyset_key){ { parent, f->number } }, &is_new);

	if (is_new) {
		t->node = heap_grow(t->node, &t->room, n + 1, sizeof(*t->node));
		t->node[n] = (struct heaptree_node){ .parent = parent, .frame = *f };
		t->nr_nodes = n + 1;
	}
	return n;
}

void heaptree_add(struct heaptree *t, const struct frames *f, uint64_t bytes)
{
	uint32_t node = 0;

	t->node[0].bytes += bytes;
	for (uint32_t i = 0; i < f->nr_frames && i < DEPTH_MAX; i++) {
		node = child(t, node, &f->frame[f->nr_frames - 1 - i]);
		t->node[node].bytes += bytes;
	}
}

/* ---- writing ----------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b, void *nodes)
{
	uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
	const struct heaptree_node *l = (const struct heaptree_node *)nodes + left;
	const struct heaptree_node *r = (const struct heaptree_node *)nodes + right;

	if (l->parent != r->parent)
		return l->parent < r->parent ? -1 : 1;
	if (l->bytes != r->bytes)
		return l->bytes > r->bytes ? -1 : 1;
	return left < right ? -1 : left > right;
}

/* Readers take what follows a number sign for a comment, and a line for a node. */
static void write_text(FILE *out, const char *text)
{
	for (; *text; text++)
		putc_unlocked(*text == '#' ? '.' : (unsigned char)*text < 0x20 ? ' ' : *text, out);
}

/* "0x7: step (train.py:36)": massif has an address, which is the frame's number here. */
static void write_frame(FILE *out, const struct frame *f)
{
	fprintf(out, " 0x%" PRIX32 ": ", f->number);
	write_text(out, f->name);
	if (!f->file)
		return;
	fputs(f->line ? " (" : " (in ", out);
	write_text(out, f->line ? basename_of(f->file) : f->file);
	if (f->line)
		fprintf(out, ":%" PRIu32, f->line);
	putc_unlocked(')', out);
}

static void write_below(const struct sorted *s, uint32_t parent, unsigned depth);

static void write_node(const struct sorted *s, uint32_t n, unsigned depth, const char *title)
{
	const struct heaptree_node *node = s->t->node;
	uint32_t nr = 0, nr_small = 0;

	for (uint32_t i = s->first[n]; i < s->t->nr_nodes - 1 && node[s->node[i]].parent == n; i++)
		if (node[s->node[i]].bytes >= node[0].bytes / THRESHOLD)
			nr++;
		else
			nr_small++;
	fprintf(s->out, "%*sn%" PRIu32 ": %" PRIu64, (int)depth, "", nr + (nr_small > 0), node[n].bytes);
	if (title)
		fprintf(s->out, " %s", title);
	else
		write_frame(s->out, &node[n].frame);
	putc_unlocked('\n', s->out);
	write_below(s, n, depth + 1);
}

/* No deeper than stacks are. */
static void write_below(const struct sorted *s, uint32_t parent, unsigned depth)
{
	const struct heaptree_node *node = s->t->node;
	uint64_t small_bytes = 0;
	uint32_t nr_small = 0;

	for (uint32_t i = s->first[parent]; i < s->t->nr_nodes - 1 && node[s->node[i]].parent == parent; i++) {
		const struct heaptree_node *n = &node[s->node[i]];

		if (n->bytes >= node[0].bytes / THRESHOLD) {
			write_node(s, s->node[i], depth, NULL);
			continue;
		}
		small_bytes += n->bytes;
		nr_small++;
	}
	if (nr_small)
		fprintf(s->out, "%*sn0: %" PRIu64 " in %" PRIu32 " places, all below massif's threshold (1.00%%)\n",
			(int)depth, "", small_bytes, nr_small);
}

void heaptree_write(const struct heaptree *t, FILE *out, const char *title)
{
	struct sorted s = { t, heap_alloc(t->nr_nodes, sizeof(*s.node)), heap_alloc(t->nr_nodes, sizeof(*s.first)), out };

	for (uint32_t i = 1; i < t->nr_nodes; i++)
		s.node[i - 1] = i;
	qsort_r(s.node, t->nr_nodes - 1, sizeof(*s.node), compare, t->node);
	for (uint32_t i = 0; i < t->nr_nodes; i++)
		s.first[i] = (uint32_t)t->nr_nodes;
	for (uint32_t i = (uint32_t)t->nr_nodes - 1; i-- > 0;)
		s.first[t->node[s.node[i]].parent] = i;
	write_node(&s, 0, 0, title);
	free(s.node);
	free(s.first);
}

void heaptree_release(struct heaptree *t)
{
	free(t->node);
	keyset_release(&t->keys);
	*t = (struct heaptree){ 0 };
}
