/* SPDX-License-Identifier: MIT */
/* Causes: tensors that are larger than they need be, or than in the steps before. */
#include <string.h>

#include "analyzer/allocator/torch.h"
#include "analyzer/oom/autopsy_causes.h"
#include "analyzer/oom/oom_thresholds.h"
#include "analyzer/stacks/element.h"

#define UINT8 0
#define FLOAT16 5
#define FLOAT32 6
#define COMPLEX64 9
#define BFLOAT16 15
#define PARTS 8 /* in which a tensor may be computed one after the other */

/* ---- Fourier transforms ---------------------------------------------------------------------- */

/* The largest of the tensors that pass and have one of two element types; its index, or -1. */
static int64_t largest_of(const struct autopsy *a, uint32_t element, uint32_t or_element)
{
	int64_t largest = -1;

	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		uint32_t type = a->block[i].shape.element_type;

		if (a->block[i].is_shaped && (type == element || type == or_element) &&
		    moment_is_passing(a->categories.block[i].category) &&
		    (largest < 0 || a->categories.block[i].life.size > a->categories.block[largest].life.size))
			largest = (int64_t)i;
	}
	return largest;
}

/* The element type of what was asked for; of memory for the transform itself bytes. Not known: complex64. */
static uint32_t asked_element(const struct autopsy *a)
{
	struct tfmt_shape s;

	if (!a->failure->shape || !tfmt_reader_shape(a->device->process->reader, a->failure->shape, &s))
		return COMPLEX64;
	return s.element_type;
}

/* Transforms of a power of two stay in 16 bits; others, and those of copies in float32, do not. */
bool autopsy_is_fft_upcast(const struct autopsy *a, struct autopsy_finding *f)
{
	int64_t source = largest_of(a, FLOAT16, BFLOAT16), spectrum = largest_of(a, COMPLEX64, COMPLEX64);
	uint32_t asked = asked_element(a);
	char shape[SHAPE_TEXT_MAX];
	uint64_t parts;

	if (!strstr(a->operation, "fft") || source < 0 || (asked != COMPLEX64 && spectrum < 0) ||
	    a->categories.block[source].life.size < a->failure->asked / FFT_SOURCE_PART)
		return false;
	f->bytes = a->failure->asked;
	autopsy_at_request(a, f);
	autopsy_say(f, SAID(fft_asked, fact_bytes("bytes", f->bytes), fact_flag("to_work_in", asked == UINT8)));
	autopsy_evidence(f, SAID(fft_data, fact_name("shape", shape_text(shape, &a->block[source].shape)),
				 fact_bytes("bytes", a->categories.block[source].life.size)));
	if (spectrum >= 0)
		autopsy_evidence(f, SAID(fft_spectrum, fact_name("shape", shape_text(shape, &a->block[spectrum].shape)),
					 fact_bytes("bytes", a->categories.block[spectrum].life.size)));
	parts = a->block[source].shape.dims[0] < PARTS ? a->block[source].shape.dims[0] : PARTS;
	if (parts > 1)
		autopsy_advise(f, SAID(fft_advice, fact_count("parts", parts),
				       fact_bytes("saved", f->bytes - f->bytes / parts)));
	return true;
}

/* ---- copies ---------------------------------------------------------------------------------- */

/*
 * A tensor of the same type and as many elements: what was to be copied. Its index, or -1. Without a shape (a
 * result that was resized) its block's size tells.
 */
static int64_t original_of_request(const struct autopsy *a)
{
	uint64_t asked = torch_rounded(a->failure->asked);
	int64_t best = -1, unshaped = -1;

	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		if (a->block[i].is_shaped && torch_rounded(a->block[i].shape.bytes) == asked)
			best = (int64_t)i;
		else if (!a->block[i].is_shaped && a->categories.block[i].life.size == asked)
			unshaped = (int64_t)i;
	}
	return best < 0 ? unshaped : best;
}

static bool is_operation(const struct autopsy *a, const char *const names[], size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		if (!strcmp(a->operation, names[i]))
			return true;
	return false;
}

static void say_original(const struct autopsy *a, struct autopsy_finding *f, size_t original)
{
	const struct stack_frame *site = &a->place[a->block[original].place].frame;
	char shape[SHAPE_TEXT_MAX];

	if (a->block[original].is_shaped)
		autopsy_evidence(f, SAID(copy_original, fact_name("operation", a->operation),
					 fact_name("shape", shape_text(shape, &a->block[original].shape))));
	else if (site->file)
		autopsy_evidence(f, SAID(copy_original_site, fact_name("operation", a->operation), fact_site("site", site)));
}

bool autopsy_is_contiguous_copy(const struct autopsy *a, struct autopsy_finding *f)
{
	static const char *const operations[] = { "contiguous", "reshape", "flatten" };
	int64_t original = original_of_request(a);

	if (!is_operation(a, operations, sizeof(operations) / sizeof(*operations)) || original < 0 ||
	    a->failure->asked < a->capacity / COPY_PART)
		return false;
	f->bytes = a->failure->asked;
	autopsy_at_request(a, f);
	autopsy_say(f, SAID(copy_of_order, fact_bytes("bytes", f->bytes)));
	say_original(a, f, (size_t)original);
	autopsy_advise(f, SAID(copy_advice, fact_count("parts", PARTS), fact_bytes("saved", f->bytes - f->bytes / PARTS)));
	return true;
}

/* The operation is one that copies what it is given, many times; what it made before at this line is live as well. */
static bool is_repeating(const struct autopsy *a, struct autopsy_finding *f)
{
	static const char *const operations[] = { "repeat", "repeat_interleave", "tile" };
	uint32_t stack = a->failure->python_stack, nr = 0;

	if (stack < TFMT_STACK_FIRST || !is_operation(a, operations, sizeof(operations) / sizeof(*operations)))
		return false;
	f->bytes = a->failure->asked;
	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		if (autopsy_group(a, i)->python_stack != stack)
			continue;
		f->bytes += a->categories.block[i].life.size;
		nr++;
	}
	if (f->bytes < a->capacity / COPY_PART)
		return false;
	autopsy_at_request(a, f);
	autopsy_say(f, SAID(copy_repeated, fact_bytes("bytes", f->bytes), fact_name("operation", a->operation),
			    fact_if(nr, fact_count("live", nr))));
	autopsy_advise(f, SAID(copy_repeated_advice, fact_name("operation", a->operation), fact_bytes("bytes", f->bytes)));
	return true;
}

/* These copy what is there. Where no tensor has as much, a view shows some elements many times. */
bool autopsy_is_expanded_copy(const struct autopsy *a, struct autopsy_finding *f)
{
	static const char *const operations[] = { "contiguous", "reshape", "flatten", "clone" };
	char shape[SHAPE_TEXT_MAX] = "";
	struct tfmt_shape asked;
	uint64_t most = 0;

	if (is_repeating(a, f))
		return true;
	for (size_t i = 0; i < a->categories.nr_blocks; i++)
		if (a->categories.block[i].life.size > most)
			most = a->categories.block[i].life.size;
	if (!is_operation(a, operations, sizeof(operations) / sizeof(*operations)) || a->failure->asked <= most ||
	    !most || a->failure->asked < a->capacity / COPY_PART)
		return false;
	f->bytes = a->failure->asked;
	autopsy_at_request(a, f);
	autopsy_say(f, SAID(copy_of_expanded, fact_bytes("bytes", f->bytes)));
	if (a->failure->shape && tfmt_reader_shape(a->device->process->reader, a->failure->shape, &asked))
		shape_text(shape, &asked);
	autopsy_evidence(f, SAID(copy_exceeds_all, fact_name("operation", a->operation),
				 fact_if(*shape, fact_name("shape", shape)), fact_bytes("most", most)));
	autopsy_advise(f, SAID(copy_of_expanded_advice, fact_bytes("bytes", f->bytes)));
	return true;
}

/* ---- a list that is to become one tensor, beside the list ------------------------------------- */

struct list {
	uint32_t nr;
	uint64_t bytes, largest; /* of tensors, before the allocator's rounding */
};

/* What is live of one stack. */
static struct list find_list(const struct autopsy *a, uint32_t python_stack)
{
	struct list list = { 0 };

	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct group *g = autopsy_group(a, i);

		if (g->python_stack != python_stack || !g->shape_bytes)
			continue;
		list.nr++;
		list.bytes += g->shape_bytes;
		list.largest = g->shape_bytes > list.largest ? g->shape_bytes : list.largest;
	}
	return list;
}

static bool is_joining(const char *operation)
{
	static const char *const names[] = { "cat", "stack", "concat", "concatenate", "vstack", "hstack", "dstack" };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(operation, names[i]))
			return true;
	return false;
}

/* All tensors of the stack that holds most at any place have together what was asked for. */
bool autopsy_is_list(const struct autopsy *a, struct autopsy_finding *f)
{
	const struct autopsy_place *place = a->nr_places ? &a->place[0] : NULL;
	uint32_t stack = place ? autopsy_group(a, place->largest)->python_stack : TFMT_STACK_NOT_CAPTURED;
	struct list list;

	if (stack < TFMT_STACK_FIRST || !is_joining(a->operation))
		return false;
	list = find_list(a, stack);
	if (list.nr < LIST_MIN || torch_rounded(list.bytes) != torch_rounded(a->failure->asked))
		return false;
	f->bytes = list.bytes;
	autopsy_at_request(a, f);
	autopsy_say(f, SAID(list_joined, fact_count("tensors", list.nr), fact_bytes("bytes", list.bytes)));
	autopsy_evidence(f, SAID(list_made, fact_name("operation", a->operation), fact_site("site", &place->frame)));
	autopsy_advise(f, SAID(list_advice, fact_bytes("less", list.bytes - list.largest)));
	return true;
}

/* ---- the optimizer --------------------------------------------------------------------------- */

static bool request_has_frame(const struct autopsy *a, const char *part)
{
	struct stack_source source = replay_stack_source(a->replay, a->device->process);
	struct stack stack = { 0 };
	bool found = false;

	stack_expand(&stack, &source, a->failure->python_stack, 0);
	for (uint32_t i = 0; i < stack.nr_frames && !found; i++)
		found = stack.frame[i].python && stack.frame[i].function && strstr(stack.frame[i].function, part);
	stack_release(&stack);
	return found;
}

static void say_model(const struct autopsy *a, struct autopsy_finding *f)
{
	const struct category_sum *sum = a->categories.sum;

	autopsy_evidence(f, SAID(optimizer_beside, fact_bytes("parameters", sum[CATEGORY_PARAMETER].bytes),
				 fact_bytes("gradients", sum[CATEGORY_GRADIENT].bytes),
				 fact_bytes("state", sum[CATEGORY_OPTIMIZER_STATE].bytes)));
}

/* State that came with the first steps is complete; what comes with each is a history, as L-BFGS keeps. */
bool autopsy_is_optimizer_history(const struct autopsy *a, struct autopsy_finding *f)
{
	uint64_t later = 0, of_last = 0, all = a->categories.sum[CATEGORY_OPTIMIZER_STATE].bytes;
	uint32_t nr_steps = 0, last = 0;
	size_t largest = 0;

	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct category_block *b = &a->categories.block[i];

		if (b->category != CATEGORY_OPTIMIZER_STATE)
			continue;
		if (!nr_steps || b->step != last) {
			nr_steps++;
			of_last = 0;
		}
		last = b->step;
		of_last += b->life.size;
		later += nr_steps > HISTORY_STEPS / 2 ? b->life.size : 0;
		if (b->life.size > a->categories.block[largest].life.size ||
		    a->categories.block[largest].category != CATEGORY_OPTIMIZER_STATE)
			largest = i;
	}
	if (nr_steps < HISTORY_STEPS || HISTORY_LATER_PART * later < all || !autopsy_matters(a, all) ||
	    autopsy_is_older_optimizers(a, &(struct autopsy_finding){ 0 }))
		return false;
	f->bytes = all;
	autopsy_at_place(a, f, a->block[largest].place);
	/* The last step may not be over. */
	autopsy_say(f, SAID(optimizer_history, fact_bytes("bytes", all), fact_count("steps", nr_steps),
			    fact_bytes("each", (all - of_last) / (nr_steps - 1))));
	say_model(a, f);
	autopsy_evidence(f, SAID(optimizer_history_kept, NO_FACTS));
	autopsy_advise(f, SAID(optimizer_history_advice, fact_bytes("saved", all / 2)));
	return true;
}

bool autopsy_is_optimizer_state(const struct autopsy *a, struct autopsy_finding *f)
{
	if (a->failure->phase != PHASE_OPTIMIZER || !request_has_frame(a, "_init_group"))
		return false;
	f->bytes = a->categories.sum[CATEGORY_OPTIMIZER_STATE].bytes + a->failure->asked;
	autopsy_at_request(a, f);
	autopsy_say(f, SAID(optimizer_state, fact_bytes("state", f->bytes - a->failure->asked),
			    fact_bytes("asked", a->failure->asked)));
	say_model(a, f);
	return true;
}

bool autopsy_is_optimizer_temporaries(const struct autopsy *a, struct autopsy_finding *f)
{
	uint64_t bytes = a->failure->asked, largest = 0, whole = a->categories.sum[CATEGORY_GRADIENT].bytes;
	bool is_foreach;

	if (a->failure->phase != PHASE_OPTIMIZER)
		return false;
	is_foreach = request_has_frame(a, "_multi_tensor") || request_has_frame(a, "foreach");
	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct category_block *b = &a->categories.block[i];

		if (b->category == CATEGORY_PARAMETER && b->life.size > largest)
			largest = b->life.size;
		if (b->life.birth.phase == PHASE_OPTIMIZER && b->category != CATEGORY_OPTIMIZER_STATE &&
		    b->life.birth.ordinal >= a->step_ordinal)
			bytes += b->life.size;
	}
	/* One after the other, they would have been as many as there are gradients. */
	if (bytes < a->lacking ||
	    (is_foreach && whole > bytes ? whole : bytes) < a->failure->allocated / TEMPORARIES_PART)
		return false;
	f->bytes = bytes;
	autopsy_at_request(a, f);
	autopsy_say(f, SAID(optimizer_temporaries, fact_bytes("bytes", bytes)));
	say_model(a, f);
	if (is_foreach && whole > bytes)
		autopsy_evidence(f, SAID(optimizer_foreach, fact_bytes("whole", whole)));
	if (largest < bytes && is_foreach)
		autopsy_advise(f, SAID(optimizer_foreach_advice, fact_bytes("saved", bytes - largest)));
	return true;
}

/* ---- larger than before ---------------------------------------------------------------------- */

static uint64_t before(const struct autopsy *a, uint32_t python_stack)
{
	return failures_largest_before(a->failures, a->device->process, python_stack, a->step_ordinal);
}

/* Blocks of this step whose stack has made less than half of it before. */
static bool is_larger(const struct autopsy *a, size_t i, uint64_t *was)
{
	const struct life *life = &a->categories.block[i].life;

	if (life->birth.ordinal < a->step_ordinal)
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

/* Rows as before, each longer: all are as long as the longest. */
static void say_longer(struct autopsy_finding *f, const struct tfmt_shape *is, const struct stepinputs_change *was)
{
	if (!was || is->nr_dims < 2 || is->nr_dims != was->nr_dims || is->dims[0] < 2 || is->dims[0] != was->dims[0] ||
	    is->dims[1] <= was->dims[1])
		return;
	for (uint32_t i = 2; i < is->nr_dims; i++)
		if (is->dims[i] != was->dims[i])
			return;
	autopsy_evidence(f, SAID(larger_rows_are_longer, fact_count("rows", is->dims[0]), fact_count("length", is->dims[1]),
				 fact_count("length_before", was->dims[1])));
}

bool autopsy_is_larger_input(const struct autopsy *a, struct autopsy_finding *f)
{
	const struct stepinputs_change *exact;
	uint64_t bytes = 0, was, best_was = 0;
	char shape[SHAPE_TEXT_MAX];
	int64_t best = -1;

	if (a->step <= STEPS_BEFORE_MIN ||
	    (a->failure->phase != PHASE_FORWARD && a->failure->phase != PHASE_BACKWARD))
		return false;
	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct category_block *b = &a->categories.block[i];

		if (!is_larger(a, i, &was) || !was)
			continue;
		bytes += b->life.size;
		if (b->category == CATEGORY_INPUT && a->block[i].is_shaped &&
		    a->block[i].shape.nr_dims >= 1 &&
		    (best < 0 || b->life.size > a->categories.block[best].life.size)) {
			best = (int64_t)i;
			best_was = was;
		}
	}
	was = before(a, a->failure->python_stack);
	if (was && a->failure->asked >= LARGER_TIMES * was)
		bytes += a->failure->asked;
	if (best < 0 || !autopsy_matters(a, bytes))
		return false;
	f->bytes = bytes;
	exact = batch_before(a, (size_t)best, best_was);
	best_was = exact ? exact->bytes : best_was;
	autopsy_at_place(a, f, a->block[best].place);
	autopsy_say(f, SAID(larger_batch, fact_step("step", a->step), fact_flag("is_at_least", !exact),
			    fact_ratio("times", (double)a->block[best].shape.bytes / (double)best_was),
			    fact_bytes("bytes", bytes)));
	autopsy_evidence(f, SAID(larger_batch_shape, fact_name("shape", shape_text(shape, &a->block[best].shape)),
				 fact_bytes("bytes", a->categories.block[best].life.size), fact_bytes("before", best_was)));
	say_longer(f, &a->block[best].shape, exact);
	autopsy_say_shape(a, f);
	if (was)
		autopsy_evidence(f, SAID(larger_request, fact_bytes("asked", a->failure->asked), fact_bytes("before", was)));
	return true;
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

/* What one such tensor was made from is often as large. */
static void say_another(const struct autopsy *a, struct autopsy_finding *f, int64_t apart)
{
	const struct stack_frame *site;
	uint64_t most = 0, was;
	size_t largest = 0;

	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		uint64_t bytes = a->categories.block[i].life.size;

		if ((int64_t)i == apart || bytes <= most || ANOTHER_PART * bytes < f->bytes || !is_larger(a, i, &was))
			continue;
		most = bytes;
		largest = i;
	}
	site = most ? &a->place[a->block[largest].place].frame : NULL;
	if (site && site->file)
		autopsy_evidence(f, SAID(spike_has_another, fact_bytes("bytes", most), fact_site("site", site)));
}

bool autopsy_is_spike(const struct autopsy *a, struct autopsy_finding *f)
{
	uint64_t was = before(a, a->failure->python_stack), most = 0, block_was = 0;
	int64_t best = -1;

	if (a->step <= STEPS_BEFORE_MIN)
		return false;
	if (a->failure->asked >= LARGER_TIMES * was && !has_like_request(a))
		most = a->failure->asked;
	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		uint64_t one_was;

		if (a->categories.block[i].life.size <= most || !is_larger(a, i, &one_was) ||
		    a->place[a->block[i].place].bytes >= SPIKE_ALONE_TIMES * a->categories.block[i].life.size)
			continue;
		most = a->categories.block[i].life.size;
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
	was = best < 0 ? was : block_was;
	autopsy_say(f, SAID(spike_of_step, fact_step("step", a->step), fact_bytes("bytes", most)));
	if (was)
		autopsy_evidence(f, SAID(spike_was_less, fact_bytes("before", was),
					 fact_ratio("times", (double)most / (double)was)));
	else
		autopsy_evidence(f, SAID(spike_is_first, fact_count("steps", a->step - 1)));
	say_another(a, f, best);
	autopsy_advise(f, SAID(spike_advice, fact_count("parts", PARTS), fact_bytes("saved", most - most / PARTS)));
	return true;
}
