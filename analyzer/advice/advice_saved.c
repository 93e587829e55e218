/* SPDX-License-Identifier: MIT */
/*
 * Advice to keep on the host what autograd saves for backward: torch.autograd.graph.save_on_cpu().
 *
 * A saved block goes when forward's next results have taken its place in the program's variables. In backward it is
 * there again from where the *node* (of autograd) that releases it begins, and so is a copy of each weight that a node
 * multiplies with: save_on_cpu() takes these to the host as well. What is released without an allocation in between was
 * of one node.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzer/advice/advice_kinds.h"
#include "analyzer/advice/advice_thresholds.h"
#include "analyzer/base/heap.h"
#include "analyzer/changes/editpeak.h"


struct saved_block {
	size_t block;
	uint64_t until; /* ordinal at which forward lets go of it */
	uint64_t back;	/* ordinal at which backward has it again; TFMT_NO_ORDINAL: that is not seen */
	uint64_t death;
};

struct saved {
	const struct jobpart *j;
	struct saved_block *block;
	size_t nr;
	bool *is_saved; /* by block */
	uint64_t bytes, weights;
	size_t largest;
};

static bool is_saved(const struct jobpart *j, size_t i)
{
	const struct life *life = &j->blocks.block[i].life;

	if (!jobpart_is_kept(j, i))
		return false;
	return life->death.ordinal > j->to ? j->asked != 0 : life->death.phase == PHASE_BACKWARD;
}

/* ---- when they are there --------------------------------------------------------------------- */

/* Forward holds its latest results; what autocast has made of weights, to its end. */
static void find_until(struct saved *s)
{
	const struct jobpart *j = s->j;
	uint64_t next[RESULTS_HELD];
	size_t left = s->nr;

	for (unsigned k = 0; k < RESULTS_HELD; k++)
		next[k] = j->backward;
	for (size_t i = j->blocks.nr_blocks; i-- > 0;) {
		if (s->is_saved[i])
			s->block[--left].until = jobpart_is_cast(j, i) ? j->backward : next[RESULTS_HELD - 1];
		if (!jobpart_is_born(j, i, PHASE_FORWARD))
			continue;
		for (unsigned k = RESULTS_HELD - 1; k > 0; k--)
			next[k] = next[k - 1];
		next[0] = j->blocks.block[i].life.birth.ordinal;
	}
}

static int by_death(const void *va, const void *vb)
{
	const struct saved_block *a = va, *b = vb;

	return (a->death > b->death) - (a->death < b->death);
}

/* Backward's first allocation after an event; TFMT_NO_ORDINAL: none. *i goes on from call to call. */
static uint64_t birth_after(const struct jobpart *j, size_t *i, uint64_t ordinal)
{
	for (; *i < j->blocks.nr_blocks; (*i)++)
		if (jobpart_is_born(j, *i, PHASE_BACKWARD) && j->blocks.block[*i].life.birth.ordinal > ordinal)
			return j->blocks.block[*i].life.birth.ordinal;
	return TFMT_NO_ORDINAL;
}

/* A node begins after the release of another's, and what it releases is there from then on. Sorts by death. */
static void find_back(struct saved *s)
{
	uint64_t began = s->j->backward, before = s->j->backward;
	size_t next = 0;

	qsort(s->block, s->nr, sizeof(*s->block), by_death);
	for (size_t k = 0; k < s->nr; k++) {
		struct saved_block *b = &s->block[k];

		b->back = TFMT_NO_ORDINAL;
		if (b->death > s->j->to)
			continue;
		if (birth_after(s->j, &next, before) < b->death)
			began = before;
		before = b->death;
		b->back = began;
	}
}

/* ---- the peak -------------------------------------------------------------------------------- */

static bool is_matrix(const struct jobpart *j, size_t i, enum category category)
{
	return j->blocks.block[i].category == category && j->shape[i].nr_dims >= 2 && jobpart_fits_parameter(j, i);
}

/*
 * Is it a gradient whose node multiplies with the matrix, which save_on_cpu() brings back then? An embedding's
 * does not.
 */
static bool has_copy(const struct jobpart *j, size_t i)
{
	struct stack_source source = replay_stack_source(j->replay, j->device->process);
	struct stack stack = { 0 };
	const struct stack_frame *node = NULL;
	bool is_embedding;

	if (!is_matrix(j, i, CATEGORY_GRADIENT) || !jobpart_is_born(j, i, PHASE_BACKWARD))
		return false;
	stack_expand(&stack, &source, j->blocks.block[i].life.birth.stack, 0);
	node = stack_node(&stack);
	is_embedding = node && node->function && !strncmp(node->function, "Embedding", strlen("Embedding"));
	stack_release(&stack);
	return !is_embedding;
}

static uint64_t peak_without(const struct saved *s)
{
	const struct jobpart *j = s->j;
	struct edits e = { 0 };

	for (size_t i = 0; i < j->blocks.nr_blocks; i++) {
		const struct life *life = &j->blocks.block[i].life;

		if (has_copy(j, i))
			edits_more(&e, life->birth.ordinal, life->birth.ordinal + 1, life->size);
	}
	for (size_t k = 0; k < s->nr; k++) {
		const struct saved_block *b = &s->block[k];
		uint64_t birth = j->blocks.block[b->block].life.birth.ordinal;

		edits_step(&e, b->until, EDIT_FREE, birth);
		if (b->back != TFMT_NO_ORDINAL)
			edits_step(&e, b->back + 1, EDIT_AGAIN, birth);
	}
	return editpeak_once(j, &e);
}

/* ---- the advice ------------------------------------------------------------------------------ */

static bool find_saved(struct saved *s)
{
	const struct jobpart *j = s->j;
	uint64_t most = 0;

	for (size_t i = 0; i < j->blocks.nr_blocks; i++) {
		const struct life *life = &j->blocks.block[i].life;

		s->weights += is_matrix(j, i, CATEGORY_PARAMETER) ? life->size : 0;
		s->is_saved[i] = is_saved(j, i);
		if (!s->is_saved[i])
			continue;
		s->block[s->nr++] = (struct saved_block){ .block = i, .death = life->death.ordinal };
		s->bytes += life->size;
		if (life->size > most) {
			most = life->size;
			s->largest = i;
		}
	}
	if (!s->nr)
		return false;
	find_until(s);
	find_back(s);
	return true;
}

/* The line that runs forward: the outermost call that the stack of what is saved knows of a module. */
static void find_site(const struct jobpart *j, struct advice *a, size_t block)
{
	struct modulepaths *paths = j->device->process->modulepaths;
	uint32_t call = paths ? modulepaths_call(paths, j->blocks.block[block].life.birth.stack, 1) : 0;

	advice_at_stack(j, a, call ? call : j->blocks.block[block].life.birth.stack);
}

static void tell(const struct saved *s, struct advice *a)
{
	struct fact site;

	find_site(s->j, a, s->largest);
	site = fact_if(a->has_site, fact_site("site", &a->site));
	a->title = SAID(saved_on_host, site);
	a->action = SAID(saved_on_host_action, site);
	a->evidence = SAID(saved_waits, fact_count("tensors", s->nr), fact_bytes("bytes", s->bytes));
	a->cost = SAID(saved_on_host_cost, fact_bytes("moved", 2 * (s->bytes + s->weights)),
		       fact_bytes("weights", 2 * s->weights));
}

bool advice_activation_offload(const struct jobpart *j, struct advice *a)
{
	struct saved s = { .j = j };
	bool found;

	s.block = heap_alloc(j->blocks.nr_blocks, sizeof(*s.block));
	s.is_saved = heap_alloc(j->blocks.nr_blocks, sizeof(*s.is_saved));
	found = find_saved(&s);
	if (found) {
		a->after_bytes = peak_without(&s);
		tell(&s, a);
	}
	free(s.block);
	free(s.is_saved);
	return found;
}
