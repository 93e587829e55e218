/* SPDX-License-Identifier: MIT */
/* Causes: what is kept of the model's calls where no backward pass makes steps of them. */
#include <stdlib.h>

#include "analyzer/base/heap.h"
#include "analyzer/names/groupkeeper.h"
#include "analyzer/names/letgo.h"
#include "analyzer/oom/autopsy_causes.h"
#include "analyzer/oom/oom_thresholds.h"
#include "analyzer/stacks/sourceline.h"


/* Neither in forward nor in a pass, nor by the optimizer. */
static bool is_born_outside(uint8_t phase)
{
	return phase == PHASE_OTHER || phase == PHASE_INIT;
}

/* Where the batch at hand was made, as an ordinal: the latest block from outside of forward, backward and optimizer. */
static uint64_t latest_batch(const struct autopsy *a)
{
	uint64_t latest = 0;

	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct lives_when *birth = &a->categories.block[i].life.birth;

		if (opengraphs_is_open(&a->moment, i) && is_born_outside(birth->phase) && birth->ordinal > latest)
			latest = birth->ordinal;
	}
	return latest;
}

/* Made by forward without a graph, since the latest backward pass and for an earlier batch. */
static bool is_kept_output(const struct autopsy *a, size_t i, uint64_t batch)
{
	const struct life *life = &a->categories.block[i].life;

	return opengraphs_is_open(&a->moment, i) && !autopsy_is_of_graph(a, i) &&
	       life->birth.phase == PHASE_FORWARD && life->birth.ordinal < batch;
}

/*
 * How often one line, outside of forward, backward and optimizer, has made batches: tensors that were freed soon, or
 * are kept as well (labels beside predictions), made since `from`.
 */
static uint32_t most_batches(const struct autopsy *a, uint64_t from)
{
	const struct books *books = a->device->process->books;
	const struct lives *lives = a->device->process->lives;
	uint32_t nr_stacks, most = 0, stack;
	uint32_t *nr = autopsy_by_stack(a, sizeof(*nr), &nr_stacks);

	for (uint32_t i = 0; i < books_nr_groups(books) && i < lives->nr_fates; i++) {
		const struct group *g = books_group(books, i);

		if (g->tensor && g->device == a->device->ordinal && is_born_outside(g->phase) && g->python_stack < nr_stacks)
			nr[g->python_stack] += lives->fates[i].nr[FATE_SHORT];
	}
	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct lives_when *birth = &a->categories.block[i].life.birth;

		stack = autopsy_group(a, i)->python_stack;
		if (opengraphs_is_open(&a->moment, i) && is_born_outside(birth->phase) && birth->ordinal > from && stack < nr_stacks)
			nr[stack]++;
	}
	for (uint32_t i = 0; i < nr_stacks; i++)
		most = nr[i] > most ? nr[i] : most;
	free(nr);
	return most;
}

/*
 * Does the program itself go through the layers, as a loop calls the members of a list? Then forward is left from one to
 * the next, and nothing tells how often the model is called.
 */
static bool is_called_by_layers(const struct autopsy *a)
{
	const struct books *books = a->device->process->books;
	const struct lives *lives = a->device->process->lives;
	struct modulepaths paths = { .reader = a->device->process->reader };
	uint64_t nr, nr_all = 0, nr_layers = 0;

	modulepaths_look(&paths);
	for (uint32_t i = 0; i < books_nr_groups(books) && i < lives->nr_fates; i++) {
		const struct group *g = books_group(books, i);
		uint32_t call = g->tensor && g->device == a->device->ordinal && g->phase == PHASE_FORWARD
				    ? modulepaths_outermost_call(&paths, g->python_stack)
				    : 0;

		if (!call)
			continue;
		nr = group_figures_at(g, MARK_END).blocks;
		for (int k = 0; k < NR_FATES; k++)
			nr += lives->fates[i].nr[k];
		nr_all += nr;
		nr_layers += modulepaths_calls_several(&paths, call) ? nr : 0;
	}
	modulepaths_release(&paths);
	return nr_layers && BY_LAYERS_PART * nr_layers >= nr_all;
}

/* Where no training goes on, all of a program may be the beginning of it. */
static void say_end(const struct autopsy *a, struct autopsy_finding *f)
{
	if (!a->failure->nr_begun)
		autopsy_evidence(f, SAID(outputs_may_end, NO_FACTS));
}

/*
 * May the program mean to keep them? Not for views that show a small part of them, nor in a part of an object of Python's own library that
 * is made for something else.
 */
static bool may_be_meant(const struct autopsy *a, size_t place)
{
	const struct namegroup *g = a->place[place].named;

	return !g || (!namegroup_is_of_views(g) && letgo_of_owner(g).sentence == SAY_nothing);
}

/* Of a line that lets go of others: what has outlived all of those. */
struct outliving {
	uint64_t bytes, aged; /* aged: how many of those were at least half as old as the oldest of them */
	uint32_t nr, longest; /* longest: forward's allocations that the oldest has outlived */
};

/* Of all that the stacks of a place have let go of, in whatever shape. */
static void find_aged(struct outliving *o, const struct autopsy *a, const bool *is_of_place, uint32_t nr_stacks)
{
	const struct books *books = a->device->process->books;
	const struct lives *lives = a->device->process->lives;

	for (int counts = 0; counts < 2; counts++) /* the oldest one, then those like it */
		for (uint32_t i = 0; i < books_nr_groups(books) && i < lives->nr_fates; i++) {
			const struct group *g = books_group(books, i);
			const struct lives_fates *f = &lives->fates[i];

			if (!g->tensor || g->device != a->device->ordinal || g->python_stack >= nr_stacks || !is_of_place[g->python_stack])
				continue;
			if (!counts && f->longest > o->longest)
				o->longest = f->longest;
			if (counts && f->longest >= o->longest / 2)
				o->aged += f->nr_aged;
		}
}

/* Forward's allocations tell how much the program has done meanwhile: a server may wait, and the clock says nothing. */
static struct outliving find_outliving(const struct autopsy *a, size_t place)
{
	uint32_t nr_stacks, now = 0;
	bool *is_of_place = autopsy_by_stack(a, sizeof(*is_of_place), &nr_stacks);
	struct outliving o = { 0 };

	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		uint32_t born = a->categories.block[i].life.birth.nr_forwards, stack = autopsy_group(a, i)->python_stack;

		now = born > now ? born : now;
		if (a->block[i].place == place && stack < nr_stacks)
			is_of_place[stack] = true;
	}
	find_aged(&o, a, is_of_place, nr_stacks);
	free(is_of_place);
	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct life *life = &a->categories.block[i].life;

		if (a->block[i].place != place || now - life->birth.nr_forwards <= o.longest)
			continue;
		o.bytes += life->size;
		o.nr++;
	}
	return o;
}

/* Without a backward pass there are no steps: what stays is told by batches that have come and gone meanwhile. */
bool autopsy_is_kept_outputs(const struct autopsy *a, struct autopsy_finding *f)
{
	struct outputs {
		uint64_t bytes, first; /* first: ordinal */
		size_t largest;        /* block */
		uint32_t nr;
	} *of = heap_alloc(a->nr_places + 1, sizeof(*of)), *most = of;
	uint64_t batch = latest_batch(a);
	struct outliving older;
	uint32_t nr_batches = 0;

	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		struct outputs *one = &of[a->block[i].place];

		if (!is_kept_output(a, i, batch))
			continue;
		if (!one->nr++)
			one->first = a->categories.block[i].life.birth.ordinal;
		if (one->nr == 1 || a->categories.block[i].life.size > a->categories.block[one->largest].life.size)
			one->largest = i;
		one->bytes += a->categories.block[i].life.size;
		if (one->bytes > most->bytes)
			most = one;
	}
	if (most->nr >= OUTPUTS_MIN && autopsy_matters(a, most->bytes) && !is_called_by_layers(a))
		nr_batches = most_batches(a, most->first);
	if (nr_batches >= OUTPUTS_MIN && a->place[most - of].named && groupkeeper_is_full(a->place[most - of].named)) {
		f->aside = SAID(aside_full, fact_name("cause", f->cause), fact_bytes("bytes", most->bytes));
		nr_batches = 0;
	}
	older = find_outliving(a, (size_t)(most - of));
	if (nr_batches >= OUTPUTS_MIN && autopsy_is_in_flight(a, (size_t)(most - of))) /* they are let go of when they end */
		nr_batches = 0;
	/* A cache with a limit of the program's own lets go of each in the end. */
	if (nr_batches >= OUTPUTS_MIN && older.aged >= most->nr && !autopsy_matters(a, older.bytes)) {
		f->aside = SAID(aside_let_go, fact_name("cause", f->cause), fact_bytes("bytes", most->bytes), fact_count("freed", older.aged));
		nr_batches = 0;
	}
	if (nr_batches >= OUTPUTS_MIN) {
		f->bytes = most->bytes;
		f->may_be_meant = may_be_meant(a, (size_t)(most - of));
		autopsy_at_call(a, f, most->largest);
		if (a->categories.block[most->largest].module)
			autopsy_say(f, SAID(outputs_are_kept, fact_bytes("bytes", most->bytes)));
		else
			autopsy_say(f, SAID(results_are_kept, fact_bytes("bytes", most->bytes)));
		autopsy_evidence(f, SAID(outputs_of_line, fact_count("tensors", most->nr),
					 fact_bytes("each", most->bytes / most->nr), fact_count("batches", nr_batches)));
		say_end(a, f);
		autopsy_advise(f, SAID(outputs_advice, fact_bytes("bytes", most->bytes)));
	}
	free(of);
	return nr_batches >= OUTPUTS_MIN;
}

/* What a line has made outside of forward since the latest backward pass, and holds. */
struct holding {
	uint64_t bytes, forwards; /* forwards: forward's allocations before the latest */
	uint32_t nr, nr_calls;    /* nr_calls: those with a call of the model before them */
	uint32_t run, longest_run; /* tensors from one call to the next */
	size_t latest;		   /* block */
};

static void add_holding(struct holding *h, const struct life *life)
{
	bool is_called = !h->nr || life->birth.nr_forwards != h->forwards;

	h->nr_calls += is_called;
	h->run = is_called ? 1 : h->run + 1;
	if (h->run > h->longest_run)
		h->longest_run = h->run;
	h->forwards = life->birth.nr_forwards;
	h->nr++;
	h->bytes += life->size;
}

/* Nearly as many from each call to the next, and of enough calls? What is loaded at once comes in one long run. */
static bool is_spread(const struct holding *h)
{
	return h->nr_calls >= OUTPUTS_MIN && (uint64_t)h->longest_run * h->nr_calls <= RUN_TIMES * (uint64_t)h->nr;
}

/* Was the request for one more of a line that keeps them in the same way, or of this line itself? */
static bool is_for_one_more(const struct autopsy *a, const struct holding *of)
{
	for (size_t i = 0; i < a->nr_places; i++)
		if (sourceline_is_same_call(&a->site, &a->place[i].frame))
			return is_spread(&of[i]);
	return false;
}

/*
 * Does the program still do what keeps them? Then what failed was asked for about as often before, but for what is there
 * of the call at hand, or it is one more of them. A data set that is complete is followed by something new.
 */
static bool is_still_kept(const struct autopsy *a, const struct holding *of, const struct holding *h)
{
	const struct books *books = a->device->process->books;
	const struct lives *lives = a->device->process->lives;
	int64_t nr = 0;

	if (is_for_one_more(a, of))
		return true;
	for (uint32_t i = 0; i < books_nr_groups(books); i++) {
		const struct group *g = books_group(books, i);

		if (!g->tensor || g->device != a->device->ordinal || g->python_stack != a->failure->python_stack)
			continue;
		nr += (int64_t)group_figures_at(g, MARK_END).blocks - (int64_t)group_figures_at(g, MARK_OOM).blocks;
		for (int k = 0; i < lives->nr_fates && k < NR_FATES; k++)
			nr += lives->fates[i].nr[k];
	}
	return (double)nr >= STILL_KEPT * h->nr_calls;
}

static void say_all_kept(const struct autopsy *a, struct autopsy_finding *f, const struct holding *h, size_t place)
{
	f->bytes = h->bytes;
	f->may_be_meant = may_be_meant(a, place);
	autopsy_at_block(a, f, h->latest); /* the first may be made by what the program begins with */
	autopsy_say(f, SAID(calls_keep, fact_bytes("bytes", h->bytes), fact_count("tensors", h->nr)));
	autopsy_evidence(f, SAID(calls_keep_each, fact_bytes("each", h->bytes / h->nr)));
	autopsy_say_shapes(a, f, place);
	say_end(a, f);
	autopsy_advise(f, SAID(calls_keep_advice, fact_bytes("bytes", h->bytes)));
}

static void say_some_kept(const struct autopsy *a, struct autopsy_finding *f, const struct outliving *o, uint64_t freed, size_t place)
{
	f->bytes = o->bytes;
	f->has_some_in_use = true;
	autopsy_at_place(a, f, place);
	autopsy_say(f, SAID(calls_keep_some, fact_bytes("bytes", o->bytes), fact_count("tensors", o->nr), fact_count("freed", freed)));
	autopsy_evidence(f, SAID(calls_keep_some_each, fact_bytes("each", o->bytes / o->nr)));
	autopsy_say_shapes(a, f, place);
	autopsy_advise(f, SAID(calls_keep_some_advice, fact_name("holder", NULL), fact_bytes("bytes", o->bytes)));
}

/*
 * A tensor or more for nearly each call of the model, made by the program itself: none of them let go, or some that stay though
 * others are, as of requests that end in another way.
 */
bool autopsy_is_kept_by_calls(const struct autopsy *a, struct autopsy_finding *f)
{
	struct holding *of = heap_alloc(a->nr_places + 1, sizeof(*of)), *most = of;
	struct outliving some = { 0 };
	uint64_t freed;
	size_t place;
	bool applies;

	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct category_block *b = &a->categories.block[i];
		struct holding *one = &of[a->block[i].place];

		if (!opengraphs_is_open(&a->moment, i) || a->block[i].has_graph || !is_born_outside(b->life.birth.phase))
			continue;
		add_holding(one, &b->life);
		one->latest = i;
		if (one->bytes > most->bytes)
			most = one;
	}
	place = (size_t)(most - of);
	freed = autopsy_nr_freed(a, place);
	applies = is_spread(most) && autopsy_matters(a, most->bytes) && is_still_kept(a, of, most) && !autopsy_is_in_flight(a, place);
	if (applies && freed >= most->nr) {
		some = find_outliving(a, place);
		applies = some.nr >= OUTPUTS_MIN && autopsy_matters(a, some.bytes);
	} else if (applies) {
		applies = !is_called_by_layers(a);
	}
	if (applies && some.nr)
		say_some_kept(a, f, &some, freed, place);
	else if (applies)
		say_all_kept(a, f, most, place);
	free(of);
	return applies;
}

/* The name of the line that has most of the memory in many tensors that pass, or what most of them are kept by. NULL: it is not so. */
static const struct namegroup *name_of_most(const struct autopsy *a)
{
	const struct autopsy_place *place = a->nr_places ? &a->place[0] : NULL;
	uint64_t bytes, unseen;

	if (!a->names || !place || place->blocks < OUTPUTS_MIN || 2 * place->bytes < a->failure->allocated ||
	    !moment_is_passing(a->categories.block[place->largest].category))
		return NULL;
	return place->named ? place->named : groupkeeper_alike(&a->names[0], &bytes, &unseen);
}

/* What has been made ahead of an iterator that has yet to take it. */
static bool is_made_ahead(const struct autopsy *a, struct autopsy_finding *f, const struct namegroup *g)
{
	const struct autopsy_place *place = &a->place[0];
	const char *keeper = letgo_waiting(g);

	if (!keeper)
		return false;
	f->bytes = place->bytes;
	autopsy_at_place(a, f, 0);
	autopsy_say(f, SAID(kept_ahead, fact_name("keeper", keeper), fact_bytes("bytes", place->bytes), fact_count("tensors", place->blocks)));
	autopsy_advise(f, SAID(calls_keep_advice, fact_bytes("bytes", place->bytes)));
	return true;
}

/*
 * Where there is no model, by objects of Python's own library that wait (timers, tasks, queues), by methods that are to be called later,
 * or by functions that replace each other. No program keeps results there.
 */
static bool is_kept_by_library(const struct autopsy *a, struct autopsy_finding *f, const struct namegroup *g)
{
	const char *class = letgo_owner_class(g), *variable = letgo_chain_of_functions(g);
	const struct modulepaths *paths = a->device->process->modulepaths;
	const struct autopsy_place *place = &a->place[0];
	struct fact bytes = fact_bytes("bytes", place->bytes), tensors = fact_count("tensors", place->blocks);

	if (a->failure->nr_begun || (paths && paths->nr_paths) || groupkeeper_is_full(g))
		return false;
	if (class)
		autopsy_say(f, SAID(library_keeps, bytes, tensors, fact_name("class", class)));
	else if (letgo_is_of_methods(g))
		autopsy_say(f, SAID(methods_keep, bytes, tensors));
	else if (variable)
		autopsy_say(f, SAID(chain_keeps, bytes, tensors, fact_name("variable", variable)));
	else
		return false;
	f->bytes = place->bytes;
	autopsy_at_place(a, f, 0);
	autopsy_advise(f, SAID(calls_keep_advice, fact_bytes("bytes", place->bytes)));
	return true;
}

/*
 * By a chain of objects that each have another by the same attribute, of which the last is all that is used: the nodes of a search tree
 * that was rooted anew keep their parents.
 */
static bool is_kept_by_chain(const struct autopsy *a, struct autopsy_finding *f, const struct namegroup *g)
{
	const struct autopsy_place *place = &a->place[0];
	const char *attribute = letgo_chain_of_objects(NULL, g);

	if (!attribute || a->failure->nr_begun || a->nr_findings)
		return false;
	f->bytes = place->bytes;
	autopsy_at_call(a, f, place->largest);
	autopsy_say(f, SAID(objects_keep, fact_bytes("bytes", place->bytes), fact_count("tensors", place->blocks), fact_name("attribute", attribute)));
	autopsy_advise(f, SAID(calls_keep_advice, fact_bytes("bytes", place->bytes)));
	return true;
}

/*
 * Views of a small part of each, which keep the whole: what nothing looks at is most of what is there or was asked for, and kept in vain,
 * whether the program goes on to keep them or not.
 */
static bool is_kept_by_views(const struct autopsy *a, struct autopsy_finding *f, const struct namegroup *g)
{
	if (!namegroup_is_of_views(g) || g->blocks < OUTPUTS_MIN || a->failure->nr_begun || a->nr_findings ||
	    2 * g->unseen_bytes < a->failure->allocated + a->failure->asked)
		return false;
	f->bytes = a->place[0].bytes;
	autopsy_at_place(a, f, 0);
	autopsy_say(f, SAID(views_keep, fact_bytes("bytes", g->bytes), fact_count("tensors", g->blocks), fact_bytes("seen", g->bytes - g->unseen_bytes)));
	if (letgo_said(g, false).sentence == SAY_nothing) /* else it is said where to copy them */
		autopsy_advise(f, SAID(views_keep_advice, fact_bytes("bytes", g->unseen_bytes)));
	return true;
}

/*
 * Tensors of one line that take most of the memory, made anew by the step at hand or where neither steps nor calls of the model tell
 * what is new, and censuses show that what keeps them gets ever more entries: hooks that pile up, requests that nobody ends.
 */
bool autopsy_is_kept_in_growing(const struct autopsy *a, struct autopsy_finding *f)
{
	const struct namegroup *g = name_of_most(a);
	const struct autopsy_place *place = g ? &a->place[0] : NULL;
	struct names_course c;
	struct keeper k;

	if (!g)
		return false;
	if (is_made_ahead(a, f, g) || is_kept_by_library(a, f, g) || is_kept_by_views(a, f, g) || is_kept_by_chain(a, f, g))
		return true;
	/* What calls of the model keep is told by these, and an error by itself. */
	if (!a->failure->nr_begun && (!is_called_by_layers(a) || groupkeeper_around(&k, g, TFMT_KIND_EXCEPTION)))
		return false;
	if (2 * place->kept_bytes > place->bytes || !groupkeeper_growing(&k, g) || k.has_bound)
		return false;
	if (names_course(&c, a->device->process->names, &k) < 2 || c.last <= c.before) /* it grew once, and has ended */
		return false;
	f->bytes = place->bytes;
	autopsy_at_place(a, f, 0);
	autopsy_say(f, SAID(growing_keeps, fact_bytes("bytes", place->bytes), fact_count("tensors", place->blocks)));
	autopsy_evidence(f, SAID(growing_had, fact_name("holder", groupkeeper_name(g, &k.name)), fact_count("first", c.first),
				 fact_count("last", c.last)));
	autopsy_advise(f, SAID(calls_keep_advice, fact_bytes("bytes", place->bytes)));
	return true;
}
