/* SPDX-License-Identifier: MIT */
/* Causes: what a step needs follows the shape of its batch. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analyzer/oom/autopsy_causes.h"
#include "analyzer/oom/oom_thresholds.h"
#include "analyzer/patterns/padding.h"
#include "analyzer/patterns/patterns_thresholds.h"
#include "analyzer/patterns/shapecache.h"
#include "analyzer/stacks/element.h"

#define SAMPLES_SHAPES 3 /* of different parameters: one or two may have the shape of an activation, as positions have */
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

/* ---- samples in pairs ------------------------------------------------------------------------ */

/* Tensors of this step that have the batch's size twice: [n, n] of n samples. */
struct pairs {
	uint64_t bytes; /* of those that are there */
	uint64_t samples;
	uint32_t nr;
	size_t first; /* block: the others were made of it */
	bool is_asked;
};

static bool has_twice(const struct tfmt_shape *s, uint64_t n)
{
	uint32_t nr = 0;

	for (uint32_t i = 0; i < s->nr_dims; i++)
		nr += s->dims[i] == n;
	return nr >= 2;
}

/* Of `samples` in the batch. */
static bool find_pairs(struct pairs *p, const struct autopsy *a, uint64_t samples)
{
	struct tfmt_shape asked;

	*p = (struct pairs){ .samples = samples };
	if (a->failure->is_driver)
		return false;
	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct category_block *b = &a->categories.block[i];

		if (!a->block[i].is_shaped || b->life.birth.ordinal < a->step_ordinal || !has_twice(&a->block[i].shape, samples) ||
		    !moment_is_passing(b->category))
			continue;
		if (!p->nr++)
			p->first = i;
		p->bytes += b->life.size;
	}
	p->is_asked = a->failure->shape && tfmt_reader_shape(a->device->process->reader, a->failure->shape, &asked) &&
		      has_twice(&asked, samples);
	return p->nr && autopsy_matters(a, p->bytes + (p->is_asked ? a->failure->asked : 0));
}

/* What the batch's size is needed twice for; that may be meant, or come of operands that were to have the same shape. */
static void say_pairs(const struct autopsy *a, struct autopsy_finding *f, const struct pairs *p)
{
	const struct stack_frame *site = &a->place[a->block[p->first].place].frame;
	struct fact samples = fact_count("samples", p->samples);
	char shape[SHAPE_TEXT_MAX];

	autopsy_at_place(a, f, a->block[p->first].place);
	autopsy_say(f, SAID(pairs_of_batch, fact_name("shape", shape_text(shape, &a->block[p->first].shape)),
			    fact_count("tensors", p->nr), fact_bytes("bytes", p->bytes),
			    fact_if(p->is_asked, fact_bytes("asked", a->failure->asked))));
	autopsy_advise(f, SAID(pairs_advice, fact_site("site", site), samples));
}

/* Is a parameter as wide? Then [n, n] may be states of the model. */
static bool is_width(const struct autopsy *a, uint64_t n)
{
	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct tfmt_shape *s = &a->block[i].shape;

		if (a->categories.block[i].category != CATEGORY_PARAMETER || !a->block[i].is_shaped)
			continue;
		for (uint32_t k = 0; k < s->nr_dims; k++)
			if (s->dims[k] == n)
				return true;
	}
	return false;
}

/* Has something else that passes so many rows, each of a sample? */
static bool is_batch_of(const struct autopsy *a, uint64_t n)
{
	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct tfmt_shape *s = &a->block[i].shape;

		if (a->block[i].is_shaped && moment_is_passing(a->categories.block[i].category) && s->nr_dims && s->dims[0] == n &&
		    !has_twice(s, n))
			return true;
	}
	return false;
}

/*
 * Where no steps before tell what varies: [n, n] of a graph beside [n, k], and nothing of the model is n wide. Matrices of kernels,
 * which are meant, have no graph mostly.
 */
void autopsy_say_pairs(const struct autopsy *a, struct autopsy_finding *f)
{
	struct pairs pairs;

	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct tfmt_shape *s = &a->block[i].shape;

		if (!a->block[i].is_shaped || !a->block[i].has_graph || s->nr_dims != 2 || s->dims[0] != s->dims[1] ||
		    !is_batch_of(a, s->dims[0]) || is_width(a, s->dims[0]) || !find_pairs(&pairs, a, s->dims[0]) ||
		    2 * (pairs.bytes + (pairs.is_asked ? a->failure->asked : 0)) < a->failure->allocated + a->failure->asked)
			continue;
		say_pairs(a, f, &pairs);
		return;
	}
}

/* ---- one square ------------------------------------------------------------------------------- */

/* Has something else that is there so many rows, or columns? */
static bool has_rows(const struct autopsy *a, uint64_t n)
{
	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct tfmt_shape *s = &a->block[i].shape;

		for (uint32_t k = 0; a->block[i].is_shaped && !has_twice(s, n) && k < s->nr_dims; k++)
			if (s->dims[k] == n)
				return true;
	}
	return false;
}

/* Is one of its shape there already? Then that one has paired them. */
static bool has_square(const struct autopsy *a, uint64_t n)
{
	for (size_t i = 0; i < a->categories.nr_blocks; i++)
		if (a->block[i].is_shaped && a->block[i].shape.nr_dims == 2 && has_twice(&a->block[i].shape, n))
			return true;
	return false;
}

/*
 * Is there a column [n, 1] that a module has made, as predictions are, or one beside a row [n]? Most often one of two operands lacks a dimension, or has
 * one too many, when they were paired; the other may be a view. In a graph the node would tell; these are in none.
 */
static bool has_column(const struct autopsy *a, uint64_t n)
{
	bool has_it = false, is_made = false, has_row = false;

	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct tfmt_shape *s = &a->block[i].shape;

		if (!a->block[i].is_shaped || !s->nr_dims || s->dims[0] != n || a->block[i].has_graph)
			continue;
		has_row |= s->nr_dims == 1;
		if (s->nr_dims == 2 && s->dims[1] == 1) {
			has_it = true;
			is_made |= a->categories.block[i].module != 0;
		}
	}
	return has_it && (has_row || is_made);
}

/* Of a block, or of the request (-1); without dimensions where it is not known. */
static struct tfmt_shape shape_of(const struct autopsy *a, int64_t block)
{
	struct tfmt_shape s = { 0 };

	if (block >= 0 && a->block[block].is_shaped)
		s = a->block[block].shape;
	else if (block < 0 && a->failure->shape && !tfmt_reader_shape(a->device->process->reader, a->failure->shape, &s))
		s.nr_dims = 0;
	return s;
}

uint64_t autopsy_cube_of(const struct autopsy *a, int64_t block)
{
	struct tfmt_shape s = shape_of(a, block);

	return s.nr_dims == 3 && s.dims[0] == s.dims[1] && s.dims[1] == s.dims[2] && has_rows(a, s.dims[0]) && !is_width(a, s.dims[0]) ?
		       s.dims[0] : 0;
}

uint64_t autopsy_square_of(const struct autopsy *a, int64_t block)
{
	struct tfmt_shape s = shape_of(a, block);

	return s.nr_dims == 2 && s.dims[0] == s.dims[1] && has_rows(a, s.dims[0]) && !is_width(a, s.dims[0]) ? s.dims[0] : 0;
}

/* Of values and as many targets: mse_loss, smooth_l1_loss, huber_loss, ... */
static bool is_loss(const char *operation)
{
	const char *end = strstr(operation, "_loss");

	return end && !end[strlen("_loss")];
}

void autopsy_advise_square(const struct autopsy *a, struct autopsy_finding *f, uint64_t rows)
{
	struct fact site = fact_site("site", &f->site), samples = fact_count("samples", rows);

	if (strstr(a->operation, "svd"))
		autopsy_advise_first(f, SAID(svd_advice, site, samples));
	else if (!strcmp(a->operation, "corrcoef") || !strcmp(a->operation, "cov"))
		autopsy_advise_first(f, SAID(correlation_advice, fact_name("operation", a->operation), site, samples));
	else if (is_loss(a->operation))
		autopsy_advise_first(f, SAID(loss_pairs_advice, fact_name("operation", a->operation), site));
	else if (autopsy_is_pointwise(a->operation) && (!has_square(a, rows) || has_column(a, rows)))
		autopsy_advise_first(f, SAID(pairs_advice, site, samples));
	else
		autopsy_advise(f, SAID(square_advice, site, samples));
}

/* ---- gradients of each sample ------------------------------------------------------------------- */

/* ---- dimensions of 1 do not count here ---- */

static unsigned skip_ones(const struct tfmt_shape *s, unsigned i)
{
	while (i < s->nr_dims && s->dims[i] == 1)
		i++;
	return i;
}

static unsigned nr_dimensions(const struct tfmt_shape *s)
{
	unsigned nr = 0;

	for (unsigned i = skip_ones(s, 0); i < s->nr_dims; i = skip_ones(s, i + 1))
		nr++;
	return nr;
}

/* Are a's dimensions from i on b's from k on? */
static bool is_same_from(const struct tfmt_shape *a, unsigned i, const struct tfmt_shape *b, unsigned k)
{
	for (i = skip_ones(a, i), k = skip_ones(b, k); i < a->nr_dims && k < b->nr_dims; i = skip_ones(a, i + 1), k = skip_ones(b, k + 1))
		if (a->dims[i] != b->dims[k])
			return false;
	return i == a->nr_dims && k == b->nr_dims;
}

/*
 * How many times a parameter's shape this one is, in a dimension before it: [n, 512, 256] of [512, 256]. A convolution's are in its
 * first, as groups: [n * 64, 3, 3, 3]. 0: it is not so; of vectors it would be by chance.
 */
static uint64_t times_parameter(const struct tfmt_shape *s, const struct tfmt_shape *of)
{
	unsigned i = skip_ones(s, 0), k = skip_ones(of, 0), nr = nr_dimensions(of);

	if (i == s->nr_dims || nr < 2)
		return 0;
	if (is_same_from(s, i + 1, of, k))
		return s->dims[i];
	if (nr >= 3 && of->dims[k] && s->dims[i] > of->dims[k] && s->dims[i] % of->dims[k] == 0 && is_same_from(s, i + 1, of, k + 1))
		return s->dims[i] / of->dims[k];
	return 0;
}

/* Of how many samples in each, and of which parameters; bytes: with the request. */
struct samples {
	uint64_t nr, bytes, most;
	size_t largest; /* block, of `most` bytes; SIZE_MAX: none is there */
	unsigned nr_shapes;
	struct {
		const struct tfmt_shape *shape;
		uint64_t nr_tensors;
	} of[SAMPLES_SHAPES];
};

/* A block, or the request (SIZE_MAX). */
static void add_sample(struct samples *s, const struct autopsy *a, const struct tfmt_shape *shape, uint64_t bytes, size_t block)
{
	const struct tfmt_shape *of = NULL;
	uint64_t nr = 0;

	for (size_t i = 0; i < a->categories.nr_blocks && !nr; i++) {
		of = &a->block[i].shape;
		if (a->categories.block[i].category == CATEGORY_PARAMETER && a->block[i].is_shaped)
			nr = times_parameter(shape, of);
	}
	if (!nr || (s->nr && nr != s->nr))
		return;
	s->nr = nr;
	s->bytes += bytes;
	if (block != SIZE_MAX && bytes > s->most) {
		s->most = bytes;
		s->largest = block;
	}
	for (unsigned i = 0; i < s->nr_shapes; i++) {
		if (times_parameter(shape, s->of[i].shape)) {
			s->of[i].nr_tensors++;
			return;
		}
	}
	if (s->nr_shapes < SAMPLES_SHAPES) {
		s->of[s->nr_shapes].shape = of;
		s->of[s->nr_shapes++].nr_tensors = 1;
	}
}

static uint64_t nr_parameters(const struct autopsy *a, const struct tfmt_shape *shape)
{
	uint64_t nr = 0;

	for (size_t i = 0; i < a->categories.nr_blocks; i++)
		nr += a->categories.block[i].category == CATEGORY_PARAMETER && a->block[i].is_shaped &&
		      is_same_from(&a->block[i].shape, 0, shape, 0);
	return nr;
}

/*
 * Of how many samples in all: where vmap() takes a chunk after the other, of those of all chunks so far. An activation may have one of
 * the shapes as well, so the one that says the least counts.
 */
static uint64_t nr_samples(const struct autopsy *a, const struct samples *s)
{
	uint64_t least = 0;

	for (unsigned i = 0; i < s->nr_shapes; i++) {
		uint64_t nr = nr_parameters(a, s->of[i].shape), times = nr ? (s->of[i].nr_tensors + nr - 1) / nr : 1;

		least = !i || times < least ? times : least;
	}
	return least * s->nr;
}

/*
 * As vmap(grad(...)) makes them, which the stack of the request, or of the largest, may tell. Else an activation may have the shape of one parameter by
 * chance, or of its positions: not of several.
 */
bool autopsy_is_sample_gradients(const struct autopsy *a, struct autopsy_finding *f)
{
	uint64_t samples, parameters = 0;
	struct samples s = { .largest = SIZE_MAX };
	struct tfmt_shape asked;
	bool is_seen;

	if (a->failure->shape && tfmt_reader_shape(a->device->process->reader, a->failure->shape, &asked))
		add_sample(&s, a, &asked, a->failure->asked, SIZE_MAX);
	for (size_t i = 0; i < a->categories.nr_blocks; i++)
		if (a->block[i].is_shaped && a->categories.block[i].life.birth.phase == PHASE_BACKWARD)
			add_sample(&s, a, &a->block[i].shape, a->categories.block[i].life.size, i);
	for (size_t i = 0; i < a->categories.nr_blocks; i++)
		parameters += a->categories.block[i].category == CATEGORY_PARAMETER ? a->categories.block[i].life.size : 0;
	samples = nr_samples(a, &s);
	is_seen = autopsy_is_of_sample_gradients(a, a->failure->python_stack) ||
		  (s.largest != SIZE_MAX && autopsy_is_of_sample_gradients(a, autopsy_group(a, s.largest)->python_stack));
	/* Most of what is there, or more of it is to come than there will ever be room for. */
	if (s.nr_shapes < (is_seen ? 1 : SAMPLES_SHAPES) || (2 * s.bytes <= a->failure->allocated + a->failure->asked &&
					     samples * parameters <= a->failure->allocated + a->failure->free))
		return false;
	f->bytes = s.bytes;
	autopsy_at_transform(a, f, s.largest);
	autopsy_say(f, SAID(samples_have_gradients, fact_count("samples", samples), fact_bytes("bytes", s.bytes),
			    fact_bytes("asked", a->failure->asked)));
	autopsy_evidence(f, SAID(samples_of_all, fact_bytes("bytes", samples * parameters)));
	autopsy_advise(f, SAID(samples_advice, fact_site("site", f->has_caller ? &f->caller : &f->site)));
	return true;
}

bool autopsy_is_input_shape(const struct autopsy *a, struct autopsy_finding *f)
{
	const struct shapefit *s = &a->shape;
	struct pairs pairs;
	char batch[DIMS_TEXT_MAX];
	double needed;

	if (!a->has_shape || !a->usable || autopsy_is_uncontracted(a))
		return false;
	needed = shapefit_at(s, s->dims);
	if (needed < NEARLY_FULL * (double)a->usable || needed <= (double)s->largest_peak ||
	    !autopsy_matters(a, (uint64_t)(needed - s->constant)))
		return false;
	/* Of what it would need, what is there explains the failure. */
	f->bytes = a->failure->allocated + a->failure->asked;
	f->bytes = needed < (double)f->bytes ? (uint64_t)needed : f->bytes;
	if (s->is_quadratic && s->varying & 1 && find_pairs(&pairs, a, s->dims[0])) {
		say_pairs(a, f, &pairs);
		autopsy_say_shape(a, f);
		return true;
	}
	autopsy_at_request(a, f);
	autopsy_say(f, SAID(shape_too_large, fact_step("step", a->step),
			    fact_name("batch", dims_text(batch, sizeof(batch), s, UINT32_MAX, 0)),
			    fact_bytes("bytes", (uint64_t)needed), fact_bytes("usable", a->usable)));
	autopsy_say_longer_rows(a, f);
	autopsy_say_shape(a, f);
	return true;
}

/* ---- padding --------------------------------------------------------------------------------- */

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
	struct padding s = { 0 };
	uint64_t places, bytes;
	size_t batch;
	double share;

	if (!padding_find(&s, &a->moment, inputs, &batch))
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

/* What a place keeps of steps before. */
struct kept_shapes {
	struct shapecache cache;
	uint64_t bytes;
	uint32_t first_step, last_step;
};

/* false where that is no tensors but the model's, or not one for each shape. */
static bool is_one_per_shape(const struct autopsy *a, size_t place, struct kept_shapes *s)
{
	bool is_other = false;

	*s = (struct kept_shapes){ 0 };
	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct category_block *b = &a->categories.block[i];

		if (a->block[i].place != place || (a->step && b->step >= a->step))
			continue;
		is_other |= !a->block[i].is_shaped || !moment_is_passing(b->category);
		if (!s->bytes)
			s->first_step = b->step;
		s->last_step = b->step;
		s->bytes += b->life.size;
		shapecache_add(&s->cache, autopsy_group(a, i)->shape, a->step ? b->step : (uint32_t)i);
	}
	return shapecache_close(&s->cache) && !is_other;
}

void autopsy_say_shapes(const struct autopsy *a, struct autopsy_finding *f, size_t place)
{
	struct kept_shapes kept;

	if (is_one_per_shape(a, place, &kept))
		autopsy_evidence(f, SAID(shapes_differ, fact_count("shapes", kept.cache.nr_shapes)));
}

bool autopsy_is_shape_cache(const struct autopsy *a, struct autopsy_finding *f)
{
	struct kept_shapes kept;

	for (size_t i = 0; a->step && i < a->nr_places && autopsy_matters(a, a->place[i].bytes); i++) {
		uint32_t nr;

		if (!is_one_per_shape(a, i, &kept) || !autopsy_matters(a, kept.bytes))
			continue;
		nr = kept.cache.nr_shapes;
		f->bytes = kept.bytes;
		autopsy_at_place(a, f, i);
		autopsy_say(f, SAID(shape_cache, fact_bytes("bytes", f->bytes), fact_count("shapes", nr)));
		autopsy_evidence(f, SAID(shape_cache_steps, fact_step("first", kept.first_step), fact_step("last", kept.last_step)));
		autopsy_advise(f, SAID(shape_cache_advice, fact_bytes("saved", f->bytes - f->bytes / nr)));
		return true;
	}
	return false;
}
