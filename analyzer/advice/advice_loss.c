/* SPDX-License-Identifier: MIT */
/* Advice about the loss over a large vocabulary: a part of the tokens at a time. */
#include <stdlib.h>
#include <string.h>

#include "analyzer/advice/advice_kinds.h"
#include "analyzer/advice/advice_thresholds.h"
#include "analyzer/allocator/torch.h"
#include "analyzer/base/heap.h"
#include "analyzer/changes/editpeak.h"
#include "analyzer/patterns/vocabulary.h"
#include "analyzer/stacks/element.h"

#define PARTS 8

/* What computes logits: a matrix of `vocabulary` rows, which no layers have. */
struct head {
	uint64_t vocabulary;
	size_t parameter;
};

static bool is_matrix_of(const struct jobpart *j, size_t i, uint64_t vocabulary)
{
	const struct tfmt_shape *s = &j->shape[i];

	return j->blocks.block[i].category == CATEGORY_PARAMETER && s->nr_dims == 2 &&
	       (s->dims[0] == vocabulary || s->dims[1] == vocabulary);
}

static unsigned nr_matrices_of(const struct jobpart *j, uint64_t vocabulary)
{
	unsigned nr = 0;

	for (size_t i = 0; i < j->blocks.nr_blocks; i++)
		nr += is_matrix_of(j, i, vocabulary);
	return nr;
}

/* Words come last; or after the sample, as cross_entropy takes [batch, words, length]. */
static bool is_over_words(const struct tfmt_shape *s, uint64_t vocabulary)
{
	return (s->nr_dims >= 2 && s->dims[s->nr_dims - 1] == vocabulary) ||
	       (s->nr_dims >= 3 && s->dims[1] == vocabulary);
}

/* A value for each token and word. */
static bool are_values(const struct tfmt_shape *s, uint64_t vocabulary)
{
	return is_over_words(s, vocabulary) && jobpart_elements(s) / vocabulary >= TOKENS_MIN;
}

static bool has_shape_of_logits(const struct jobpart *j, size_t i, uint64_t vocabulary)
{
	return are_values(&j->shape[i], vocabulary) && !jobpart_fits_parameter(j, i);
}

/* The request that failed may be for logits, or for what the loss makes of them. */
static bool is_asked(const struct jobpart *j, uint64_t vocabulary)
{
	return j->asked && j->asked_phase != PHASE_OPTIMIZER && j->asked_phase != PHASE_INIT &&
	       are_values(&j->asked_shape, vocabulary) && !jobpart_is_parameters(j, jobpart_key(&j->asked_shape));
}

/* Logits, what the loss makes of them, and their gradients. */
static bool is_logits(const struct jobpart *j, size_t i, uint64_t vocabulary)
{
	const struct category_block *b = &j->blocks.block[i];

	if (b->category != CATEGORY_ACTIVATION && b->category != CATEGORY_TEMPORARY)
		return false;
	if (!jobpart_is_born(j, i, PHASE_FORWARD) && !jobpart_is_born(j, i, PHASE_BACKWARD) &&
	    !jobpart_is_born(j, i, PHASE_OTHER))
		return false;
	return has_shape_of_logits(j, i, vocabulary);
}

/* By group, whether logits of the window were made there. */
static bool *groups_of_logits(const struct jobpart *j, uint64_t vocabulary)
{
	bool *made = heap_alloc(books_nr_groups(j->device->process->books), sizeof(*made));

	for (size_t i = 0; i < j->blocks.nr_blocks; i++)
		if (is_logits(j, i, vocabulary))
			made[j->blocks.block[i].life.group] = true;
	return made;
}

/* A loss over labels, each of which is there or not: no part of it is over classes, whatever its name. */
static bool is_of_labels(const struct jobpart *j, uint32_t python_stack)
{
	static const char *const parts[] = { "inary_cross_entropy", "inaryCrossEntropy", NULL };

	return advice_names_one(j, python_stack, parts);
}

static bool is_of_loss(const struct jobpart *j, uint32_t python_stack)
{
	static const char *const parts[] = {
		"ross_entropy", "rossEntropy", "oftmax", "nll_loss", "NllLoss", "ogsumexp", NULL,
	};

	return advice_names_one(j, python_stack, parts) && !is_of_labels(j, python_stack);
}

/*
 * Gradients of as many features that a node of autograd made: of a loss over classes it would have the name. Or labels
 * of as many.
 */
static bool has_other_loss(const struct jobpart *j, uint64_t vocabulary)
{
	bool found = j->asked && is_of_labels(j, j->asked_stack);

	for (size_t i = 0; i < j->blocks.nr_blocks && !found; i++) {
		struct stack_source source = replay_stack_source(j->replay, j->device->process);
		const struct life *life = &j->blocks.block[i].life;
		struct stack stack = { 0 };
		const struct stack_frame *node = NULL;

		if (!is_logits(j, i, vocabulary))
			continue;
		if (life->birth.phase != PHASE_BACKWARD) {
			found = is_of_labels(j, life->birth.stack);
			continue;
		}
		stack_expand(&stack, &source, life->birth.stack, 0);
		node = stack_node(&stack);
		found = node && node->function && !strstr(node->function, "Compiled");
		stack_release(&stack);
	}
	return found;
}

/* What gives out so many features, and nothing that takes them in: a layer's would be taken by the next. */
static bool is_last_wide(const struct jobpart *j, uint64_t vocabulary)
{
	for (size_t i = 0; i < j->blocks.nr_blocks; i++)
		if (is_matrix_of(j, i, vocabulary) && j->shape[i].dims[1] == vocabulary)
			return false;
	return vocabulary_is_sure(vocabulary) && !has_other_loss(j, vocabulary);
}

/*
 * Is the vocabulary one that a loss is over, and no layer's features? In any step: memory may have run out before the
 * loss of this one. Compiled code names none.
 */
static bool has_loss(const struct jobpart *j, uint64_t vocabulary)
{
	const struct books *books = j->device->process->books;
	struct tfmt_shape s;

	for (uint32_t i = 0; i < books_nr_groups(books); i++) {
		const struct group *g = books_group(books, i);

		if (g->tensor && g->shape && tfmt_reader_shape(books_reader(books), g->shape, &s) &&
		    is_over_words(&s, vocabulary) && is_of_loss(j, g->python_stack))
			return true;
	}
	return (j->asked && is_of_loss(j, j->asked_stack)) || is_last_wide(j, vocabulary);
}

/* first: a block; SIZE_MAX: there is only the request. */
static uint64_t logits_bytes(const struct jobpart *j, uint64_t vocabulary, unsigned *nr, size_t *first)
{
	uint64_t bytes = 0;

	*nr = 0;
	*first = SIZE_MAX;
	for (size_t i = 0; i < j->blocks.nr_blocks; i++) {
		if (!is_logits(j, i, vocabulary))
			continue;
		if (!(*nr)++)
			*first = i;
		bytes += j->blocks.block[i].life.size;
	}
	if (is_asked(j, vocabulary)) {
		(*nr)++;
		bytes += j->asked;
	}
	return bytes;
}

/* The head whose logits take most. false: there is none. */
static bool find_head(const struct jobpart *j, struct head *head)
{
	uint64_t most = 0;

	for (size_t i = 0; i < j->blocks.nr_blocks; i++) {
		const struct tfmt_shape *s = &j->shape[i];
		uint64_t vocabulary, bytes;
		unsigned nr;
		size_t first;

		if (j->blocks.block[i].category != CATEGORY_PARAMETER || s->nr_dims != 2)
			continue;
		vocabulary = s->dims[0] > s->dims[1] ? s->dims[0] : s->dims[1];
		if (!vocabulary_may_be(vocabulary) || vocabulary == head->vocabulary ||
		    nr_matrices_of(j, vocabulary) > HEADS_MAX)
			continue;
		bytes = logits_bytes(j, vocabulary, &nr, &first);
		if (bytes <= most || !has_loss(j, vocabulary))
			continue;
		most = bytes;
		*head = (struct head){ .vocabulary = vocabulary, .parameter = i };
	}
	return most;
}

/* The matrix's gradient as backward first makes it: of the type that the matrix was multiplied in. */
static uint64_t gradient_bytes(const struct jobpart *j, size_t parameter)
{
	for (size_t i = 0; i < j->blocks.nr_blocks; i++)
		if (j->key[i] == j->key[parameter] && jobpart_is_born(j, i, PHASE_BACKWARD))
			return j->blocks.block[i].life.size;
	return j->blocks.block[parameter].life.size;
}

/*
 * The peak with PARTS parts of the tokens, one at a time. Each part makes a gradient of the matrix, which is added to
 * those of the parts before: one more of it is there while backward goes through the loss, and two when both and their
 * sum are there, for a moment. Logits of the step before that are still there go: a part's do not outlive it.
 */
static uint64_t peak_in_parts(const struct jobpart *j, const struct head *head)
{
	bool *made = groups_of_logits(j, head->vocabulary);
	uint64_t begin = TFMT_NO_ORDINAL, end = 0;
	struct edits e = { 0 };

	for (size_t i = 0; i < j->blocks.nr_blocks; i++) {
		const struct life *life = &j->blocks.block[i].life;

		if (!made[life->group] || !has_shape_of_logits(j, i, head->vocabulary))
			continue;
		if (life->birth.ordinal < j->from) {
			edits_resize(&e, life->birth.ordinal, 0);
			continue;
		}
		edits_resize(&e, life->birth.ordinal, torch_rounded(life->size / PARTS));
		if (life->birth.phase == PHASE_BACKWARD && life->birth.ordinal < begin)
			begin = life->birth.ordinal;
		if (life->death.phase == PHASE_BACKWARD && life->death.ordinal != TFMT_NO_ORDINAL &&
		    life->death.ordinal > end)
			end = life->death.ordinal;
	}
	if (is_asked(j, head->vocabulary))
		edits_resize(&e, j->to, torch_rounded(j->asked / PARTS));
	if (begin < end) {
		edits_more(&e, begin, end, gradient_bytes(j, head->parameter));
		edits_moment(&e, end + 1, 2 * gradient_bytes(j, head->parameter));
	}
	free(made);
	return editpeak_once(j, &e);
}

bool advice_chunked_loss(const struct jobpart *j, struct advice *a)
{
	struct head head = { 0 };
	char shape[SHAPE_TEXT_MAX];
	struct fact site;
	uint32_t stack;
	uint64_t bytes;
	unsigned nr;
	size_t first;

	if (!find_head(j, &head))
		return false;
	a->after_bytes = peak_in_parts(j, &head);
	bytes = logits_bytes(j, head.vocabulary, &nr, &first);
	stack = first == SIZE_MAX ? j->asked_stack : j->blocks.block[first].life.birth.stack;
	advice_at_stack(j, a, stack);
	site = fact_if(a->has_site, fact_site("site", &a->site));
	a->title = SAID(loss_in_parts, fact_count("parts", PARTS), site);
	if (advice_is_package(j, a, stack))
		a->action = SAID(loss_of_package_action, site);
	else
		a->action = SAID(loss_in_parts_action, site);
	a->evidence = SAID(loss_tensors, fact_count("tensors", nr), fact_bytes("bytes", bytes),
			   fact_name("shape", shape_text(shape, first == SIZE_MAX ? &j->asked_shape : &j->shape[first])));
	a->cost = SAID(loss_in_parts_cost, NO_FACTS);
	return true;
}
