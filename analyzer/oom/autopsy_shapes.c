/* SPDX-License-Identifier: MIT */
/* Causes: what a step needs follows the shape of its batch. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analyzer/oom/autopsy_causes.h"
#include "analyzer/oom/oom_thresholds.h"

#define BLOCKS_MAX 4096
#define DIMS_TEXT_MAX 96 /* of the dimensions of a batch */

/* "[32, 2048]", with one dimension replaced. Returns buf. */
static const char *dims_text(char *buf, size_t size, const struct shapefit *s, uint32_t dim, uint64_t instead)
{
	size_t n = 0;

	for (uint32_t i = 0; i < s->nr_dims && n < size; i++)
		n += (size_t)snprintf(buf + n, size - n, "%s%" PRIu64, i ? ", " : "[", i == dim ? instead : s->dims[i]);
	if (n < size)
		snprintf(buf + n, size - n, "]");
	return buf;
}

/* Which batches would have fitted, as evidence. */
static void say_fitting(const struct autopsy *a, struct autopsy_finding *f)
{
	static const char *const keys[STEPINPUTS_DIMS] = { "fitting", "fitting_2", "fitting_3", "fitting_4" };
	struct fact facts[STEPINPUTS_DIMS + 1];
	const struct shapefit *s = &a->shape;
	char text[DIMS_TEXT_MAX];
	uint32_t nr = 0;

	for (uint32_t dim = 0; dim < s->nr_dims; dim++) {
		uint64_t largest = shapefit_largest(s, dim, a->fitting);

		if (!largest || largest >= s->dims[dim])
			continue;
		facts[nr] = fact_name(keys[nr], dims_text(text, sizeof(text), s, dim, largest));
		nr++;
	}
	if (!nr)
		return;
	facts[nr] = fact_name("batch", dims_text(text, sizeof(text), s, UINT32_MAX, 0));
	f->smaller = said_of(SAY_shape_would_fit, facts, nr + 1);
}

/* How the steps before followed their batches' size, and what that makes of this one; 0 = no figure. */
static void say_curve(const struct shapefit *s, struct autopsy_finding *f, uint64_t needed)
{
	const struct fact facts[] = {
		fact_count("steps", s->nr_steps),
		fact_bytes("most", s->largest_peak),
		fact_if(needed, fact_bytes("needed", needed)),
	};

	autopsy_evidence(f, said_of(s->is_quadratic ? SAY_shape_is_quadratic : SAY_shape_is_linear, facts,
				    sizeof(facts) / sizeof(*facts)));
}

void autopsy_say_shape(const struct autopsy *a, struct autopsy_finding *f)
{
	const struct shapefit *s = &a->shape;
	double fitted = a->has_shape ? shapefit_at(s, s->dims) : 0;

	if (!a->has_shape)
		return;
	/* Far beyond what was seen: what it would need is a guess, but surely too much. */
	if (a->usable && fitted > FAR_TIMES * (double)a->usable) {
		say_curve(s, f, 0);
		say_fitting(a, f);
		return;
	}
	/* It needed more than that: what the curve says of other sizes holds no better. */
	if (fitted < CURVE_HOLDS_MIN * (double)(a->failure->allocated + a->failure->asked)) {
		say_curve(s, f, 0);
		return;
	}
	say_curve(s, f, (uint64_t)fitted);
	say_fitting(a, f);
}

bool autopsy_is_input_shape(const struct autopsy *a, struct autopsy_finding *f)
{
	const struct shapefit *s = &a->shape;
	char batch[DIMS_TEXT_MAX];
	double needed;

	if (!a->has_shape || !a->usable)
		return false;
	needed = shapefit_at(s, s->dims);
	if (needed < NEARLY_FULL * (double)a->usable || needed <= (double)s->largest_peak ||
	    !autopsy_matters(a, (uint64_t)(needed - s->constant)))
		return false;
	f->bytes = (uint64_t)needed;
	autopsy_at_request(a, f);
	autopsy_say(f, SAID(shape_too_large, fact_step("step", a->step),
			    fact_name("batch", dims_text(batch, sizeof(batch), s, UINT32_MAX, 0)),
			    fact_bytes("bytes", f->bytes), fact_bytes("usable", a->usable)));
	autopsy_say_shape(a, f);
	return true;
}

/* ---- padding --------------------------------------------------------------------------------- */

/* The sequences that a batch was padded from: tensors of one place, one for each row. */
struct sequences {
	uint64_t nr, total, longest;
};

/* `by`: dimensions that the batch has more; 0 where sequences that were padded one by one are laid end to end. */
static bool has_rest(const uint64_t *dims, uint32_t nr_dims, const struct tfmt_shape *batch, uint32_t by)
{
	if (nr_dims + by != batch->nr_dims)
		return false;
	for (uint32_t i = 1; i < nr_dims; i++)
		if (dims[i] != batch->dims[i + by])
			return false;
	return true;
}

static void add_sequences(struct sequences *s, uint64_t nr, uint64_t length)
{
	s->nr += nr;
	s->total += nr * length;
	s->longest = length > s->longest ? length : s->longest;
}

/* Is the batch as many rows as there are sequences, each as long as the longest? */
static bool holds(const struct tfmt_shape *batch, const struct sequences *s, uint32_t by)
{
	const uint64_t *dims = batch->dims;

	if (!s->nr)
		return false;
	if (!by)
		return dims[0] == s->nr * s->longest;
	return (dims[0] == s->nr && dims[1] == s->longest) || (dims[0] == s->longest && dims[1] == s->nr);
}

/* Those of a place that this step made before the batch. */
static struct sequences sequences_of(const struct autopsy *a, const struct stepinputs_place *p, size_t batch, uint32_t by)
{
	const struct tfmt_shape *shape = &a->block[batch].shape;
	uint64_t until = a->categories.block[batch].life.birth.ordinal;
	struct sequences s = { 0 };

	for (uint32_t i = stepinputs_from(p, a->step_ordinal); i < p->nr_changes && p->change[i].ordinal < until; i++) {
		const struct stepinputs_change *c = &p->change[i];

		if (!has_rest(c->dims, c->nr_dims, shape, by))
			return (struct sequences){ 0 };
		add_sequences(&s, c->nr, c->dims[0]);
	}
	return s;
}

static bool is_of_model(const struct autopsy *a, uint32_t group)
{
	for (size_t i = 0; i < a->categories.nr_blocks; i++)
		if (a->categories.block[i].life.group == group && !autopsy_is_passing(a->categories.block[i].category))
			return true;
	return false;
}

/*
 * Before the first backward pass: all of the batch's type that were made outside of the model, from any place. Copies
 * that were padded one by one are all alike.
 */
static struct sequences sequences_of_first(const struct autopsy *a, const struct tfmt_shape *batch, uint32_t by)
{
	const struct books *books = a->device->process->books;
	const struct lives *lives = a->device->process->lives;
	struct sequences s = { 0 };
	struct tfmt_shape shape;

	for (uint32_t i = 0; i < books_nr_groups(books) && i < lives->nr_fates; i++) {
		const struct group *g = books_group(books, i);
		uint64_t nr = group_figures_at(g, MARK_OOM).blocks;

		if (!g->tensor || g->device != a->device->ordinal || !g->shape ||
		    (g->phase != PHASE_INIT && g->phase != PHASE_OTHER) ||
		    !tfmt_reader_shape(books_reader(books), g->shape, &shape) || !shape.nr_dims ||
		    shape.element_type != batch->element_type || !has_rest(shape.dims, shape.nr_dims, batch, by) || is_of_model(a, i))
			continue;
		for (int k = 0; k < NR_FATES; k++)
			nr += lives->fates[i].nr[k];
		if (nr && batch->dims[0] != (by ? nr : nr * shape.dims[0]))
			add_sequences(&s, nr, shape.dims[0]);
	}
	return s;
}

static void take_least(struct sequences *found, const struct tfmt_shape *batch, const struct sequences *s, uint32_t by)
{
	if (holds(batch, s, by) && (!found->nr || s->total < found->total))
		*found = *s;
}

/*
 * Is this block a batch of sequences that were made for it, by one place or several? Of what may be them, those with
 * least in them: copies that were padded one by one are as full as the batch.
 */
static bool is_padded(const struct autopsy *a, const struct stepinputs_device *inputs, size_t block,
		      struct sequences *found)
{
	const struct tfmt_shape *shape = &a->block[block].shape;
	struct sequences one = { 0 }, rest;

	*found = one;
	if (!a->block[block].is_shaped || a->categories.block[block].life.birth.ordinal < a->step_ordinal)
		return false;
	for (uint32_t by = 0; by <= 1 && by < shape->nr_dims; by++) {
		if (!a->failure->nr_begun && a->device->process->lives) {
			one = sequences_of_first(a, shape, by);
			take_least(found, shape, &one, by);
		}
		rest = (struct sequences){ 0 };
		for (uint32_t i = 0; inputs && i < inputs->nr_places; i++) {
			one = sequences_of(a, &inputs->place[i], block, by);
			take_least(found, shape, &one, by);
			if (holds(shape, &one, by))
				continue;
			rest.nr += one.nr;
			rest.total += one.total;
			rest.longest = one.longest > rest.longest ? one.longest : rest.longest;
		}
		take_least(found, shape, &rest, by);
	}
	return found->nr && found->total < found->nr * found->longest;
}

/* What this step has made for each place of a batch, padding or not. */
static uint64_t bytes_per_place(const struct autopsy *a, uint64_t places)
{
	uint64_t bytes = a->failure->asked;

	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct category_block *b = &a->categories.block[i];
		const struct tfmt_shape *shape = &a->block[i].shape;
		uint64_t elements = 1;

		if (!a->block[i].is_shaped || b->life.birth.ordinal < a->step_ordinal ||
		    b->category == CATEGORY_PARAMETER || b->category == CATEGORY_GRADIENT ||
		    b->category == CATEGORY_OPTIMIZER_STATE)
			continue;
		for (uint32_t k = 0; k < shape->nr_dims; k++)
			elements *= shape->dims[k];
		if (elements && elements % places == 0)
			bytes += b->life.size;
	}
	return bytes;
}

bool autopsy_is_padding(const struct autopsy *a, struct autopsy_finding *f)
{
	const struct stepinputs_device *inputs = stepinputs_of(&a->failures->inputs, a->device->process->books, a->device->ordinal);
	struct sequences s = { 0 };
	uint64_t places, bytes;
	size_t batch = 0;
	double share;

	while (batch < a->categories.nr_blocks && !is_padded(a, inputs, batch, &s))
		batch++;
	if (batch == a->categories.nr_blocks || !s.total)
		return false;
	places = s.nr * s.longest;
	share = 1 - (double)s.total / (double)places;
	bytes = bytes_per_place(a, places);
	f->bytes = (uint64_t)(share * (double)bytes);
	if (share < PADDING_MIN || !autopsy_matters(a, f->bytes))
		return false;
	autopsy_at_place(a, f, a->block[batch].place);
	autopsy_say(f, SAID(padding_of_batch, fact_share("share", share, 1), fact_bytes("bytes", f->bytes),
			    fact_bytes("following", bytes)));
	autopsy_evidence(f, SAID(padding_sequences, fact_count("sequences", s.nr), fact_count("average", s.total / s.nr),
				 fact_count("longest", s.longest)));
	autopsy_say_shape(a, f);
	autopsy_advise(f, SAID(padding_advice, fact_bytes("bytes", f->bytes)));
	return true;
}

/* ---- caches by shape ------------------------------------------------------------------------- */

/* Blocks to look at, by index; so few that pairs of them can be compared. */
struct selection {
	uint32_t nr, block[BLOCKS_MAX];
};

static bool same_shape(const struct tfmt_shape *a, const struct tfmt_shape *b)
{
	return a->nr_dims == b->nr_dims && a->element_type == b->element_type &&
	       !memcmp(a->dims, b->dims, a->nr_dims * sizeof(*a->dims));
}

/* What a place keeps of steps before; false where that is no tensors but the model's. */
static bool select_kept(const struct autopsy *a, size_t place, struct selection *s)
{
	s->nr = 0;
	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct category_block *b = &a->categories.block[i];

		if (a->block[i].place != place || (a->step && b->step >= a->step))
			continue;
		if (!a->block[i].is_shaped || s->nr == BLOCKS_MAX || b->category == CATEGORY_PARAMETER ||
		    b->category == CATEGORY_OPTIMIZER_STATE || b->category == CATEGORY_GRADIENT)
			return false;
		s->block[s->nr++] = (uint32_t)i;
	}
	return true;
}

/* How many shapes there are among them, and whether one is there of several steps. */
static uint32_t count_shapes(const struct autopsy *a, const struct selection *s, bool *is_repeated)
{
	uint32_t nr = 0;

	*is_repeated = false;
	for (uint32_t i = 0; i < s->nr; i++) {
		bool is_new = true;

		for (uint32_t k = 0; k < i && is_new; k++) {
			if (!same_shape(&a->block[s->block[k]].shape, &a->block[s->block[i]].shape))
				continue;
			*is_repeated |= a->categories.block[s->block[k]].step != a->categories.block[s->block[i]].step;
			is_new = false;
		}
		nr += is_new;
	}
	return nr;
}

void autopsy_say_shapes(const struct autopsy *a, struct autopsy_finding *f, size_t place, uint64_t blocks)
{
	struct selection kept;
	bool is_repeated;
	uint32_t nr = select_kept(a, place, &kept) ? count_shapes(a, &kept, &is_repeated) : 0;

	if (nr >= SHAPES_MIN && (double)nr >= OTHER_SHAPES * (double)blocks)
		autopsy_evidence(f, SAID(shapes_differ, fact_count("shapes", nr)));
}

bool autopsy_is_shape_cache(const struct autopsy *a, struct autopsy_finding *f)
{
	struct selection kept;

	for (size_t i = 0; a->step && i < a->nr_places && autopsy_matters(a, a->place[i].bytes); i++) {
		uint64_t bytes = 0;
		bool is_repeated = false;
		uint32_t nr;

		if (!select_kept(a, i, &kept))
			continue;
		for (uint32_t k = 0; k < kept.nr; k++)
			bytes += a->categories.block[kept.block[k]].life.size;
		nr = autopsy_matters(a, bytes) ? count_shapes(a, &kept, &is_repeated) : 0;
		if (nr < SHAPES_MIN || is_repeated)
			continue;
		f->bytes = bytes;
		autopsy_at_place(a, f, i);
		autopsy_say(f, SAID(shape_cache, fact_bytes("bytes", bytes), fact_count("shapes", nr)));
		autopsy_evidence(f, SAID(shape_cache_steps, fact_step("first", a->categories.block[kept.block[0]].step),
					 fact_step("last", a->categories.block[kept.block[kept.nr - 1]].step)));
		autopsy_advise(f, SAID(shape_cache_advice, fact_bytes("saved", bytes - bytes / nr)));
		return true;
	}
	return false;
}
