/* SPDX-License-Identifier: MIT */
/*
 * Causes: models that nothing but weakref.finalize() leads to, or the cache of torch.autocast(). Not causes: that many models of one
 * class hold more than any line, as of a population or of one for each customer; that one is there which the step has not called; that
 * modules of a kind are nested in one another, as adapters around adapters.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/findings/sentence.h"
#include "analyzer/names/letgo.h"
#include "analyzer/oom/autopsy_causes.h"
#include "analyzer/oom/oom_thresholds.h"

struct model {
	uint64_t address;	/* of the module that is in no other */
	const char *class_name; /* its */
	uint64_t bytes;		/* of its parameters and buffers, their gradients and optimizer state */
	size_t largest;		/* block of a parameter or buffer */
	bool is_own;		/* it is one */
	bool is_trained;	/* it has gradients or state */
};

static int by_address(const void *va, const void *vb)
{
	const struct model *a = va, *b = vb;

	return (a->address > b->address) - (a->address < b->address);
}

static int by_class(const void *va, const void *vb)
{
	const struct model *a = va, *b = vb;

	return strcmp(a->class_name, b->class_name);
}

/* The model that a block belongs to, an optimizer's state by its parameter. false: to none. */
static bool find_model(struct model *m, const struct autopsy *a, size_t i)
{
	const struct category_block *b = &a->categories.block[i];
	bool is_own = b->category == CATEGORY_PARAMETER || b->category == CATEGORY_BUFFER;
	struct modelkeeper k;
	struct named named;

	if ((!is_own && b->category != CATEGORY_GRADIENT && b->category != CATEGORY_OPTIMIZER_STATE) ||
	    !namedblocks_name(&named, a->device->process, &b->life, LIVES_OOM))
		return false;
	modelkeeper_find(&k, named.census->census, named.object);
	if (k.parameter)
		modelkeeper_find(&k, named.census->census, k.parameter);
	*m = (struct model){ k.outermost, k.class_name, b->life.size, i, is_own, !is_own };
	return k.outermost && (!is_own || k.name.root != ROOT_NATIVE);
}

/* Of each block that a model has, one model; then those of the same address are one. Returns how many. */
static size_t find_models(struct model *model, const struct autopsy *a)
{
	const struct category_block *block = a->categories.block;
	size_t nr = 0, models = 0;

	for (size_t i = 0; i < a->categories.nr_blocks; i++)
		nr += find_model(&model[nr], a, i);
	qsort(model, nr, sizeof(*model), by_address);
	for (size_t i = 0; i < nr; i++) {
		struct model *last = models ? &model[models - 1] : NULL;

		if (!last || last->address != model[i].address) {
			model[models++] = model[i];
			continue;
		}
		last->bytes += model[i].bytes;
		last->is_trained |= model[i].is_trained;
		if (model[i].is_own > last->is_own || (model[i].is_own == last->is_own && block[model[i].largest].life.size >
											  block[last->largest].life.size)) {
			last->largest = model[i].largest;
			last->is_own = model[i].is_own;
		}
	}
	return models;
}

/* Those of the class that has most: the first of them, how many they are, and their bytes. */
static const struct model *most_of_class(const struct model *model, size_t nr, size_t *of_class, uint64_t *bytes)
{
	const struct model *most = NULL;

	*bytes = 0;
	for (size_t i = 0, end; i < nr; i = end) {
		uint64_t sum = 0;

		for (end = i; end < nr && !strcmp(model[end].class_name, model[i].class_name); end++)
			sum += model[end].bytes;
		if (!*model[i].class_name || sum <= *bytes)
			continue;
		most = &model[i];
		*of_class = end - i;
		*bytes = sum;
	}
	return most;
}

/* Bytes of parameters made since the latest of the models was, if the request was for one more: another is being made. */
static uint64_t being_made(const struct autopsy *a, const struct model *model, size_t nr)
{
	const struct category_block *block = a->categories.block;
	uint64_t latest = 0, bytes = 0;
	bool is_parameter = false;

	for (size_t i = 0; i < nr; i++)
		if (block[model[i].largest].life.birth.ordinal > latest)
			latest = block[model[i].largest].life.birth.ordinal;
	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		if (block[i].category != CATEGORY_PARAMETER)
			continue;
		is_parameter |= autopsy_group(a, i)->shape == a->failure->shape;
		bytes += block[i].life.birth.ordinal > latest ? block[i].life.size : 0;
	}
	return is_parameter ? bytes : 0;
}

/* Has a tensor the shape of so many such parameters put together: of eight [512, 128] that is [8, 512, 128], or [4096, 128] as stack() makes it. */
static bool is_stack_of(const struct tfmt_shape *s, uint64_t nr, const struct tfmt_shape *of)
{
	if (!of->nr_dims)
		return false;
	if (s->nr_dims == of->nr_dims + 1)
		return s->dims[0] == nr && !memcmp(s->dims + 1, of->dims, of->nr_dims * sizeof(*of->dims));
	return s->nr_dims == of->nr_dims && s->dims[0] == nr * of->dims[0] &&
	       !memcmp(s->dims + 1, of->dims + 1, (of->nr_dims - 1) * sizeof(*of->dims));
}

/* Tensors that are the models' weights put together, as torch.func.stack_module_state() makes them. The largest is left in *largest. */
static uint64_t stacked_bytes(const struct autopsy *a, const struct model *first, size_t nr, size_t *largest)
{
	const struct category_block *block = a->categories.block;
	size_t *of = heap_alloc(a->categories.nr_blocks + 1, sizeof(*of)), nr_of = 0;
	uint64_t bytes = 0, most = 0;
	struct modelkeeper k;

	for (size_t i = 0; i < a->categories.nr_blocks; i++)
		if (block[i].category == CATEGORY_PARAMETER && a->block[i].is_shaped && autopsy_find_holder(&k, a, i) &&
		    k.outermost == first->address)
			of[nr_of++] = i;
	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		bool is = false;

		for (size_t j = 0; a->block[i].is_shaped && j < nr_of && !is; j++)
			is = is_stack_of(&a->block[i].shape, nr, &a->block[of[j]].shape);
		bytes += is ? block[i].life.size : 0;
		if (is && block[i].life.size > most) {
			most = block[i].life.size;
			*largest = i;
		}
	}
	free(of);
	return bytes;
}

void autopsy_say_models(const struct autopsy *a, struct autopsy_finding *f)
{
	struct model *model;
	const struct model *first;
	char holder[OBJECTNAME_MAX];
	uint64_t bytes, more, stacked;
	size_t nr, largest = 0;

	if (!a->device->process->names)
		return;
	model = heap_alloc(a->categories.nr_blocks + 1, sizeof(*model));
	nr = find_models(model, a);
	qsort(model, nr, sizeof(*model), by_class);
	first = most_of_class(model, nr, &nr, &bytes);
	if (first && nr >= MODELS_ALIKE_MIN && autopsy_matters(a, bytes) && bytes >= a->place[0].bytes &&
	    autopsy_has_own_forward(a, first->class_name)) {
		f->bytes = bytes;
		more = being_made(a, first, nr);
		stacked = stacked_bytes(a, first, nr, &largest);
		if (!more && !stacked) /* else the request is of the making of one, or what their stack is for */
			autopsy_at_making(a, f, first->largest);
		autopsy_say(f, SAID(models_alike, fact_count("models", nr), fact_name("class", first->class_name), fact_bytes("bytes", bytes),
				    fact_if(stacked, fact_bytes("stacked", stacked)), fact_if(more, fact_bytes("more", more)),
				    fact_bytes("allocated", a->failure->allocated), fact_bytes("asked", a->failure->asked)));
		f->has_holder = autopsy_say_holder(holder, a, f, first->largest, first[1].largest);
		if (stacked && f->has_holder)
			autopsy_advise(f, SAID(models_stacked_advice, fact_name("holder", holder),
					       fact_site("site", &a->place[a->block[largest].place].frame), fact_bytes("bytes", bytes)));
		autopsy_advise(f, SAID(models_alike_advice, fact_bytes("each", bytes / nr)));
	}
	free(model);
}

/* ---- a model that is there and not called ------------------------------------------------------ */

/* Where the step at hand begins; the first has all before it as well, and begins with the first of its tensors that is still there. */
static uint64_t begin_of_step(const struct autopsy *a)
{
	uint64_t begin = UINT64_MAX;

	for (size_t i = 0; a->step == 1 && i < a->categories.nr_blocks; i++) {
		const struct category_block *b = &a->categories.block[i];

		if (moment_is_passing(b->category) && b->category != CATEGORY_WORKSPACE && b->life.birth.ordinal < begin)
			begin = b->life.birth.ordinal;
	}
	return a->step == 1 ? begin : a->step_ordinal;
}

/* Called, but not by the step at hand, of which forward is over. */
static bool is_idle(const struct autopsy *a, const struct model *m, uint64_t begin)
{
	uint64_t call = modulepaths_latest_call(a->device->process->modulepaths, m->address);

	return !m->is_trained && call && call < begin;
}

/* Is one of the same class in use? Then it may be its average, or what it was before, which is there for it. */
static bool is_copy(const struct autopsy *a, const struct model *model, size_t nr, const struct model *of, uint64_t begin)
{
	for (size_t i = 0; i < nr; i++)
		if (!strcmp(model[i].class_name, of->class_name) && !is_idle(a, &model[i], begin))
			return true;
	return false;
}

void autopsy_say_idle(const struct autopsy *a, struct autopsy_finding *f)
{
	bool is_after_forward = a->failure->phase == PHASE_BACKWARD || a->failure->phase == PHASE_OPTIMIZER;
	const struct model *idle = NULL;
	char holder[OBJECTNAME_MAX];
	struct model *model;
	uint64_t begin;
	size_t nr;

	if (!a->device->process->names || !a->device->process->modulepaths || !a->step || !is_after_forward)
		return;
	model = heap_alloc(a->categories.nr_blocks + 1, sizeof(*model));
	nr = find_models(model, a);
	begin = begin_of_step(a);
	for (size_t i = 0; i < nr; i++)
		if (is_idle(a, &model[i], begin) && (!idle || model[i].bytes > idle->bytes) && !is_copy(a, model, nr, &model[i], begin))
			idle = &model[i];
	if (idle && autopsy_matters(a, idle->bytes)) {
		f->bytes = idle->bytes;
		autopsy_at_making(a, f, idle->largest);
		autopsy_say(f, SAID(model_is_idle, fact_bytes("bytes", idle->bytes), fact_name("class", idle->class_name),
				    fact_bytes("asked", a->failure->asked)));
		f->has_holder = autopsy_say_holder(holder, a, f, idle->largest, idle->largest);
		if (f->has_holder)
			autopsy_advise_first(f, SAID(idle_model_advice, fact_name("holder", holder), fact_bytes("bytes", idle->bytes)));
	}
	free(model);
}

/* ---- models that weakref.finalize() keeps ------------------------------------------------------ */

bool autopsy_is_kept_by_finalizer(const struct autopsy *a, struct autopsy_finding *f)
{
	struct model *model = heap_alloc(a->categories.nr_blocks + 1, sizeof(*model));
	size_t nr = a->device->process->names ? find_models(model, a) : 0, nr_kept = 0;
	struct said let_go = { .sentence = SAY_nothing };
	char code[SENTENCE_MAX];
	size_t latest = 0;
	uint64_t bytes = 0;
	bool applies;

	for (size_t i = 0; i < nr; i++) {
		struct named named;
		struct said of = { .sentence = SAY_nothing };

		if (namedblocks_name(&named, a->device->process, &a->categories.block[model[i].largest].life, LIVES_OOM))
			of = letgo_of_finalizer(&named);
		if (of.sentence == SAY_nothing)
			continue;
		let_go = of;
		latest = model[i].largest;
		bytes += model[i].bytes;
		nr_kept++;
	}
	applies = nr_kept > 1 && autopsy_matters(a, bytes);
	if (applies) {
		f->bytes = bytes;
		f->has_holder = true;
		f->certainty = CERTAINTY_PROVEN;
		autopsy_at_making(a, f, latest);
		autopsy_say(f, SAID(models_of_finalizer, fact_bytes("bytes", bytes), fact_count("models", nr_kept)));
		autopsy_advise(f, SAID(let_go_advice, fact_name("code", sentence_text(code, &let_go)), fact_if(f->has_caller, fact_site("site", &f->caller)),
				       fact_bytes("bytes", bytes)));
	}
	free(model);
	return applies;
}

/* ---- models whose weights torch.autocast() keeps ----------------------------------------------- */

/*
 * Until its outermost block is left it has the copy in a narrower type of each weight that requires grad, and by the copy's node of
 * autograd's the weight itself: of models that come and go within it nothing goes. The facts are a census's: no object of Python's
 * holds the weight, nor any copy of it.
 */
#define SHAPES_MAX 64 /* a bound of time alone: the weights of a model have fewer shapes */

/* Weights of one shape, and their copies and gradients. */
struct shape_casts {
	uint32_t id; /* TFMT_DEF_SHAPE */
	struct tfmt_shape shape;
	uint64_t weights, weight_bytes, casts, cast_bytes, gradients, gradient_bytes;
};

struct casts {
	struct shape_casts of[SHAPES_MAX];
	size_t nr;
	size_t weight, cast; /* the largest, and one of all; blocks */
	uint64_t weights, bytes;
};

/* Is it a tensor that no object of Python's holds? */
static bool is_unheld(const struct autopsy *a, size_t block)
{
	return a->block[block].is_native && a->block[block].is_shaped && a->block[block].shape.nr_dims;
}

static void find_weights(struct casts *c, const struct autopsy *a)
{
	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		uint32_t id = autopsy_group(a, i)->shape;
		size_t k = 0;

		if (a->categories.block[i].category != CATEGORY_PARAMETER || !is_unheld(a, i))
			continue;
		while (k < c->nr && c->of[k].id != id)
			k++;
		if (k == SHAPES_MAX)
			continue;
		if (k == c->nr)
			c->of[c->nr++] = (struct shape_casts){ .id = id, .shape = a->block[i].shape };
		if (!c->weights++ || a->categories.block[i].life.size > a->categories.block[c->weight].life.size)
			c->weight = i;
		c->of[k].weights++;
		c->of[k].weight_bytes += a->categories.block[i].life.size;
	}
}

/* Is it, of a weight of this shape, the copy in a narrower type? */
static bool is_cast(const struct tfmt_shape *s, const struct tfmt_shape *weight)
{
	return s->nr_dims == weight->nr_dims && s->bytes < weight->bytes &&
	       !memcmp(s->dims, weight->dims, s->nr_dims * sizeof(*s->dims));
}

/* No more than one of each weight's are its own. */
static void find_casts(struct casts *c, const struct autopsy *a)
{
	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct category_block *b = &a->categories.block[i];

		for (size_t k = 0; k < c->nr && is_unheld(a, i) && b->category != CATEGORY_PARAMETER; k++) {
			struct shape_casts *s = &c->of[k];

			if (is_cast(&a->block[i].shape, &s->shape) && s->casts < s->weights) {
				s->casts++;
				s->cast_bytes += b->life.size;
				c->cast = i;
			} else if (b->category == CATEGORY_GRADIENT && autopsy_group(a, i)->shape == s->id &&
				   s->gradients < s->weights) {
				s->gradients++;
				s->gradient_bytes += b->life.size;
			}
		}
	}
}

bool autopsy_is_kept_by_autocast(const struct autopsy *a, struct autopsy_finding *f)
{
	struct casts *c = heap_alloc(1, sizeof(*c));
	struct stack_frame call;
	bool applies;

	find_weights(c, a);
	find_casts(c, a);
	c->weights = 0;
	for (size_t k = 0; k < c->nr; k++) {
		const struct shape_casts *s = &c->of[k];

		if (s->casts < s->weights)
			continue;
		c->weights += s->weights;
		c->bytes += s->weight_bytes + s->cast_bytes + s->gradient_bytes;
	}
	applies = c->weights && autopsy_matters(a, c->bytes);
	if (applies) {
		bool has_call = autopsy_call_line(a, autopsy_group(a, c->cast)->python_stack, &call);

		f->bytes = c->bytes;
		f->certainty = CERTAINTY_PROVEN;
		f->has_holder = true;
		autopsy_at_making(a, f, c->weight);
		autopsy_say(f, SAID(kept_by_autocast, fact_bytes("bytes", c->bytes), fact_count("weights", c->weights)));
		autopsy_advise(f, SAID(autocast_advice, fact_if(has_call, fact_site("site", &call)), fact_bytes("bytes", c->bytes)));
	}
	free(c);
	return applies;
}

/* ---- adapters around adapters ------------------------------------------------------------------ */

/* How often the steps that end here come one after the other: of "fc1.base.base.base" one step, 3 times. `length`: of them, in bytes. */
static unsigned repeats(const char *begin, const char *end, size_t length)
{
	unsigned nr = 1;

	while (end - begin >= (ptrdiff_t)(2 * length) && !memcmp(end - length, end - 2 * length, length)) {
		end -= length;
		nr++;
	}
	return nr;
}

/* The most often that one or two steps of a name (".base", ".base_model.model") are repeated, and how much of it has two of them. */
static unsigned most_repeats(const char *name, int *shown)
{
	unsigned most = 0;

	for (const char *at = name; (at = strchr(at, '.')); at++) {
		const char *stop = at + 1 + strcspn(at + 1, "."), *step = at;

		for (int steps = 1; steps <= 2 && step; steps++) {
			size_t length = (size_t)(stop - step);
			unsigned nr = repeats(name, stop, length);

			if (nr > most) {
				most = nr;
				*shown = (int)(stop - name - (ptrdiff_t)((nr - 1) * length) + (ptrdiff_t)(nr > 1 ? length : 0));
			}
			while (step > name && *--step != '.')
				;
			step = *step == '.' && step > name ? step : NULL;
		}
	}
	return most;
}

void autopsy_say_nested(const struct autopsy *a, struct autopsy_finding *f)
{
	char name[OBJECTNAME_MAX] = "";
	unsigned most = 0, nr_steps = 0; /* in which such parameters were made: a U-Net is nested as well, from the beginning */
	uint32_t last = 0;
	size_t wrapper = 0; /* a parameter of one's own: in the innermost is what was wrapped */

	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		struct named named;
		unsigned nr;
		int shown = 0;

		if (a->categories.block[i].category != CATEGORY_PARAMETER ||
		    !namedblocks_name(&named, a->device->process, &a->categories.block[i].life, LIVES_OOM) || !named.name.of_module)
			continue;
		nr = most_repeats(named.name.pattern, &shown);
		if (nr > 1 && (!nr_steps || a->categories.block[i].step != last)) {
			nr_steps++;
			last = a->categories.block[i].step;
		}
		wrapper = nr == NESTED_MIN - 1 ? i : wrapper;
		if (nr <= most)
			continue;
		most = nr;
		snprintf(name, sizeof(name), "%.*s...", shown, named.name.pattern);
	}
	if (most < NESTED_MIN || nr_steps < NESTED_MIN)
		return;
	autopsy_say(f, SAID(modules_nested, fact_count("times", most), fact_name("name", name), fact_bytes("allocated", a->failure->allocated),
			    fact_bytes("asked", a->failure->asked)));
	if (wrapper)
		autopsy_at_making(a, f, wrapper);
	autopsy_advise_first(f, SAID(modules_nested_advice, NO_FACTS));
}
