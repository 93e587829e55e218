/* SPDX-License-Identifier: MIT */
/* Advice about the batch: in parts whose gradients add up, smaller, or of shorter samples. */
#include "analyzer/advice/advice_kinds.h"
#include "analyzer/advice/advice_thresholds.h"
#include "analyzer/advice/unseen.h"
#include "analyzer/changes/editpeak.h"

/*
 * A gradient adds up with those of the parts before: it is there from the beginning, and what backward makes is another one of
 * it, for a moment.
 */
static void add_up(struct edits *e, const struct jobpart *j, const struct life *gradient)
{
	edits_more(e, j->from, gradient->death.ordinal, gradient->size);
	edits_step(e, gradient->birth.ordinal + 1, EDIT_FREE, gradient->birth.ordinal);
}

/* The peak of one part, whose gradients add up with those of others or not. */
static uint64_t peak_of_part(const struct jobpart *j, const struct batchcut *c, const struct unseen *u, bool adds_up)
{
	uint64_t gradients = adds_up ? unseen_gradients(j) : 0;
	struct edits e = { 0 };

	for (size_t i = 0; i < j->blocks.nr_blocks; i++) {
		const struct category_block *b = &j->blocks.block[i];
		uint64_t size = batchcut_size(c, j, i);

		if (adds_up && b->category == CATEGORY_GRADIENT && jobpart_is_born(j, i, PHASE_BACKWARD))
			add_up(&e, j, &b->life);
		else if (size != b->life.size)
			edits_resize(&e, b->life.birth.ordinal, size);
	}
	if (j->asked) {
		edits_resize(&e, j->to, batchcut_asked(c, j));
		edits_more(&e, j->to, TFMT_NO_ORDINAL, unseen_bytes(u, j, c, gradients));
	}
	edits_more(&e, j->from, TFMT_NO_ORDINAL, gradients);
	return editpeak_once(j, &e);
}

/*
 * The peak with this cut. Of two parts of an odd batch the first is the larger one, and the second one's gradients
 * alone are added to others.
 */
static uint64_t peak_with(const struct jobpart *j, const struct batchcut *c, const struct unseen *u, bool adds_up)
{
	struct batchcut rest = *c;
	uint64_t first, second;

	if (!adds_up || 2 * c->part <= c->batch)
		return peak_of_part(j, c, u, adds_up);
	rest.part = c->batch - c->part;
	first = peak_of_part(j, c, u, false);
	second = peak_of_part(j, &rest, u, true);
	return first > second ? first : second;
}

/*
 * What would have served the request, by the figures of the driver, with room for `more` and for fragmentation, which
 * differs from batch to batch. Where the rest of the step is unknown it is what surely does not fit that counts:
 * another batch may use all that is cached.
 */
static uint64_t peak_that_fits(const struct jobpart *j, const struct unseen *u, uint64_t more)
{
	uint64_t most = (j->peak - j->lacking) / 100 * (100 - ROOM_PERCENT);

	if (u->is_unknown)
		most = j->peak - j->lacking + j->cached;
	more = more / 100 * STATE_PERCENT;
	return most > more ? most - more : 0;
}

/* State of the optimizer to leave room for: none if nothing fits beside it, as where most parameters are frozen. */
static uint64_t state_to_come(const struct jobpart *j, struct batchcut *c, const struct unseen *u, bool adds_up)
{
	c->part = 1;
	return peak_with(j, c, u, adds_up) <= peak_that_fits(j, u, u->state_bytes) ? u->state_bytes : 0;
}

/* Before and after the cut, as where logits go before backward begins. Returns what it saves beside where they stay. */
static uint64_t find_saving(const struct jobpart *j, struct advice *a, struct batchcut *c, struct unseen *u,
			    bool adds_up)
{
	uint64_t part = c->part, kept_after = peak_with(j, c, u, adds_up), kept_before;

	c->part = c->whole;
	kept_before = peak_with(j, c, u, false);
	u->are_freed = true;
	a->peak_bytes = peak_with(j, c, u, false);
	c->part = part;
	a->after_bytes = peak_with(j, c, u, adds_up);
	return kept_before - kept_after - (a->peak_bytes - a->after_bytes);
}

/* ---- in parts -------------------------------------------------------------------------------- */

static bool in_parts(const struct jobpart *j, struct advice *a, struct batchcut *c, struct unseen *u)
{
	struct fact site, each, vocabulary, more, after;
	uint64_t parts = 2, most, kept;
	bool is_of_logits;

	if (c->batch < 2 || batchcut_is_of_pairs(c, j))
		return false;
	a->of_forward = j->asked && !u->is_unknown;
	a->of_backward = u->in_backward;
	most = peak_that_fits(j, u, state_to_come(j, c, u, true));
	c->part = (c->batch + parts - 1) / parts;
	while (j->lacking && peak_with(j, c, u, true) > most && 2 * parts <= c->batch) {
		parts *= 2;
		c->part = (c->batch + parts - 1) / parts;
	}
	a->fits = peak_with(j, c, u, true) <= most;
	kept = find_saving(j, a, c, u, true);
	advice_at_program(j, a, j->blocks.block[c->input].life.birth.stack);
	site = fact_if(a->has_site, fact_site("site", &a->site));
	each = fact_count("part", c->part);
	a->title = SAID(accumulation_parts, fact_count("parts", parts), each, site);
	a->action = SAID(accumulation_action, fact_count("batch", c->batch), fact_count("parts", parts), each,
			 fact_flag("is_at_most", c->batch % c->part), site);
	is_of_logits = u->vocabulary && !u->in_backward;
	vocabulary = fact_if(is_of_logits, fact_count("vocabulary", u->vocabulary));
	more = fact_if(is_of_logits, fact_bytes("kept", kept));
	after = fact_bytes("after", a->after_bytes);
	a->evidence = u->is_unknown ?
			      SAID(accumulation_shrinks_request, fact_count("parts", parts), vocabulary, more, after) :
			      SAID(accumulation_shrinks_peak, fact_count("parts", parts), vocabulary, more, after);
	a->cost = SAID(accumulation_calls, fact_count("parts", parts));
	return true;
}

bool advice_accumulation(const struct jobpart *j, struct advice *a)
{
	struct batchcut c;
	struct unseen u;
	bool found;

	if (!batchcut_init(&c, j))
		return false;
	unseen_find(&u, j, &c);
	found = in_parts(j, a, &c, &u);
	unseen_release(&u);
	return found;
}

/* ---- what fits ------------------------------------------------------------------------------- */

/* The largest part, a multiple of `step`, that fits; 0: none does. */
static uint64_t find_part(const struct jobpart *j, struct batchcut *c, const struct unseen *u, uint64_t step,
			  uint64_t more)
{
	uint64_t low = 0, high = (c->whole + step - 1) / step;

	while (high - low > 1) { /* low fits, or is 0; high does not */
		uint64_t mid = low + (high - low) / 2;

		c->part = mid * step;
		if (peak_with(j, c, u, false) <= peak_that_fits(j, u, more))
			low = mid;
		else
			high = mid;
	}
	return low * step;
}

/* What the figure knows of: what was seen, the rest of forward, and what was left free. */
static void tell_fit(struct advice *a, const struct unseen *u, uint64_t kept, uint64_t more)
{
	uint32_t left = u->nr_layers ? u->nr_layers - 1 - u->layer : 0;
	bool is_of_logits = u->vocabulary && !u->in_backward;

	if (u->is_unknown)
		a->evidence = SAID(larger_does_not_fit, fact_bytes("after", a->after_bytes));
	else
		a->evidence = SAID(largest_that_fits, fact_bytes("after", a->after_bytes),
				   fact_if(left, fact_count("layers", left)),
				   fact_if(is_of_logits, fact_count("vocabulary", u->vocabulary)),
				   fact_if(is_of_logits, fact_bytes("kept", kept)), fact_count("room_percent", ROOM_PERCENT),
				   fact_if(more, fact_bytes("state", more / 100 * STATE_PERCENT)),
				   fact_flag("is_state_unseen", !more && u->state_bytes));
}

static bool find_fit(const struct jobpart *j, struct advice *a, struct batchcut *c, struct unseen *u)
{
	uint64_t step = c->of_length ? LENGTH_STEP : 1, more, part, kept;

	c->whole = c->of_length ? c->length : c->batch;
	a->of_forward = a->fits = !u->is_unknown;
	a->of_backward = u->in_backward;
	more = state_to_come(j, c, u, false);
	part = find_part(j, c, u, step, more);
	if (!part)
		return false;
	c->part = part;
	kept = find_saving(j, a, c, u, false);
	advice_at_program(j, a, j->blocks.block[c->input].life.birth.stack);
	tell_fit(a, u, kept, more);
	return true;
}

/* Says "batch [at most] 19 instead of 48 at train.py:12", or the like of lengths, and so what to do. */
static bool advise_cut(const struct jobpart *j, struct advice *a, struct batchcut *c)
{
	struct fact at_most, part, whole, site;
	struct unseen u;
	bool found;

	unseen_find(&u, j, c);
	found = find_fit(j, a, c, &u);
	at_most = fact_flag("is_at_most", u.is_unknown);
	unseen_release(&u);
	if (!found)
		return false;
	part = fact_count("part", c->part);
	whole = fact_count("whole", c->whole);
	site = fact_if(a->has_site, fact_site("site", &a->site));
	if (c->of_length) {
		a->title = SAID(shorter_samples, at_most, part, whole, site);
		a->action = SAID(shorter_samples_action, at_most, part, whole, site);
	} else {
		a->title = SAID(smaller_batch, at_most, part, whole, site);
		a->action = SAID(smaller_batch_action, at_most, part, whole, site);
	}
	return true;
}

bool advice_smaller_batch(const struct jobpart *j, struct advice *a)
{
	struct batchcut c;

	if (!j->lacking || !batchcut_init(&c, j) || c.batch < 2)
		return false;
	a->cost = SAID(smaller_batch_cost, NO_FACTS);
	return advise_cut(j, a, &c);
}

/* Without training the window is all calls of the model: the length of each is not that of what they leave together. */
static bool is_of_many_calls(const struct jobpart *j, const struct batchcut *c)
{
	uint32_t nr = 0;

	for (size_t i = 0; i < j->blocks.nr_blocks; i++)
		nr += j->blocks.block[i].category == CATEGORY_INPUT && j->key[i] == j->key[c->input];
	return nr > 1 && jobpart_is_inference(j);
}

bool advice_shorter(const struct jobpart *j, struct advice *a)
{
	struct batchcut c;

	if (!j->lacking || !batchcut_init(&c, j) || !c.length || is_of_many_calls(j, &c))
		return false;
	c.of_length = true;
	a->cost = SAID(shorter_samples_cost, NO_FACTS);
	return advise_cut(j, a, &c);
}
