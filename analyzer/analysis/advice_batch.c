/* SPDX-License-Identifier: MIT */
/* Advice about the batch: in parts whose gradients add up, or smaller. */
#include <inttypes.h>

#include "analyzer/analysis/advice.h"
#include "analyzer/ui/human.h"

/* The size of the batch by what was put in: of most bytes of input the first dimension; 0 = not known. */
static uint64_t batch_of(const struct advice_job *j, size_t *input)
{
	uint64_t batch = 0, most = 0;

	for (size_t i = 0; i < j->blocks.nr_blocks; i++) {
		const struct category_block *b = &j->blocks.block[i];

		if (b->category != CATEGORY_INPUT || b->life.birth.ordinal < j->from || b->life.birth.ordinal > j->to ||
		    !j->shape[i].nr_dims || b->life.size <= most)
			continue;
		most = b->life.size;
		batch = j->shape[i].dims[0];
		*input = i;
	}
	return batch;
}

/* Does the block hold something of each sample? Of these a smaller batch has less. */
static bool follows_batch(const struct advice_job *j, size_t i, uint64_t batch)
{
	const struct category_block *b = &j->blocks.block[i];
	const struct tfmt_shape *s = &j->shape[i];

	if (b->life.birth.ordinal < j->from || !s->nr_dims || b->life.birth.phase == PHASE_OPTIMIZER ||
	    b->life.birth.phase == PHASE_INIT)
		return false;
	if (b->category != CATEGORY_ACTIVATION && b->category != CATEGORY_INPUT && b->category != CATEGORY_TEMPORARY)
		return false;
	if (advice_fits_parameter(j, i))
		return false;
	return s->dims[0] % batch == 0 || (s->nr_dims > 1 && s->dims[1] == batch);
}

/* Does the request that failed follow it, too? It does where forward or backward asked, but for a gradient's size. */
static struct replay without_request(const struct advice_job *j, uint64_t part, uint64_t batch)
{
	struct replay r = { .from = advice_time(j->from), .to = advice_time(j->to) };

	if (j->asked)
		replay_add(&r, r.to, REPLAY_END, replay_rounded(j->asked * part / batch));
	return r;
}

/*
 * The peak with `part` samples of `batch` at a time. If gradients of several parts add up, they are there from the
 * beginning, and what backward makes is another one of each, for a moment.
 */
static uint64_t peak_with(const struct advice_job *j, uint64_t part, uint64_t batch, bool adds_up)
{
	struct replay r = without_request(j, part, batch);

	for (size_t i = 0; i < j->blocks.nr_blocks; i++) {
		const struct category_block *b = &j->blocks.block[i];
		uint64_t from = advice_time(b->life.birth.ordinal), to = advice_time(b->life.death.ordinal);

		if (follows_batch(j, i, batch)) {
			replay_add(&r, from, to, replay_rounded(b->life.size * part / batch));
		} else if (adds_up && b->category == CATEGORY_GRADIENT && advice_is_born(j, i, PHASE_BACKWARD)) {
			replay_add(&r, advice_time(j->from), to, b->life.size);
			replay_add(&r, from, from + REPLAY_SCALE, b->life.size);
		} else {
			advice_keep(&r, j, i);
		}
	}
	return advice_peak(j, &r);
}

/* What would have served the request, by the figures of the driver. */
static uint64_t peak_that_fits(const struct advice_job *j)
{
	return j->lacking < j->peak ? j->peak - j->lacking : j->peak;
}

bool advice_accumulation(const struct advice_job *j, struct advice *a)
{
	char peak[HUMAN_MAX], where[64];
	size_t input = 0;
	uint64_t batch = batch_of(j, &input), parts = 2, part;

	if (batch < 2)
		return false;
	part = (batch + parts - 1) / parts;
	a->after_bytes = peak_with(j, part, batch, true);
	while (j->lacking && a->after_bytes > peak_that_fits(j) && 2 * parts <= batch) {
		parts *= 2;
		part = (batch + parts - 1) / parts;
		a->after_bytes = peak_with(j, part, batch, true);
	}
	advice_at_stack(j, a, j->blocks.block[input].life.birth.stack);
	advice_where(where, sizeof(where), a);
	advice_title(a, "%" PRIu64 " x batch %" PRIu64 ", accumulated%s", parts, part, where);
	advice_action(a, "take the batch of %" PRIu64 "%s in %" PRIu64 " parts of %" PRIu64 ": (loss / %" PRIu64
			 ").backward() for each, then one optimizer.step()", batch, where, parts, part, parts);
	advice_evidence(a, "what follows the batch in size is %" PRIu64 " times smaller, gradients are there throughout: "
			   "the peak would be %s", parts, human_bytes(peak, a->after_bytes));
	advice_cost(a, "%" PRIu64 " calls of the model for each step instead of 1; BatchNorm sees parts", parts);
	return true;
}

bool advice_smaller_batch(const struct advice_job *j, struct advice *a)
{
	char peak[HUMAN_MAX], where[64];
	size_t input = 0;
	uint64_t batch = batch_of(j, &input), low = 0, high = batch;

	if (batch < 2 || !j->lacking)
		return false;
	while (high - low > 1) { /* low fits, or is 0; high does not */
		uint64_t mid = low + (high - low) / 2;

		if (peak_with(j, mid, batch, false) <= peak_that_fits(j))
			low = mid;
		else
			high = mid;
	}
	if (!low)
		return false;
	a->after_bytes = peak_with(j, low, batch, false);
	advice_at_stack(j, a, j->blocks.block[input].life.birth.stack);
	advice_where(where, sizeof(where), a);
	advice_title(a, "batch %" PRIu64 " instead of %" PRIu64 "%s", low, batch, where);
	advice_action(a, "a batch of %" PRIu64 " instead of %" PRIu64 "%s", low, batch, where);
	advice_evidence(a, "the largest with which this request would have fitted: %s allocated; what comes behind it "
			   "in the step was not seen", human_bytes(peak, a->after_bytes));
	advice_cost(a, "each step sees fewer samples: other results");
	return true;
}
