/* SPDX-License-Identifier: MIT */
/* Causes: a batch, or one tensor, that is larger than in the steps before. */
#include <string.h>

#include "analyzer/allocator/torch.h"
#include "analyzer/oom/autopsy_causes.h"
#include "analyzer/oom/oom_thresholds.h"
#include "analyzer/stacks/element.h"
#include "analyzer/stacks/sourceline.h"

/* The step in which memory ran out, or without steps the call of the model. */
static uint64_t began(const struct autopsy *a)
{
	return a->step ? a->step_ordinal : a->call_ordinal;
}

static uint64_t before(const struct autopsy *a, uint32_t python_stack)
{
	return failures_largest_before(a->failures, a->device->process, python_stack, began(a));
}

/* Blocks of this step or call whose stack has made less than half of it before. */
static bool is_larger(const struct autopsy *a, size_t i, uint64_t *was)
{
	const struct life *life = &a->categories.block[i].life;

	if (life->birth.ordinal < began(a))
		return false;
	*was = before(a, autopsy_group(a, i)->python_stack);
	return life->size >= LARGER_TIMES * *was;
}

/*
 * The largest batch before, of a block of so many bytes: the allocator may have left it a piece more than was asked
 * for. NULL = not known.
 */
static const struct stepinputs_change *batch_before(const struct autopsy *a, size_t block, uint64_t was)
{
	const struct stepinputs_device *d = stepinputs_of(&a->failures->inputs, a->device->process->books, a->device->ordinal);
	const struct stepinputs_change *most = NULL;

	for (uint32_t i = 0; d && i < d->nr_places; i++) {
		const struct stepinputs_place *p = &d->place[i];

		if (p->python_stack != autopsy_group(a, block)->python_stack)
			continue;
		for (uint32_t k = 0; k < p->nr_changes && p->change[k].ordinal < a->step_ordinal; k++)
			most = !most || p->change[k].bytes > most->bytes ? &p->change[k] : most;
	}
	return most && most->bytes <= was && was - most->bytes < TORCH_REST_MAX ? most : NULL;
}

/* As many rows as before or fewer, each longer: all are as long as the longest. */
static bool has_longer_rows(const struct tfmt_shape *is, const struct stepinputs_change *was)
{
	if (!was || is->nr_dims < 2 || is->nr_dims != was->nr_dims || is->dims[0] < 2 || is->dims[0] > was->dims[0] ||
	    is->dims[1] <= was->dims[1])
		return false;
	for (uint32_t i = 2; i < is->nr_dims; i++)
		if (is->dims[i] != was->dims[i])
			return false;
	return true;
}

/* What is to be done about this batch alone: others fitted. `saved`: with one as large as the largest before. */
static void advise_as_before(struct autopsy_finding *f, const struct tfmt_shape *is, const struct stepinputs_change *exact,
			     uint64_t was, uint64_t saved)
{
	struct fact site = fact_site("site", &f->site);

	if (has_longer_rows(is, exact)) {
		autopsy_evidence_first(f, SAID(larger_rows_are_longer, fact_count("rows", is->dims[0]),
					       fact_count("length", is->dims[1]), fact_count("length_before", exact->dims[1])));
		autopsy_advise(f, SAID(larger_rows_advice, fact_count("length_before", exact->dims[1]), site,
				       fact_bytes("saved", saved)));
	} else {
		autopsy_advise(f, SAID(larger_batch_advice, fact_bytes("before", was), site, fact_bytes("saved", saved)));
	}
}

/* The longest batch of a place before this step that had as many rows or more; 0: there was none, or it had another shape otherwise. */
static uint64_t longest_before(const struct autopsy *a, const struct stepinputs_place *p, const struct tfmt_shape *is)
{
	uint64_t longest = 0;

	for (uint32_t i = 0; i < p->nr_changes && p->change[i].ordinal < a->step_ordinal; i++)
		if (has_longer_rows(is, &p->change[i]) && p->change[i].dims[1] > longest)
			longest = p->change[i].dims[1];
	return longest;
}

void autopsy_say_longer_rows(const struct autopsy *a, struct autopsy_finding *f)
{
	const struct stepinputs_device *d = stepinputs_of(&a->failures->inputs, a->device->process->books, a->device->ordinal);
	struct tfmt_shape is = { .nr_dims = a->shape.nr_dims, .dims = a->shape.dims };
	uint64_t longest = 0, dims[STEPINPUTS_DIMS];
	double less;

	for (uint32_t i = 0; d && i < d->nr_places && !longest; i++)
		if (d->place[i].python_stack == a->shape.python_stack)
			longest = longest_before(a, &d->place[i], &is);
	if (!longest || is.dims[1] < LARGER_TIMES * longest)
		return;
	memcpy(dims, a->shape.dims, sizeof(dims));
	dims[1] = longest;
	less = shapefit_at(&a->shape, a->shape.dims) - shapefit_at(&a->shape, dims);
	autopsy_evidence(f, SAID(larger_rows_are_longer, fact_count("rows", is.dims[0]), fact_count("length", is.dims[1]),
				 fact_count("length_before", longest)));
	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		if (autopsy_group(a, i)->python_stack != a->shape.python_stack)
			continue;
		autopsy_advise(f, SAID(larger_rows_advice, fact_count("length_before", longest),
				       fact_site("site", &a->place[a->block[i].place].frame),
				       fact_bytes("saved", less > 0 ? (uint64_t)less : 0)));
		return;
	}
}

/*
 * Without steps: a call of the model with more than in all before. What it was given need not be there any more: how much more
 * tells what was asked for.
 */
static bool is_larger_call(const struct autopsy *a, struct autopsy_finding *f)
{
	uint64_t was = a->calls > STEPS_BEFORE_MIN ? before(a, a->failure->python_stack) : 0, bytes = a->failure->asked, saved, one;

	if (!was || a->failure->asked < LARGER_TIMES * was)
		return false;
	saved = a->failure->asked - was;
	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		if (!is_larger(a, i, &one) || !one)
			continue;
		bytes += a->categories.block[i].life.size;
		saved += a->categories.block[i].life.size - one;
	}
	if (!autopsy_matters(a, bytes))
		return false;
	f->bytes = bytes;
	f->is_out_of_line = a->calls >= OUT_OF_LINE_STEPS;
	autopsy_at_request(a, f);
	if (autopsy_call_line(a, a->failure->python_stack, &f->caller))
		f->has_caller = true;
	autopsy_say(f, SAID(larger_call, fact_ratio("times", (double)a->failure->asked / (double)was), fact_bytes("bytes", bytes)));
	autopsy_evidence(f, SAID(larger_request, fact_bytes("asked", a->failure->asked), fact_bytes("before", was)));
	autopsy_advise_enlarged(a, f);
	autopsy_advise(f, SAID(larger_call_advice, fact_site("site", f->has_caller ? &f->caller : &f->site),
			       fact_bytes("saved", saved)));
	return true;
}

bool autopsy_is_larger_input(const struct autopsy *a, struct autopsy_finding *f)
{
	const struct stepinputs_change *exact;
	uint64_t bytes = 0, saved = 0, was, best_was = 0;
	char shape[SHAPE_TEXT_MAX];
	int64_t best = -1;

	if (autopsy_is_uncontracted(a))
		return false;
	if (!a->step)
		return is_larger_call(a, f);
	if (a->step <= STEPS_BEFORE_MIN ||
	    (a->failure->phase != PHASE_FORWARD && a->failure->phase != PHASE_BACKWARD))
		return false;
	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct category_block *b = &a->categories.block[i];

		if (!is_larger(a, i, &was) || !was)
			continue;
		bytes += b->life.size;
		saved += b->life.size - was;
		if (b->category == CATEGORY_INPUT && a->block[i].is_shaped &&
		    a->block[i].shape.nr_dims >= 1 &&
		    (best < 0 || b->life.size > a->categories.block[best].life.size)) {
			best = (int64_t)i;
			best_was = was;
		}
	}
	was = before(a, a->failure->python_stack);
	if (was && a->failure->asked >= LARGER_TIMES * was) {
		bytes += a->failure->asked;
		saved += a->failure->asked - was;
	}
	if (best < 0 || !autopsy_matters(a, bytes))
		return false;
	f->bytes = bytes;
	f->is_out_of_line = a->step >= OUT_OF_LINE_STEPS;
	exact = batch_before(a, (size_t)best, best_was);
	best_was = exact ? exact->bytes : best_was;
	autopsy_at_place(a, f, a->block[best].place);
	autopsy_say(f, SAID(larger_batch, fact_step("step", a->step), fact_flag("is_at_least", !exact),
			    fact_ratio("times", (double)a->block[best].shape.bytes / (double)best_was),
			    fact_bytes("bytes", bytes)));
	autopsy_evidence(f, SAID(larger_batch_shape, fact_name("shape", shape_text(shape, &a->block[best].shape)),
				 fact_bytes("bytes", a->categories.block[best].life.size), fact_bytes("before", best_was)));
	advise_as_before(f, &a->block[best].shape, exact, best_was, saved);
	autopsy_say_shape(a, f);
	if (was)
		autopsy_evidence(f, SAID(larger_request, fact_bytes("asked", a->failure->asked), fact_bytes("before", was)));
	return true;
}

void autopsy_say_larger(const struct autopsy *a, struct autopsy_finding *f)
{
	uint64_t was = a->step > STEPS_BEFORE_MIN && a->failure->phase == PHASE_FORWARD ? before(a, a->failure->python_stack) : 0;

	if (was && a->failure->asked >= LARGER_TIMES * was)
		autopsy_evidence(f, SAID(larger_step, fact_bytes("asked", a->failure->asked),
					 fact_ratio("times", (double)a->failure->asked / (double)was),
					 fact_count("steps", a->step - 1)));
}

/* Does the line hold some already that are about as large? Then the one that failed is not alone. */
static bool has_like_request(const struct autopsy *a)
{
	for (size_t i = 0; i < a->categories.nr_blocks; i++)
		if (autopsy_group(a, i)->python_stack == a->failure->python_stack &&
		    2 * a->categories.block[i].life.size >= a->failure->asked)
			return true;
	return false;
}

/* The most that was allocated at once at a line before this event, by whatever way the program came to it. */
static uint64_t before_at_line(const struct autopsy *a, const struct stack_frame *line, uint64_t ordinal)
{
	struct replay_process *process = a->device->process;
	struct stack_source source = replay_stack_source(a->replay, process);
	uint64_t most = 0, bytes;

	for (uint32_t i = 0; i < books_nr_groups(process->books) && line->file; i++) {
		const struct group *g = books_group(process->books, i);
		struct stack stack = { 0 };
		int site;

		bytes = g->tensor && g->device == a->device->ordinal
				? failures_largest_before(a->failures, process, g->python_stack, ordinal) : 0;
		if (bytes <= most)
			continue;
		stack_expand(&stack, &source, g->python_stack, 0);
		site = stack_site(&stack);
		if (site >= 0 && sourceline_is_same(&stack.frame[site], line))
			most = bytes;
		stack_release(&stack);
	}
	return most;
}

/* The event before which what this computation has made at a line so far, and still has, was not there: the request's, if it has nothing. */
static uint64_t computation_began(const struct autopsy *a, const struct stack_frame *line, uint64_t bytes, uint64_t ordinal)
{
	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct life *life = &a->categories.block[i].life;

		if (life->birth.ordinal < ordinal && LARGER_TIMES * life->size >= bytes &&
		    sourceline_is_same(&a->place[a->block[i].place].frame, line))
			ordinal = life->birth.ordinal;
	}
	return ordinal;
}

/* What one such tensor was made from is often as large. */
static void say_another(const struct autopsy *a, struct autopsy_finding *f, int64_t apart)
{
	const struct stack_frame *site = NULL;
	uint64_t most = 0, was;

	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		uint64_t bytes = a->categories.block[i].life.size;

		if ((int64_t)i == apart || bytes <= most || ANOTHER_PART * bytes < f->bytes || !is_larger(a, i, &was))
			continue;
		most = bytes;
		site = &a->place[a->block[i].place].frame;
	}
	if (apart >= 0 && a->failure->asked > most && ANOTHER_PART * a->failure->asked >= f->bytes) {
		most = a->failure->asked;
		site = &a->site;
	}
	if (site && site->file)
		autopsy_evidence(f, SAID(spike_has_another, fact_bytes("bytes", most), fact_site("site", site)));
}

/* Was the request for a tensor of the shape of one that steps before have left? It is a copy of that, as data that is shuffled. */
static void say_copied(const struct autopsy *a, struct autopsy_finding *f)
{
	struct tfmt_shape asked;
	struct named named;

	if (!a->failure->shape || !tfmt_reader_shape(a->device->process->reader, a->failure->shape, &asked))
		return;
	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct tfmt_shape *s = &a->block[i].shape;

		if (!a->block[i].is_shaped || a->categories.block[i].life.birth.ordinal >= a->step_ordinal || s->nr_dims != asked.nr_dims ||
		    s->element_type != asked.element_type || memcmp(s->dims, asked.dims, s->nr_dims * sizeof(*s->dims)) ||
		    !namedblocks_name(&named, a->device->process, &a->categories.block[i].life, LIVES_OOM) || !*named.name.text)
			continue;
		autopsy_evidence(f, SAID(spike_is_copy, fact_name("name", named.name.text)));
		autopsy_advise(f, SAID(spike_of_copy_advice, fact_name("name", named.name.text)));
		return;
	}
}

bool autopsy_is_spike(const struct autopsy *a, struct autopsy_finding *f)
{
	uint64_t was = before(a, a->failure->python_stack), most = 0, block_was = 0, rows, threes;
	struct stack_frame line;
	const char *function;
	int64_t best = -1;

	if (a->step <= STEPS_BEFORE_MIN || autopsy_is_uncontracted(a))
		return false;
	if (a->failure->asked >= LARGER_TIMES * was && !has_like_request(a))
		most = a->failure->asked;
	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		uint64_t one_was, bytes = a->categories.block[i].life.size;

		/* What was there before a request of the same size: that is often made from it. */
		if (bytes < most || (bytes == most && best >= 0) || !is_larger(a, i, &one_was) ||
		    a->place[a->block[i].place].bytes >= SPIKE_ALONE_TIMES * bytes)
			continue;
		most = bytes;
		block_was = one_was;
		best = (int64_t)i;
	}
	if (!most || most < a->lacking || most < a->capacity / SPIKE_PART)
		return false;
	f->bytes = most;
	if (best < 0)
		autopsy_at_request(a, f);
	else
		autopsy_at_place(a, f, a->block[best].place);
	/* A model's own line goes through in every step: what is out of line is who calls it. */
	f->has_caller |= autopsy_call_line_of_pass(a, best < 0 ? a->failure->python_stack : autopsy_group(a, best)->python_stack, &f->caller);
	was = best < 0 ? was : block_was;
	if (!was)
		was = before_at_line(a, &f->site, computation_began(a, &f->site, most, best < 0 ? a->failure->ordinal :
											   a->categories.block[best].life.birth.ordinal));
	rows = autopsy_square_of(a, best);
	threes = autopsy_cube_of(a, best);
	autopsy_say(f, SAID(spike_of_step, fact_step("step", a->step), fact_bytes("bytes", most),
			    fact_if(rows, fact_count("rows", rows)), fact_if(threes, fact_count("threes", threes))));
	if (was)
		autopsy_evidence(f, SAID(spike_was_less, fact_bytes("before", was),
					 fact_ratio("times", (double)most / (double)was)));
	else
		autopsy_evidence(f, SAID(spike_is_first, fact_count("steps", a->step - 1)));
	say_another(a, f, best);
	if (best < 0)
		say_copied(a, f);
	if (autopsy_has_chunks(a, best < 0 ? a->failure->python_stack : autopsy_group(a, best)->python_stack, &function, &line)) {
		f->caller = line;
		f->has_caller = true;
		autopsy_advise(f, SAID(chunks_advice, fact_name("function", function), fact_site("site", &line),
				       fact_flag("is_jacobian", !strcmp(function, "jacrev"))));
	}
	autopsy_advise_parts(a, f, most, was);
	if (rows)
		autopsy_advise_square(a, f, rows);
	if (threes)
		autopsy_advise_first(f, SAID(threes_advice, fact_count("rows", threes), fact_site("site", &f->site)));
	autopsy_advise_narrower(a, f);
	return true;
}
