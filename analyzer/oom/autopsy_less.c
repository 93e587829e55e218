/* SPDX-License-Identifier: MIT */
/* Not causes: of what could be had with less memory, in parts, in place of another, in narrower elements, fewer at a time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/findings/sentence.h"
#include "analyzer/names/groupkeeper.h"
#include "analyzer/names/letgo.h"
#include "analyzer/names/objectway.h"
#include "analyzer/oom/autopsy_causes.h"
#include "analyzer/oom/oom_thresholds.h"
#include "analyzer/stacks/element.h"
#include "analyzer/stacks/sourceline.h"

#define INT64 4
#define FLOAT32 6
#define FLOAT64 7
#define COMPLEX128 10

/* Does what the function that asked has made last belong to a graph? Then what it was to make would, and the graph keeps all parts of it. */
static bool is_asked_for_graph(const struct autopsy *a)
{
	const struct category_block *block = a->categories.block;
	size_t latest = SIZE_MAX;

	for (size_t i = 0; i < a->categories.nr_blocks && a->has_site; i++)
		if (sourceline_is_same_function(&a->place[a->block[i].place].frame, &a->site) &&
		    (latest == SIZE_MAX || block[i].life.birth.ordinal > block[latest].life.birth.ordinal))
			latest = i;
	return latest != SIZE_MAX && a->failure->phase != PHASE_BACKWARD && a->failure->phase != PHASE_OPTIMIZER &&
	       a->block[latest].has_graph;
}

void autopsy_advise_parts(const struct autopsy *a, struct autopsy_finding *f, uint64_t bytes, uint64_t went)
{
	/* As large as what went; where that was so little that it was another computation, a good part of what would have fitted. */
	uint64_t fit = a->largest_fit / AUTOPSY_PARTS, part = went < fit / AUTOPSY_PARTS ? fit : went;
	uint64_t parts = went && part < bytes ? (bytes + part - 1) / part : AUTOPSY_PARTS;

	if (!strcmp(a->operation, "one_hot") && bytes == a->failure->asked)
		autopsy_advise(f, SAID(one_hot_advice, fact_bytes("bytes", bytes)));
	autopsy_advise(f, SAID(spike_advice, fact_count("parts", parts), fact_flag("in_graph", is_asked_for_graph(a)),
			       fact_bytes("saved", bytes - bytes / parts)));
}

/* What is in elements of eight bytes, or of twice eight, though half as many or fewer would mostly do. */
struct wide {
	uint64_t floats, integers; /* bytes, with the request's */
	size_t largest_float, largest_integer; /* blocks; SIZE_MAX: the request alone is */
	size_t first_float; /* made before all others that are there */
	bool is_float_asked;
	bool is_odd;		   /* the model has parameters, and none of them is in float64 */
};

static bool is_wide_float(const struct tfmt_shape *s)
{
	return s->element_type == FLOAT64 || s->element_type == COMPLEX128;
}

static void add_wide(uint64_t *bytes, size_t *largest, const struct autopsy *a, size_t i)
{
	const struct category_block *block = a->categories.block;

	if (*largest == SIZE_MAX || block[i].life.size > block[*largest].life.size)
		*largest = i;
	*bytes += block[i].life.size;
}

/* A window or a table that a module has as well, in an attribute, is none of its parameters: a census tells. */
static bool is_parameter(const struct autopsy *a, size_t i)
{
	struct named named;

	return a->categories.block[i].category == CATEGORY_PARAMETER &&
	       (!namedblocks_name(&named, a->device->process, &a->categories.block[i].life, LIVES_OOM) || named.use == USE_PARAMETER);
}

static struct wide find_wide(const struct autopsy *a)
{
	struct wide w = { .largest_float = SIZE_MAX, .largest_integer = SIZE_MAX, .first_float = SIZE_MAX };
	bool has_parameters = false, has_wide = false;
	struct tfmt_shape asked;

	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct tfmt_shape *s = &a->block[i].shape;

		if (is_parameter(a, i)) {
			has_parameters = true;
			has_wide |= a->block[i].is_shaped && is_wide_float(s);
		} else if (a->block[i].is_shaped && is_wide_float(s)) {
			add_wide(&w.floats, &w.largest_float, a, i);
			if (w.first_float == SIZE_MAX ||
			    a->categories.block[i].life.birth.ordinal < a->categories.block[w.first_float].life.birth.ordinal)
				w.first_float = i;
		} else if (a->block[i].is_shaped && s->element_type == INT64) {
			add_wide(&w.integers, &w.largest_integer, a, i);
		}
	}
	if (a->failure->shape && tfmt_reader_shape(a->device->process->reader, a->failure->shape, &asked)) {
		w.is_float_asked = is_wide_float(&asked);
		w.floats += w.is_float_asked ? a->failure->asked : 0;
		/* Where each was before it was sorted is told in int64 only. */
		w.integers += asked.element_type == INT64 && !autopsy_is_sorting(a->operation) ? a->failure->asked : 0;
	}
	w.is_odd = has_parameters && !has_wide;
	return w;
}

/* Where most of it was made; where nothing of it is there yet, where it was asked for. */
static const struct stack_frame *line_of_wide(const struct autopsy *a, size_t largest)
{
	return largest == SIZE_MAX ? &a->site : &a->place[a->block[largest].place].frame;
}

/* Without them there would have been room, and the model has none. */
static bool are_doubles_odd(const struct autopsy *a, const struct wide *w)
{
	return !a->failure->is_driver && w->is_odd && w->floats / 2 >= a->lacking && autopsy_matters(a, w->floats);
}

uint64_t autopsy_doubles(const struct autopsy *a)
{
	struct wide w = find_wide(a);

	return are_doubles_odd(a, &w) ? w.floats : 0;
}

void autopsy_say_doubles(const struct autopsy *a, struct autopsy_finding *f)
{
	struct wide w = find_wide(a);

	if (!are_doubles_odd(a, &w) || 2 * w.floats <= a->failure->allocated + a->failure->asked)
		return;
	autopsy_say(f, SAID(sum_of_doubles, fact_bytes("bytes", w.floats), fact_if(w.is_float_asked, fact_bytes("asked", a->failure->asked))));
	autopsy_drop_evidence(f, SAY_doubles_beside_model); /* it says no more */
}

/* Is what is largest in int64, and would there have been room with half of it? */
void autopsy_say_integers(const struct autopsy *a, struct autopsy_finding *f)
{
	const struct category_block *block = a->categories.block;
	struct wide w = find_wide(a);
	char shape[SHAPE_TEXT_MAX];

	if (a->failure->is_driver || w.largest_integer == SIZE_MAX || w.integers / 2 < a->lacking || !autopsy_matters(a, w.integers) ||
	    block[w.largest_integer].life.size < a->failure->asked)
		return;
	for (size_t i = 0; i < a->categories.nr_blocks; i++)
		if (block[i].life.size > block[w.largest_integer].life.size)
			return;
	f->bytes = w.integers;
	autopsy_at_place(a, f, a->block[w.largest_integer].place);
	autopsy_say(f, SAID(sum_of_integers, fact_bytes("bytes", block[w.largest_integer].life.size),
			    fact_name("shape", shape_text(shape, &a->block[w.largest_integer].shape)), fact_bytes("asked", a->failure->asked)));
}

bool autopsy_is_uncontracted(const struct autopsy *a)
{
	struct tfmt_shape asked;

	/* What einsum() contracts it has as matrices, of three dimensions at most: more are a product of all of them. */
	return !strcmp(a->operation, "einsum") && a->failure->asked > a->failure->allocated && a->failure->shape &&
	       tfmt_reader_shape(a->device->process->reader, a->failure->shape, &asked) && asked.nr_dims > 3;
}

void autopsy_advise_narrower(const struct autopsy *a, struct autopsy_finding *f)
{
	struct wide w;

	if (a->failure->is_driver)
		return;
	w = find_wide(a);
	if (w.floats / 2 >= a->lacking && autopsy_matters(a, w.floats)) {
		/* What is made of float64 is in float64. */
		struct said said = SAID(double_advice, fact_site("site", line_of_wide(a, w.is_odd ? w.first_float : w.largest_float)),
					fact_bytes("saved", w.floats / 2));

		if (w.is_odd) {
			autopsy_evidence(f, SAID(doubles_beside_model, fact_bytes("bytes", w.floats)));
			autopsy_advise_first(f, said);
		} else {
			autopsy_advise(f, said);
		}
	}
	if (w.integers / 2 >= a->lacking && autopsy_matters(a, w.integers))
		autopsy_advise(f, SAID(integers_advice, fact_site("site", line_of_wide(a, w.largest_integer)), fact_bytes("bytes", w.integers),
				       fact_bytes("saved", w.integers - w.integers / 8)));
}

static bool is_same_shape(const struct tfmt_shape *a, const struct tfmt_shape *b)
{
	return a->nr_dims == b->nr_dims && a->element_type == b->element_type &&
	       !memcmp(a->dims, b->dims, a->nr_dims * sizeof(*a->dims));
}

bool autopsy_is_pointwise(const char *operation)
{
	static const char *const names[] = { "add",  "sub",  "rsub",    "mul",     "div",	   "pow",     "square", "sqrt",	 "rsqrt", "exp",
					     "log",  "neg",  "abs",	"clamp",   "clamp_min", "clamp_max", "sin",	 "cos",	  "tanh",
					     "relu", "gelu", "sigmoid", "where", "masked_fill", "reciprocal", "eq", "ne", "lt", "le", "gt", "ge" };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(operation, names[i]))
			return true;
	return false;
}

void autopsy_say_alike(const struct autopsy *a, struct autopsy_finding *f)
{
	struct tfmt_shape asked;
	char shape[SHAPE_TEXT_MAX];
	uint64_t bytes = 0, nr = 0;

	/* What backward makes goes from node to node, and is in no graph either. */
	if (!a->failure->shape || !*a->operation || a->failure->phase == PHASE_BACKWARD || a->failure->phase == PHASE_OPTIMIZER ||
	    !tfmt_reader_shape(a->device->process->reader, a->failure->shape, &asked))
		asked = (struct tfmt_shape){ 0 };
	for (size_t i = 0; asked.nr_dims && i < a->categories.nr_blocks; i++) {
		if (!a->block[i].is_shaped || !is_same_shape(&a->block[i].shape, &asked) ||
		    !moment_is_passing(a->categories.block[i].category) || a->block[i].has_graph)
			continue;
		bytes += a->categories.block[i].life.size;
		nr++;
	}
	if (nr >= 2 && 2 * (bytes + a->failure->asked) > a->failure->allocated + a->failure->asked) {
		autopsy_evidence_first(f, SAID(alike_are_there, fact_count("tensors", nr),
					       fact_name("shape", shape_text(shape, &asked)), fact_bytes("bytes", bytes),
					       fact_name("operation", a->operation)));
		if (autopsy_is_pointwise(a->operation))
			autopsy_advise(f, SAID(in_place_advice, fact_name("operation", a->operation),
					       fact_bytes("bytes", a->failure->asked)));
		else
			autopsy_advise(f, SAID(done_with_advice, fact_name("shape", shape), fact_bytes("bytes", a->failure->asked)));
	}
	if (!strcmp(a->operation, "embedding_backward"))
		autopsy_advise_first(f, SAID(embedding_advice, fact_bytes("bytes", a->failure->asked)));
	autopsy_advise_narrower(a, f);
}

/* Who keeps them: the nearest; of an object's attributes the container that has these objects, where one does. */
static bool find_line_keeper(struct keeper *k, const struct namegroup *g)
{
	struct keeper next, container;

	if (!g || !groupkeeper_nearest(k, &next, g))
		return false;
	if (k->kind == TFMT_KIND_OTHER && g->is_named && groupkeeper_container(&container, g))
		*k = container;
	return true;
}

/* A container or a generator, which a census has seen; SAY_nothing: nothing is known to keep them. */
static struct said keeper_of_line(const struct namegroup *g)
{
	struct keeper k;

	if (!find_line_keeper(&k, g) || keeper_is_variable(&k))
		return SAID_NOTHING;
	if (k.name.root == ROOT_GENERATOR)
		return SAID(kept_by_generator, fact_name("function", k.name.function ? k.name.function : "?"));
	return *k.name.text ? SAID(kept_by, fact_name("keeper", groupkeeper_name(g, &k.name))) : SAID_NOTHING;
}

/* What a place has of no graph, as backward needs the rest. */
static uint64_t bytes_of_no_graph(const struct autopsy *a, size_t place)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < a->categories.nr_blocks; i++)
		bytes += a->block[i].place == place && !autopsy_is_of_graph(a, i) ? a->categories.block[i].life.size : 0;
	return bytes;
}

/*
 * What each of many calls of an async function has that wait at once, as a server's requests do: more than one of them has asked in vain. Tasks
 * that nobody ends come one by one.
 */
static bool find_in_flight(struct suspended *s, const struct autopsy *a, size_t place)
{
	const struct namegroup *g = a->place[place].named;

	return failures_of(a->failures, a->device)->nr_all > 1 && g && g->is_named && g->blocks >= OUTPUTS_MIN && suspended_find(s, &g->named) &&
	       s->is_async;
}

bool autopsy_is_in_flight(const struct autopsy *a, size_t place)
{
	return find_in_flight(&(struct suspended){ 0 }, a, place);
}

static bool say_in_flight(const struct autopsy *a, struct autopsy_finding *f)
{
	struct suspended s;

	if (!find_in_flight(&s, a, 0))
		return false;
	f->bytes = a->place[0].bytes;
	f->has_holder = true;
	autopsy_at_place(a, f, 0);
	autopsy_say(f, SAID(calls_in_flight, fact_bytes("bytes", a->place[0].named->bytes), fact_count("calls", a->place[0].named->blocks),
			    fact_name("function", s.function ? s.function : "?"), fact_name("variable", s.variable),
			    fact_bytes("asked", a->failure->asked)));
	autopsy_advise_first(f, SAID(calls_in_flight_advice, fact_name("variable", s.variable), fact_bytes("each", a->place[0].bytes / a->place[0].blocks)));
	return true;
}

/* What is to be done with who keeps what a line has made, by what that is. */
static void advise_keeper(const struct autopsy *a, struct autopsy_finding *f)
{
	const struct autopsy_place *place = &a->place[0];
	const struct namegroup *g = place->named;
	struct fact each = fact_bytes("each", place->bytes / place->blocks);
	struct objectname by_tensors;
	struct said let_go = letgo_chain_of_objects(NULL, g) ? letgo_said(g, false) : SAID_NOTHING;
	char code[SENTENCE_MAX];
	struct keeper k;
	bool is_known = find_line_keeper(&k, g);

	if (let_go.sentence == SAY_nothing)
		let_go = letgo_of_owner(g);
	if (letgo_keyed_by_tensors(&by_tensors, g)) {
		autopsy_evidence_first(f, SAID(keyed_by_tensors, fact_name("holder", by_tensors.text)));
		autopsy_advise_first(f, SAID(keyed_by_tensors_advice, fact_name("holder", by_tensors.text), fact_bytes("bytes", g->bytes)));
	} else if (let_go.sentence != SAY_nothing) {
		autopsy_advise_first(f, SAID(let_go_advice, fact_name("code", sentence_text(code, &let_go)), fact_site("site", &f->site), fact_bytes("bytes", g->bytes)));
	} else {
		autopsy_advise_first(f, SAID(line_has_most_advice, each));
		if (is_known && (k.kind == TFMT_KIND_DICT || k.kind == TFMT_KIND_SET))
			autopsy_advise_first(f, SAID(container_advice, fact_name("holder", groupkeeper_name(g, &k.name)), each));
	}
}

void autopsy_say_line(const struct autopsy *a, struct autopsy_finding *f)
{
	const struct autopsy_place *place = a->nr_places ? &a->place[0] : NULL;
	char keeper[SENTENCE_MAX];
	struct keeper bounded;
	struct said keeps;
	bool is_kept;

	if (!place || place->blocks < OUTPUTS_MIN || 2 * bytes_of_no_graph(a, 0) < a->failure->allocated ||
	    !moment_is_passing(a->categories.block[place->largest].category))
		return;
	if (place->named && groupkeeper_bounded(&bounded, place->named)) /* on purpose, and no more than so many */
		return;
	if (say_in_flight(a, f))
		return;
	keeps = keeper_of_line(place->named);
	is_kept = keeps.sentence != SAY_nothing;
	f->bytes = place->bytes;
	autopsy_at_place(a, f, 0);
	f->has_holder = is_kept;
	autopsy_say(f, SAID(line_has_most, fact_count("tensors", place->blocks), fact_if(is_kept, fact_name("keeper", sentence_text(keeper, &keeps))),
			    fact_bytes("bytes", place->bytes), fact_bytes("allocated", a->failure->allocated),
			    fact_bytes("asked", a->failure->asked)));
	if (is_kept)
		advise_keeper(a, f);
	else
		autopsy_advise_first(f, SAID(line_has_most_advice, fact_bytes("each", place->bytes / place->blocks)));
}

/* Made by the function that asked for more, and for no graph: what it computes could be computed in parts. */
static bool is_of_computation(const struct autopsy *a, size_t i)
{
	const struct stack_frame *made = &a->place[a->block[i].place].frame;

	return moment_is_passing(a->categories.block[i].category) && !a->block[i].has_graph && a->block[i].is_shaped && a->has_site &&
	       made->file && made->function && sourceline_is_same_function(made, &a->site);
}

void autopsy_say_largest(const struct autopsy *a, struct autopsy_finding *f)
{
	const struct category_block *block = a->categories.block;
	size_t largest = SIZE_MAX;
	uint64_t bytes = 0, nr = 0;
	char shape[SHAPE_TEXT_MAX];

	for (size_t i = 0; i < a->categories.nr_blocks; i++)
		if (is_of_computation(a, i) && (largest == SIZE_MAX || block[i].life.size > block[largest].life.size))
			largest = i;
	for (size_t i = 0; largest != SIZE_MAX && i < a->categories.nr_blocks; i++) {
		if (!is_of_computation(a, i) || block[i].life.size < block[largest].life.size / 2)
			continue;
		bytes += block[i].life.size;
		nr++;
	}
	if (f->nr_advice || nr >= OUTPUTS_MIN || 2 * bytes <= a->failure->allocated)
		return;
	f->bytes = bytes + a->failure->asked;
	autopsy_at_place(a, f, a->block[largest].place);
	autopsy_say(f, SAID(largest_have_most, fact_count("tensors", nr), fact_bytes("bytes", bytes),
			    fact_bytes("allocated", a->failure->allocated), fact_bytes("asked", a->failure->asked)));
	autopsy_evidence(f, SAID(largest_is, fact_name("shape", shape_text(shape, &a->block[largest].shape))));
	autopsy_advise_parts(a, f, bytes, 0);
}

void autopsy_advise_half(const struct autopsy *a, struct autopsy_finding *f)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct category_block *b = &a->categories.block[i];

		if (b->category == CATEGORY_GRADIENT || b->category == CATEGORY_OPTIMIZER_STATE)
			return;
		if (b->category == CATEGORY_PARAMETER && a->block[i].is_shaped && a->block[i].shape.element_type == FLOAT32)
			bytes += b->life.size;
	}
	if (!a->failure->nr_begun && bytes / 2 >= a->lacking && autopsy_matters(a, bytes))
		autopsy_advise(f, SAID(half_weights_advice, fact_bytes("saved", bytes / 2)));
}

/* ---- rows that are there in one tensor, and again in parts of it ------------------------------- */

/* Data, that no model or optimizer has. */
static bool is_data(const struct autopsy *a, size_t i)
{
	return a->block[i].is_shaped && !a->block[i].has_graph && moment_is_passing(a->categories.block[i].category);
}

/* Rows of the same kind as those of a tensor: all of its shape but the first dimension. */
static bool has_such_rows(const struct tfmt_shape *s, const struct tfmt_shape *of)
{
	return s->nr_dims == of->nr_dims && of->nr_dims >= 2 && s->element_type == of->element_type &&
	       !memcmp(s->dims + 1, of->dims + 1, (of->nr_dims - 1) * sizeof(*of->dims));
}

struct part {
	uint64_t rows;
	size_t block;
};

static int by_rows(const void *va, const void *vb)
{
	const struct part *a = va, *b = vb;

	return (a->rows < b->rows) - (a->rows > b->rows);
}

/* Tensors made after it, of fewer rows each, that have as many as it together; the largest first. Returns how many; 0: there are none. */
static size_t find_parts(struct part *part, const struct autopsy *a, size_t whole)
{
	const struct tfmt_shape *of = &a->block[whole].shape;
	uint64_t rows = 0;
	size_t nr = 0, taken = 0;

	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct tfmt_shape *s = &a->block[i].shape;

		if (is_data(a, i) && has_such_rows(s, of) && s->dims[0] < of->dims[0] &&
		    a->categories.block[i].life.birth.ordinal > a->categories.block[whole].life.birth.ordinal)
			part[nr++] = (struct part){ s->dims[0], i };
	}
	qsort(part, nr, sizeof(*part), by_rows);
	for (size_t i = 0; i < nr && rows < of->dims[0]; i++) {
		if (rows + part[i].rows > of->dims[0])
			continue;
		rows += part[i].rows;
		part[taken++] = part[i];
	}
	return rows == of->dims[0] ? taken : 0;
}

void autopsy_say_split(const struct autopsy *a, struct autopsy_finding *f)
{
	struct part *part = heap_alloc(a->categories.nr_blocks + 1, sizeof(*part));
	size_t whole = 0, nr = 0;
	char shape[SHAPE_TEXT_MAX];
	struct named named;
	bool has_name;

	for (size_t i = 0; i < a->categories.nr_blocks && !nr; i++) {
		whole = i;
		if (is_data(a, i) && autopsy_matters(a, a->categories.block[i].life.size))
			nr = find_parts(part, a, i);
	}
	if (nr >= 2) {
		uint64_t bytes = a->categories.block[whole].life.size;
		struct fact site = fact_site("site", &a->place[a->block[part[0].block].place].frame);

		has_name = namedblocks_name(&named, a->device->process, &a->categories.block[whole].life, LIVES_OOM);
		f->bytes = bytes;
		f->has_holder = has_name;
		autopsy_at_place(a, f, a->block[whole].place);
		autopsy_say(f, SAID(rows_are_twice, fact_bytes("bytes", bytes), fact_count("tensors", nr), site,
				    fact_name("shape", shape_text(shape, &a->block[whole].shape)), fact_bytes("asked", a->failure->asked)));
		if (has_name)
			autopsy_advise_first(f, SAID(split_advice, fact_name("holder", named.name.text), site, fact_bytes("bytes", bytes)));
		else
			autopsy_advise_first(f, SAID(split_unnamed_advice, site, fact_bytes("bytes", bytes)));
	}
	free(part);
}

/* What one checkpoint() has recomputed for the pass at hand. */
struct recomputed {
	uint32_t object; /* of the census */
	uint64_t bytes;
};

void autopsy_say_recomputed(const struct autopsy *a, struct autopsy_finding *f)
{
	struct recomputed *of = heap_alloc(a->categories.nr_blocks + 1, sizeof(*of)), *most = of;
	size_t nr = 0;

	most->bytes = 0;
	for (size_t i = 0; a->failure->phase == PHASE_BACKWARD && i < a->categories.nr_blocks; i++) {
		const struct life *life = &a->categories.block[i].life;
		struct named named;
		uint32_t object;
		size_t k = 0;

		if (life->birth.ordinal < a->step_ordinal || !namedblocks_name(&named, a->device->process, life, LIVES_OOM))
			continue;
		object = objectway_through(named.census->census, named.object, "_CheckpointFrame");
		while (k < nr && of[k].object != object)
			k++;
		if (!object)
			continue;
		if (k == nr)
			of[nr++] = (struct recomputed){ object, 0 };
		of[k].bytes += life->size;
		most = of[k].bytes > most->bytes ? &of[k] : most;
	}
	if (2 * most->bytes > a->failure->allocated) {
		f->bytes = most->bytes;
		autopsy_say(f, SAID(recomputed_at_once, fact_bytes("bytes", most->bytes), fact_bytes("asked", a->failure->asked)));
		autopsy_advise_first(f, SAID(recomputed_advice, fact_bytes("bytes", most->bytes)));
	}
	free(of);
}
