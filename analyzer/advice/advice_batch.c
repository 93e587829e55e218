/* SPDX-License-Identifier: MIT */
/* Advice about the batch: in parts whose gradients add up, smaller, or of shorter samples. */
#include <inttypes.h>
#include <stdio.h>

#include "analyzer/advice/advice_kinds.h"
#include "analyzer/advice/unseen.h"
#include "analyzer/base/human.h"

#define ROOM_PERCENT 15 /* of what can be had: what jobs of other batches had in pieces was up to 14% */
#define STATE_PERCENT 130 /* of optimizer state: up to a third more of it, which the first update lays between pieces */
#define LENGTH_STEP 8 /* lengths are advised in multiples of it */

/*
 * The peak of one part. If gradients of several parts add up, they are there from the beginning, and what backward
 * makes is another one of each, for a moment.
 */
static uint64_t peak_of_part(const struct advice_job *j, const struct batchcut *c, const struct unseen *u, bool adds_up)
{
	struct blockreplay r = { .from = advice_time(j->from), .to = advice_time(j->to) };
	uint64_t gradients = adds_up ? unseen_gradients(j) : 0;

	if (j->asked)
		blockreplay_add(&r, r.to, BLOCKREPLAY_END,
				batchcut_asked(c, j) + unseen_bytes(u, j, c, gradients));
	for (size_t i = 0; i < j->blocks.nr_blocks; i++) {
		const struct category_block *b = &j->blocks.block[i];
		uint64_t from = advice_time(b->life.birth.ordinal), to = advice_time(b->life.death.ordinal);

		if (adds_up && b->category == CATEGORY_GRADIENT && advice_is_born(j, i, PHASE_BACKWARD)) {
			blockreplay_add(&r, advice_time(j->from), to, b->life.size);
			blockreplay_add(&r, from, from + BLOCKREPLAY_SCALE, b->life.size);
		} else {
			blockreplay_add(&r, from, to, batchcut_size(c, j, i));
		}
	}
	if (adds_up)
		blockreplay_add(&r, r.from, BLOCKREPLAY_END, gradients);
	return advice_peak(j, &r);
}

/*
 * The peak with this cut. Of two parts of an odd batch the first is the larger one, and the second one's gradients
 * alone are added to others.
 */
static uint64_t peak_with(const struct advice_job *j, const struct batchcut *c, const struct unseen *u, bool adds_up)
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
static uint64_t peak_that_fits(const struct advice_job *j, const struct unseen *u, uint64_t more)
{
	uint64_t most = (j->peak - j->lacking) / 100 * (100 - ROOM_PERCENT);

	if (u->is_unknown)
		most = j->peak - j->lacking + j->cached;
	more = more / 100 * STATE_PERCENT;
	return most > more ? most - more : 0;
}

/* State of the optimizer to leave room for: none if nothing fits beside it, as where most parameters are frozen. */
static uint64_t state_to_come(const struct advice_job *j, struct batchcut *c, const struct unseen *u, bool adds_up)
{
	c->part = 1;
	return peak_with(j, c, u, adds_up) <= peak_that_fits(j, u, u->state_bytes) ? u->state_bytes : 0;
}

/* Before and after the cut, as where logits go before backward begins. Returns what it saves beside where they stay. */
static uint64_t find_saving(const struct advice_job *j, struct advice *a, struct batchcut *c, struct unseen *u,
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

static bool in_parts(const struct advice_job *j, struct advice *a, struct batchcut *c, struct unseen *u)
{
	char peak[HUMAN_MAX], size[HUMAN_MAX], where[64], logits[96] = "";
	uint64_t parts = 2, most, kept;
	const char *at_most;

	if (c->batch < 2)
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
	advice_where(where, sizeof(where), a);
	advice_title(a, "%" PRIu64 " x batch %" PRIu64 ", accumulated%s", parts, c->part, where);
	at_most = c->batch % c->part ? "at most " : "";
	advice_action(a, "take the batch of %" PRIu64 "%s in %" PRIu64 " parts of %s%" PRIu64 ": (loss / %" PRIu64
			 ").backward() for each, then one optimizer.step()", c->batch, where, parts, at_most, c->part,
		      parts);
	if (u->vocabulary && !u->in_backward)
		snprintf(logits, sizeof(logits), " (of logits over %" PRIu64 " words, %s more if kept)", u->vocabulary,
			 human_bytes(size, kept));
	advice_evidence(a, "what follows the batch in size is %" PRIu64 " times smaller%s, gradients are there "
			   "throughout: %s would be %s", parts, logits,
			u->is_unknown ? "up to the request that failed it" : "the peak",
			human_bytes(peak, a->after_bytes));
	advice_cost(a, "%" PRIu64 " calls of the model for each step instead of 1; BatchNorm sees parts", parts);
	return true;
}

bool advice_accumulation(const struct advice_job *j, struct advice *a)
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
static uint64_t find_part(const struct advice_job *j, struct batchcut *c, const struct unseen *u, uint64_t step,
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
	char peak[HUMAN_MAX], size[HUMAN_MAX], layers[64] = "", logits[96] = "", state[96] = "";
	uint32_t left = u->nr_layers ? u->nr_layers - 1 - u->layer : 0;

	if (u->is_unknown) {
		advice_evidence(a, "no larger one fits: %s allocated, up to the request that failed; what the step "
				   "needs after it was not seen", human_bytes(peak, a->after_bytes));
		return;
	}
	if (left)
		snprintf(layers, sizeof(layers), ", %" PRIu32 " layers that were not reached", left);
	if (u->vocabulary && !u->in_backward)
		snprintf(logits, sizeof(logits), ", logits over %" PRIu64 " words (kept, they save %s more)",
			 u->vocabulary, human_bytes(size, kept));
	if (more)
		snprintf(state, sizeof(state), " and %s for optimizer state as of Adam, with what lies between",
			 human_bytes(size, more / 100 * STATE_PERCENT));
	else if (u->state_bytes)
		snprintf(state, sizeof(state), "; what the optimizer keeps was not seen");
	advice_evidence(a, "the largest that fits: %s allocated%s%s, and %d%% left for fragmentation%s",
			human_bytes(peak, a->after_bytes), layers, logits, ROOM_PERCENT, state);
}

static bool find_fit(const struct advice_job *j, struct advice *a, struct batchcut *c, struct unseen *u)
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

/* Says "TITLE [at most] 19 instead of 48 at train.py:12", and so, after ACTION, what to do. */
static bool advise_cut(const struct advice_job *j, struct advice *a, struct batchcut *c, const char *title,
		       const char *action)
{
	char where[64];
	const char *most;
	struct unseen u;
	bool found;

	unseen_find(&u, j, c);
	found = find_fit(j, a, c, &u);
	most = u.is_unknown ? " at most" : "";
	unseen_release(&u);
	if (!found)
		return false;
	advice_where(where, sizeof(where), a);
	advice_title(a, "%s%s %" PRIu64 " instead of %" PRIu64 "%s", title, most, c->part, c->whole, where);
	advice_action(a, "%s%s %" PRIu64 " instead of %" PRIu64 "%s", action, most, c->part, c->whole, where);
	return true;
}

bool advice_smaller_batch(const struct advice_job *j, struct advice *a)
{
	struct batchcut c;

	if (!j->lacking || !batchcut_init(&c, j) || c.batch < 2)
		return false;
	advice_cost(a, "each step sees fewer samples: other results");
	return advise_cut(j, a, &c, "batch", "take a batch of");
}

/* Without training the window is all calls of the model: the length of each is not that of what they leave together. */
static bool is_of_many_calls(const struct advice_job *j, const struct batchcut *c)
{
	uint32_t nr = 0;

	for (size_t i = 0; i < j->blocks.nr_blocks; i++)
		nr += j->blocks.block[i].category == CATEGORY_INPUT && j->key[i] == j->key[c->input];
	return nr > 1 && advice_is_inference(j);
}

bool advice_shorter(const struct advice_job *j, struct advice *a)
{
	struct batchcut c;

	if (!j->lacking || !batchcut_init(&c, j) || !c.length || is_of_many_calls(j, &c))
		return false;
	c.of_length = true;
	advice_cost(a, "the ends of longer samples are not seen: other results");
	return advise_cut(j, a, &c, "length", "cut samples to a length of");
}
