/* SPDX-License-Identifier: MIT */
/* The treap of a device's blocks: ordered by address, balanced by random priorities. */
#include "analyzer/allocator/blocktree.h"

static void pull_up(struct segments *s, uint32_t n)
{
	struct segments_block *b = &s->block[n];
	uint64_t most = blocktree_free_bytes(b);

	/* block[0] is none, and has nothing free. */
	if (s->block[b->left].max_free > most)
		most = s->block[b->left].max_free;
	if (s->block[b->right].max_free > most)
		most = s->block[b->right].max_free;
	b->max_free = most;
}

/* Cut the tree below n in two: what begins below the address, and the rest. */
static void tree_split(struct segments *s, uint32_t n, uint64_t address, uint32_t *below, uint32_t *rest)
{
	if (!n) {
		*below = *rest = 0;
	} else if (s->block[n].address < address) {
		tree_split(s, s->block[n].right, address, &s->block[n].right, rest);
		*below = n;
		pull_up(s, n);
	} else {
		tree_split(s, s->block[n].left, address, below, &s->block[n].left);
		*rest = n;
		pull_up(s, n);
	}
}

static uint32_t tree_join(struct segments *s, uint32_t a, uint32_t b)
{
	if (!a || !b)
		return a ? a : b;
	if (s->block[a].priority > s->block[b].priority) {
		s->block[a].right = tree_join(s, s->block[a].right, b);
		pull_up(s, a);
		return a;
	}
	s->block[b].left = tree_join(s, a, s->block[b].left);
	pull_up(s, b);
	return b;
}

/* Above it only what is free there can become more: no child needs to be asked. */
uint32_t blocktree_insert(struct segments *s, uint32_t at, uint32_t n)
{
	uint64_t free_bytes = blocktree_free_bytes(&s->block[n]);

	if (!at || s->block[n].priority > s->block[at].priority) {
		tree_split(s, at, s->block[n].address, &s->block[n].left, &s->block[n].right);
		pull_up(s, n);
		return n;
	}
	if (s->block[n].address < s->block[at].address)
		s->block[at].left = blocktree_insert(s, s->block[at].left, n);
	else
		s->block[at].right = blocktree_insert(s, s->block[at].right, n);
	if (free_bytes > s->block[at].max_free)
		s->block[at].max_free = free_bytes;
	return at;
}

/* Above it nothing changes unless it was the largest that is free. */
uint32_t blocktree_remove(struct segments *s, uint32_t at, uint32_t n)
{
	if (at == n)
		return tree_join(s, s->block[n].left, s->block[n].right);
	if (s->block[n].address < s->block[at].address)
		s->block[at].left = blocktree_remove(s, s->block[at].left, n);
	else
		s->block[at].right = blocktree_remove(s, s->block[at].right, n);
	if (blocktree_free_bytes(&s->block[n]) == s->block[at].max_free)
		pull_up(s, at);
	return at;
}

/* What has not changed itself changes nothing above it. */
bool blocktree_changed(struct segments *s, uint32_t at, uint32_t n)
{
	bool is_left = s->block[n].address < s->block[at].address;
	uint64_t before = s->block[at].max_free;

	if (at != n && !blocktree_changed(s, is_left ? s->block[at].left : s->block[at].right, n))
		return false;
	pull_up(s, at);
	return s->block[at].max_free != before;
}

uint32_t blocktree_floor(const struct segments *s, uint64_t address)
{
	uint32_t found = 0;

	for (uint32_t n = s->root; n;) {
		if (s->block[n].address <= address) {
			found = n;
			n = s->block[n].right;
		} else {
			n = s->block[n].left;
		}
	}
	return found;
}
