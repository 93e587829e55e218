/* SPDX-License-Identifier: MIT */
/* Cause: matrices of attention, one weight for each query and key. */
#include "analyzer/names/groupkeeper.h"
#include "analyzer/oom/autopsy_causes.h"
#include "analyzer/patterns/attention.h"

/* Masks alone are what is wrong only where they are most of it. */
static bool say_masks(const struct autopsy *a, struct autopsy_finding *f, const struct attention *m, uint64_t bytes)
{
	if (2 * bytes < a->failure->allocated + (m->is_asked ? a->failure->asked : 0))
		return false;
	autopsy_say(f, SAID(attention_masks, fact_count("rows", m->each.rows), fact_count("columns", m->each.columns),
			    fact_bytes("taken", m->bytes), fact_if(m->is_asked, fact_bytes("asked", a->failure->asked))));
	autopsy_evidence(f, SAID(attention_masks_of_layers, NO_FACTS));
	autopsy_advise(f, SAID(attention_masks_advice, fact_bytes("bytes", bytes)));
	return true;
}

/* How many there are, and how they grow: those of a square by both of its sides. */
static void say_tensors(struct autopsy_finding *f, const struct attention *m)
{
	const struct fact facts[] = {
		fact_count("tensors", m->nr_blocks),
		fact_flag("is_up_to", m->varies),
		fact_count("matrices", m->each.nr),
	};

	autopsy_evidence(f, said_of(attention_is_square(&m->each) ? SAY_attention_grows_by_length
								  : SAY_attention_grows_by_keys,
				    facts, sizeof(facts) / sizeof(*facts)));
	if (!attention_is_square(&m->each))
		autopsy_evidence(f, SAID(attention_is_cross, fact_count("rows", m->each.rows),
					 fact_count("columns", m->each.columns)));
}

static void say_matrices(const struct autopsy *a, struct autopsy_finding *f, const struct attention *m, bool of_samples)
{
	struct fact rows = fact_count("rows", m->each.rows), columns = fact_count("columns", m->each.columns);

	if (!m->bytes)
		autopsy_say(f, SAID(attention_matrices_asked, rows, columns, fact_flag("of_samples", of_samples),
				    fact_bytes("asked", a->failure->asked)));
	else
		autopsy_say(f, SAID(attention_matrices, rows, columns, fact_flag("of_samples", of_samples), fact_bytes("taken", m->bytes),
				    fact_if(m->is_asked, fact_bytes("asked", a->failure->asked))));
}

/* A list of the program's own has them: what is read of them is wanted, and no attention without matrices gives that. */
static void advise_kept(const struct autopsy *a, struct autopsy_finding *f, const struct attention *m, uint64_t bytes)
{
	const struct namegroup *g = a->place[a->block[m->largest].place].named;
	struct keeper k, next;

	if (g && g->is_named && g->blocks > 1 && groupkeeper_nearest(&k, &next, g) && keeper_has_entries(&k) && k.name.root != ROOT_UNNAMED)
		autopsy_advise(f, SAID(attention_kept_advice, fact_name("holder", groupkeeper_name(g, &k.name)), fact_bytes("bytes", bytes)));
}

/* Has a batch as many samples as a matrix has rows, each of such a length that the matrices may be one for each place and head? */
static bool is_between_samples(const struct attention *m, const uint64_t *dims, uint32_t nr_dims)
{
	return nr_dims > 1 && dims[0] == m->each.rows && dims[1] != dims[0] && dims[1] && m->each.nr % dims[1] == 0;
}

/*
 * Without batch_first=True the first dimension is what attends to itself: samples do, where the batch has them there. The length of each; 0: it
 * is not so.
 */
static uint64_t length_of_samples(const struct autopsy *a, const struct attention *m)
{
	if (!attention_is_square(&m->each))
		return 0;
	if (a->has_shape && is_between_samples(m, a->shape.dims, a->shape.nr_dims))
		return a->shape.dims[1];
	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct tfmt_shape *s = &a->block[i].shape;

		if (a->categories.block[i].category == CATEGORY_INPUT && a->block[i].is_shaped && is_between_samples(m, s->dims, s->nr_dims))
			return s->dims[1];
	}
	return 0;
}

static bool makes_weights(const struct autopsy *a, const struct attention *m)
{
	return autopsy_is_of_attention_weights(a, m->bytes ? autopsy_group(a, m->largest)->python_stack : a->failure->python_stack);
}

/* Masks stay: it takes them as attn_mask. */
static void advise_fused(const struct autopsy *a, struct autopsy_finding *f, const struct attention *m, uint64_t bytes, uint64_t length)
{
	struct fact saved = fact_bytes("saved", bytes - m->masks), masks = fact_if(m->masks, fact_bytes("masks", m->masks));

	if (!makes_weights(a, m)) {
		autopsy_advise(f, SAID(attention_advice, saved, masks));
		return;
	}
	/* Without them the longest batch has none of it, either. */
	f->of_batch = false;
	if (length)
		autopsy_advise(f, SAID(batch_first_advice, fact_count("rows", m->each.rows), fact_count("length", length)));
	autopsy_advise(f, SAID(attention_weights_advice, saved, masks));
}

bool autopsy_is_attention_matrix(const struct autopsy *a, struct autopsy_finding *f)
{
	const struct attention *m = &a->patterns.attention;
	uint64_t bytes, length;

	bytes = m->bytes + (m->is_asked ? a->failure->asked : 0);
	if (!bytes || !autopsy_matters(a, bytes))
		return false;
	f->bytes = bytes;
	if (m->is_asked)
		autopsy_at_request(a, f);
	else
		autopsy_at_place(a, f, a->block[m->largest].place);
	if (!m->has_scores && (!m->is_asked || m->is_mask_asked))
		return say_masks(a, f, m, bytes);
	length = makes_weights(a, m) ? length_of_samples(a, m) : 0;
	say_matrices(a, f, m, length != 0);
	say_tensors(f, m);
	if (m->bytes)
		advise_kept(a, f, m, bytes);
	advise_fused(a, f, m, bytes, length);
	return true;
}
