/* SPDX-License-Identifier: MIT */
/* Causes: this rank needs more than the others of its job, or keeps gradients twice for them. */
#include <string.h>

#include "analyzer/oom/autopsy_causes.h"
#include "analyzer/oom/oom_thresholds.h"

/* By its environment; else, as where a program starts its own ranks, by what it has told NCCL. -1: none. */
static int64_t rank_of(const struct replay_process *p)
{
	return p->rank >= 0 ? p->rank : communicators_rank(books_communicators(p->books));
}

/* The device on which a process held most. */
static const struct replay_device *main_device(const struct replay *m, const struct replay_process *p)
{
	const struct replay_device *most = NULL;

	for (size_t i = 0; i < m->nr_devices; i++)
		if (m->device[i].process == p &&
		    (!most || m->device[i].books->allocated_peak_bytes > most->books->allocated_peak_bytes))
			most = &m->device[i];
	return most;
}

/* Has it been as far as the one that failed, so that its peak can be compared? */
static bool has_been_there(const struct autopsy *a, const struct replay_process *p)
{
	const struct lives *here = a->device->process->lives;
	const struct failure *x = a->failure;
	const struct steps *steps;

	if (!p->lives)
		return false;
	if (p->end == REPLAY_END_EXIT && !p->summary->exit_status)
		return true;
	steps = &p->lives->steps;
	if (!x->nr_begun && !steps->nr_backwards) /* inference: there is only forward to go by */
		return p->lives->now.nr_forwards >= AS_FAR * here->now.nr_forwards;
	return steps->nr_backwards > x->nr_begun || (x->phase == PHASE_BACKWARD && steps->nr_ended >= x->nr_begun);
}

/*
 * Has it begun the backward pass that the other failed in, and not come out of it, as where it waits for gradients of the
 * other? Then it has made the same forward.
 */
static bool has_made_forward(const struct replay_process *p, const struct failure *x)
{
	return p->lives && x->phase == PHASE_BACKWARD && x->nr_begun &&
	       p->lives->steps.nr_backwards >= x->nr_begun;
}

static uint64_t forward_bytes(const struct replay_device *d)
{
	const struct lives_device *of = d->process->lives->device[d->ordinal];

	return of ? of->moment[LIVES_PEAK_OF_PHASE + PHASE_FORWARD].bytes : 0;
}

/* The ranks beside that of the failure that can be compared, by what they needed at all, or in forward. */
struct others {
	const struct replay_device *largest; /* NULL: there are none */
	uint64_t bytes;
	uint32_t nr;
};

static struct others find_others(const struct autopsy *a, bool in_forward)
{
	struct others others = { 0 };

	for (size_t i = 0; i < a->replay->nr_processes; i++) {
		const struct replay_process *p = &a->replay->process[i];
		int64_t rank = rank_of(p);
		const struct replay_device *d =
			rank >= 0 && rank != rank_of(a->device->process) ? main_device(a->replay, p) : NULL;
		uint64_t bytes;

		if (!d || !(in_forward ? has_made_forward(p, a->failure) : has_been_there(a, p)))
			continue;
		bytes = in_forward ? forward_bytes(d) : d->books->allocated_peak_bytes;
		others.nr++;
		if (others.largest && bytes <= others.bytes)
			continue;
		others.largest = d;
		others.bytes = bytes;
	}
	return others;
}

/* The category of which this one has most more than the other had at its peak; false: not known. */
static bool find_difference(const struct autopsy *a, const struct replay_device *other, enum category *category,
			    uint64_t *here, uint64_t *there)
{
	enum phase phase = lives_peak_phase(other->process->lives, other->ordinal);
	struct categories c = CATEGORIES_INIT;
	int64_t most = 0;

	if (phase != NR_PHASES)
		categories_find(&c, other->process, other->ordinal, (enum lives_moment)(LIVES_PEAK_OF_PHASE + phase),
				other->books->allocated_peak_bytes);
	if (phase != NR_PHASES)
		for (int i = 0; i < NR_CATEGORIES; i++) {
			int64_t more = (int64_t)a->categories.sum[i].bytes - (int64_t)c.sum[i].bytes;

			if (more <= most)
				continue;
			most = more;
			*category = (enum category)i;
			*here = a->categories.sum[i].bytes;
			*there = c.sum[i].bytes;
		}
	categories_release(&c);
	return most > 0;
}

/*
 * Did this rank hold so much more when its step began that all of its step could be as the other's? Both by how much was
 * allocated when a step of the same number began.
 */
static bool was_ahead(const struct autopsy *a, const struct replay_device *other, uint64_t more)
{
	const struct lives *here = a->device->process->lives, *there = other->process->lives;
	uint64_t mine, its;

	return a->step && lives_step_bytes(here, a->device->ordinal, a->step - 1, &mine) &&
	       lives_step_bytes(there, other->ordinal, a->step - 1, &its) && mine > its && mine - its >= a->lacking &&
	       2 * (mine - its) >= more;
}

/* The place with most of a category. */
static void at_category(const struct autopsy *a, struct autopsy_finding *f, enum category c)
{
	size_t most = 0;

	for (size_t i = 1; i < a->nr_places; i++)
		if (a->place[i].category[c] > a->place[most].category[c])
			most = i;
	if (a->nr_places)
		autopsy_at_place(a, f, most);
}

bool autopsy_is_rank_imbalance(const struct autopsy *a, struct autopsy_finding *f)
{
	uint64_t needed = a->failure->allocated + a->failure->asked, here, there;
	bool in_forward = false;
	enum category category;
	struct others others;

	if (rank_of(a->device->process) < 0 || a->failure->is_library)
		return false;
	others = find_others(a, false);
	if (!others.largest) {
		in_forward = true;
		others = find_others(a, true);
		needed = others.largest ? forward_bytes(a->device) : 0;
	}
	if (needed <= others.bytes || needed - others.bytes < a->lacking ||
	    needed - others.bytes < needed / IMBALANCE_PART)
		return false;
	f->bytes = needed - others.bytes;
	f->comes_first = was_ahead(a, others.largest, f->bytes);
	autopsy_at_request(a, f);
	autopsy_say(f, SAID(rank_needs_more, fact_count("rank", (uint64_t)rank_of(a->device->process)),
			    fact_bytes("needed", needed), fact_flag("in_forward", in_forward),
			    fact_bytes("needed_elsewhere", others.bytes)));
	if (find_difference(a, others.largest, &category, &here, &there)) {
		at_category(a, f, category);
		autopsy_evidence(f, SAID(rank_difference, fact_name("category", category_names[category]),
					 fact_bytes("here", here), fact_bytes("there", there),
					 fact_count("rank", (uint64_t)rank_of(others.largest->process))));
	}
	if (in_forward)
		autopsy_evidence(f, SAID(ranks_in_same_pass, fact_count("ranks", others.nr)));
	else
		autopsy_evidence(f, SAID(ranks_beyond, fact_count("ranks", others.nr)));
	return true;
}

/* ---- buckets --------------------------------------------------------------------------------- */

/* Was the block made by DistributedDataParallel for what it reduces? */
static bool is_bucket(const struct autopsy *a, struct stack *stack, size_t block)
{
	struct stack_source source = replay_stack_source(a->replay, a->device->process);

	if (a->categories.block[block].category != CATEGORY_COMMUNICATION)
		return false;
	stack_expand(stack, &source, autopsy_group(a, block)->python_stack, 0);
	for (uint32_t i = 0; i < stack->nr_frames; i++)
		if (stack->frame[i].python && stack->frame[i].file &&
		    strstr(stack->frame[i].file, "torch/nn/parallel/distributed.py"))
			return true;
	return false;
}

/*
 * Has every gradient been made that there will be? While parameters are updated, or before any update, once a backward
 * pass is through.
 */
static bool are_gradients_made(const struct autopsy *a)
{
	const struct failure *x = a->failure;

	if (x->phase == PHASE_OPTIMIZER)
		return true;
	return x->nr_begun && x->phase != PHASE_BACKWARD &&
	       !steps_begun(&a->device->process->lives->steps.updated, x->ordinal);
}

bool autopsy_is_ddp_buckets(const struct autopsy *a, struct autopsy_finding *f)
{
	uint64_t buckets = 0, gradients = a->categories.sum[CATEGORY_GRADIENT].bytes, twice, idle = 0;
	struct stack stack = { 0 };
	int64_t largest = -1;

	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct category_block *b = &a->categories.block[i];

		if (!is_bucket(a, &stack, i))
			continue;
		buckets += b->life.size;
		if (largest < 0 || b->life.size > a->categories.block[largest].life.size)
			largest = (int64_t)i;
	}
	stack_release(&stack);
	/* Where gradients are views into the buckets, there are hardly any of their own. */
	twice = buckets < gradients ? buckets : gradients;
	if (are_gradients_made(a) && twice > buckets / BUCKETS_COPIED_PART &&
	    buckets > gradients + gradients / BUCKETS_IDLE_PART)
		idle = buckets - gradients;
	f->bytes = twice + idle;
	if (largest < 0 || f->bytes < a->lacking || f->bytes < a->failure->allocated / BUCKETS_MATTER_PART)
		return false;
	autopsy_at_place(a, f, a->block[largest].place);
	autopsy_say(f, SAID(ddp_gradients_twice, fact_bytes("gradients", gradients), fact_bytes("buckets", buckets),
			    fact_if(idle, fact_bytes("idle", idle))));
	autopsy_advise(f, SAID(ddp_view_advice, fact_bytes("twice", twice)));
	if (idle)
		autopsy_advise(f, SAID(ddp_idle_advice, fact_bytes("idle", idle)));
	return true;
}
