/* SPDX-License-Identifier: MIT */
/* Causes: tensors that are larger than they need be. */
#include <string.h>

#include "analyzer/allocator/torch.h"
#include "analyzer/names/groupkeeper.h"
#include "analyzer/names/modelkeeper.h"
#include "analyzer/oom/autopsy_causes.h"
#include "analyzer/oom/oom_thresholds.h"
#include "analyzer/stacks/element.h"

#define UINT8 0
#define FLOAT16 5
#define FLOAT32 6
#define COMPLEX64 9
#define BFLOAT16 15

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
	parts = a->block[source].shape.dims[0] < AUTOPSY_PARTS ? a->block[source].shape.dims[0] : AUTOPSY_PARTS;
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
	autopsy_advise(f, SAID(copy_advice, fact_count("parts", AUTOPSY_PARTS), fact_bytes("saved", f->bytes - f->bytes / AUTOPSY_PARTS)));
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

/* Most of one line, in a list, a variable of a function of PyTorch's that runs and has yet to return it. */
static bool is_list_of_call(const struct autopsy *a, struct autopsy_finding *f, const struct autopsy_place *place)
{
	const struct objectname *of;
	struct stack_frame line;
	struct keeper k, next;

	if (!place || !place->named || place->blocks < LIST_MIN || !autopsy_matters(a, place->bytes) ||
	    !groupkeeper_nearest(&k, &next, place->named))
		return false;
	of = &k.name;
	if (k.kind != TFMT_KIND_LIST || strchr(of->text, '.') || 2 * k.length < place->blocks || of->root != ROOT_LOCAL || !of->file || !of->function ||
	    !autopsy_call_of(a, a->failure->python_stack, of->file, of->function, &line))
		return false;
	f->bytes = place->bytes;
	autopsy_at_place(a, f, 0);
	f->caller = line;
	f->has_caller = true;
	autopsy_say(f, SAID(list_of_call, fact_bytes("bytes", place->bytes), fact_count("tensors", place->blocks),
			    fact_name("function", of->function)));
	autopsy_advise(f, SAID(list_of_call_advice, fact_name("function", of->function), fact_site("site", &line),
			       fact_flag("is_jacobian", !strcmp(of->function, "jacobian"))));
	return true;
}

/* All tensors of the stack that holds most at any place have together what was asked for; or what a call collects. */
bool autopsy_is_list(const struct autopsy *a, struct autopsy_finding *f)
{
	const struct autopsy_place *place = a->nr_places ? &a->place[0] : NULL;
	uint32_t stack = place ? autopsy_group(a, place->largest)->python_stack : TFMT_STACK_NOT_CAPTURED;
	struct list list;

	if (is_list_of_call(a, f, place))
		return true;
	if (stack < TFMT_STACK_FIRST || !autopsy_is_joining(a->operation))
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

/* Parameters made after this event: of those state is new, too. */
static uint64_t parameters_since(const struct autopsy *a, uint64_t ordinal)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < a->categories.nr_blocks; i++)
		if (a->categories.block[i].category == CATEGORY_PARAMETER && a->categories.block[i].life.birth.ordinal > ordinal)
			bytes += a->categories.block[i].life.size;
	return bytes;
}

/* State that came with the first steps is complete; what comes with each, of the same parameters, is a history, as L-BFGS keeps. */
bool autopsy_is_optimizer_history(const struct autopsy *a, struct autopsy_finding *f)
{
	uint64_t later = 0, of_last = 0, all = a->categories.sum[CATEGORY_OPTIMIZER_STATE].bytes, first = 0;
	uint32_t nr_steps = 0, last = 0;
	size_t largest = 0;

	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct category_block *b = &a->categories.block[i];

		if (b->category != CATEGORY_OPTIMIZER_STATE)
			continue;
		if (!nr_steps)
			first = b->life.birth.ordinal;
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
	    HISTORY_NEW_PART * parameters_since(a, first) >= later ||
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

/* What the gradients of embeddings take, which have all rows, though a batch looks few of them up. */
static uint64_t embedding_gradients(const struct autopsy *a)
{
	struct named named;
	const char *class;
	uint64_t bytes = 0;

	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct category_block *b = &a->categories.block[i];

		if (b->category != CATEGORY_GRADIENT || !namedblocks_name(&named, a->device->process, &b->life, LIVES_OOM))
			continue;
		class = modelkeeper_class(named.census->census, named.object);
		bytes += class && (!strcmp(class, "Embedding") || !strcmp(class, "EmbeddingBag")) ? b->life.size : 0;
	}
	return bytes;
}

bool autopsy_is_optimizer_state(const struct autopsy *a, struct autopsy_finding *f)
{
	uint64_t embeddings = a->device->process->names ? embedding_gradients(a) : 0;

	if (a->failure->phase != PHASE_OPTIMIZER || !request_has_frame(a, "_init_group"))
		return false;
	f->bytes = a->categories.sum[CATEGORY_OPTIMIZER_STATE].bytes + a->failure->asked;
	autopsy_at_request(a, f);
	autopsy_say(f, SAID(optimizer_state, fact_bytes("state", f->bytes - a->failure->asked),
			    fact_bytes("asked", a->failure->asked)));
	say_model(a, f);
	if (embeddings >= a->lacking && 2 * embeddings > a->categories.sum[CATEGORY_GRADIENT].bytes)
		autopsy_advise_first(f, SAID(embedding_advice, fact_bytes("bytes", embeddings)));
	return true;
}

/* The parameter of which a dimension is both of these; SIZE_MAX: it is no matrix of that kind, or some parameter has its shape. */
static size_t squared_parameter(const struct autopsy *a, const struct tfmt_shape *square)
{
	size_t parameter = SIZE_MAX;

	if (square->nr_dims != 2 || square->dims[0] != square->dims[1])
		return SIZE_MAX;
	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct tfmt_shape *shape = &a->block[i].shape;
		uint64_t elements = 1;
		bool has_it = false;

		if (a->categories.block[i].category != CATEGORY_PARAMETER || !a->block[i].is_shaped)
			continue;
		for (unsigned k = 0; k < shape->nr_dims; k++) {
			elements *= shape->dims[k];
			has_it |= shape->dims[k] == square->dims[0];
		}
		if (has_it && elements == square->dims[0] * square->dims[1])
			return SIZE_MAX;
		if (has_it && shape->nr_dims > 1 && elements < square->dims[0] * square->dims[1])
			parameter = i;
	}
	return parameter;
}

/* An optimizer that keeps a matrix for each dimension of a parameter needs its square: of a vocabulary that is more than the model. */
static void say_squares(const struct autopsy *a, struct autopsy_finding *f)
{
	char shape[SHAPE_TEXT_MAX], of[SHAPE_TEXT_MAX];
	struct tfmt_shape asked;
	size_t parameter;

	if (!a->failure->shape || !tfmt_reader_shape(a->device->process->reader, a->failure->shape, &asked))
		return;
	parameter = squared_parameter(a, &asked);
	if (parameter == SIZE_MAX)
		return;
	autopsy_evidence_first(f, SAID(optimizer_squares, fact_name("shape", shape_text(shape, &asked)),
				       fact_name("of", shape_text(of, &a->block[parameter].shape))));
	autopsy_advise(f, SAID(optimizer_squares_advice, fact_count("size", asked.dims[0]), fact_bytes("saved", f->bytes)));
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
	say_squares(a, f);
	if (is_foreach && whole > bytes)
		autopsy_evidence(f, SAID(optimizer_foreach, fact_bytes("whole", whole)));
	if (largest < bytes && is_foreach)
		autopsy_advise(f, SAID(optimizer_foreach_advice, fact_bytes("saved", bytes - largest)));
	return true;
}
