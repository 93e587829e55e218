/* SPDX-License-Identifier: MIT */
/*
 * Causes: what is made anew while what was made the last time is there: by the line of the request; by a call that runs again, whose
 * result of the last time a variable has; or one by one for all tensors of a container.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzer/allocator/torch.h"
#include "analyzer/base/heap.h"
#include "analyzer/names/objectway.h"
#include "analyzer/oom/autopsy_causes.h"
#include "analyzer/oom/oom_thresholds.h"
#include "analyzer/purpose/namedblocks.h"
#include "analyzer/stacks/sourceline.h"

/* ---- what the same line made the last time ----------------------------------------------------- */

/* Blocks of the request's line, made one after the other without a call of a model between them. */
struct run {
	uint32_t nr_forwards;
	size_t from, nr; /* of the line's blocks */
	uint64_t bytes;
};

struct runs {
	size_t *block;
	size_t nr_blocks;
	struct run run[2]; /* the last time, and this one */
	uint32_t nr;
};

/* false: some are of the model's forward or backward, or of more than two times. */
static bool find_runs(struct runs *r, const struct autopsy *a)
{
	*r = (struct runs){ .block = heap_alloc(a->categories.nr_blocks + 1, sizeof(*r->block)) };
	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct category_block *b = &a->categories.block[i];
		struct run *last = r->nr ? &r->run[r->nr - 1] : NULL;

		if (!sourceline_is_same_call(&a->site, &a->place[a->block[i].place].frame))
			continue;
		if (a->block[i].has_graph || (b->life.birth.phase != PHASE_OTHER && b->life.birth.phase != PHASE_INIT))
			return false;
		if (!last || last->nr_forwards != b->life.birth.nr_forwards) {
			if (r->nr == 2)
				return false;
			last = &r->run[r->nr++];
			*last = (struct run){ .nr_forwards = b->life.birth.nr_forwards, .from = r->nr_blocks };
		}
		r->block[r->nr_blocks++] = i;
		last->nr++;
		last->bytes += b->life.size;
	}
	return true;
}

static uint64_t size_of(const struct autopsy *a, const struct runs *r, size_t nr)
{
	return a->categories.block[r->block[nr]].life.size;
}

/* Of tensors of one size: a block of which so little would be left is not split. */
static bool is_as_large(uint64_t size, uint64_t other)
{
	return (size > other ? size - other : other - size) <= TORCH_REST_MAX;
}

/* Is the request for a tensor as this block, but for the length of one dimension, and no less than half as large? */
static bool is_asked_again(const struct autopsy *a, size_t block)
{
	const struct tfmt_shape *s = &a->block[block].shape;
	struct tfmt_shape asked;
	unsigned others = 0;

	if (!a->block[block].is_shaped || !a->failure->shape || !tfmt_reader_shape(a->device->process->reader, a->failure->shape, &asked) ||
	    s->element_type != asked.element_type || s->nr_dims != asked.nr_dims || 2 * a->failure->asked < a->categories.block[block].life.size)
		return false;
	for (uint32_t i = 0; i < s->nr_dims; i++)
		others += s->dims[i] != asked.dims[i];
	return others <= 1;
}

/* Is it that one with twice as many rows? An array that grows so is copied into the new one. */
static bool is_doubled(const struct autopsy *a, size_t block)
{
	const struct tfmt_shape *s = &a->block[block].shape;
	struct tfmt_shape asked;

	return is_asked_again(a, block) && tfmt_reader_shape(a->device->process->reader, a->failure->shape, &asked) && s->nr_dims &&
	       asked.dims[0] == 2 * s->dims[0];
}

/*
 * Has this time made what the last one did, so far, and is the request for the next of it? `now` NULL: for the first. A single one may
 * be longer or shorter than the last time.
 */
static bool is_made_alike(const struct autopsy *a, const struct runs *r, const struct run *last, const struct run *now)
{
	size_t nr = now ? now->nr : 0;

	if (!nr && last->nr == 1 && is_asked_again(a, r->block[last->from]))
		return true;
	if (nr >= last->nr || !is_as_large(size_of(a, r, last->from + nr), torch_rounded(a->failure->asked)))
		return false;
	for (size_t i = 0; i < nr; i++)
		if (!is_as_large(size_of(a, r, last->from + i), size_of(a, r, now->from + i)))
			return false;
	return true;
}

/* The last time, if it is whole and this one is like it. */
static const struct run *last_time(const struct autopsy *a, const struct runs *r)
{
	const struct run *last = &r->run[0];

	if (!r->nr)
		return NULL;
	if (r->nr == 2)
		return is_made_alike(a, r, last, &r->run[1]) ? last : NULL;
	return last->nr_forwards < a->failure->nr_forwards && is_made_alike(a, r, last, NULL) ? last : NULL;
}

/* The outermost container, or else the variable or attribute, that has most of a run; false: no census saw it. */
static bool find_run_holder(struct objectname *n, const struct autopsy *a, const struct runs *r, const struct run *run)
{
	const struct names_census *census = NULL;
	uint32_t container = 0;
	uint64_t bytes = 0;
	struct named named;

	for (size_t i = run->from; i < run->from + run->nr; i++) {
		const struct life *life = &a->categories.block[r->block[i]].life;
		uint32_t one;

		if (!namedblocks_name(&named, a->device->process, life, LIVES_OOM))
			continue;
		one = objectway_container(named.census->census, named.object);
		one = one ? one : named.object;
		if (container && container != one)
			continue;
		census = named.census;
		container = one;
		bytes += life->size;
	}
	if (!census || 2 * bytes < run->bytes)
		return false;
	objectname_find(n, census->census, container);
	return *n->text;
}

bool autopsy_is_made_anew(const struct autopsy *a, struct autopsy_finding *f)
{
	const struct run *last = NULL;
	struct objectname holder;
	struct runs r;

	if (a->failure->is_driver || !a->has_site || (a->failure->phase != PHASE_OTHER && a->failure->phase != PHASE_INIT))
		return false;
	if (find_runs(&r, a))
		last = last_time(a, &r);
	if (last && autopsy_matters(a, last->bytes) && find_run_holder(&holder, a, &r, last)) {
		f->bytes = last->bytes;
		f->has_holder = true;
		f->certainty = CERTAINTY_PROVEN;
		autopsy_at_request(a, f);
		autopsy_say(f, SAID(made_anew_beside, fact_bytes("bytes", last->bytes)));
		autopsy_evidence(f, SAID(older_holder, fact_name("holder", holder.text),
					 fact_line("site", holder.file, holder.line, holder.function)));
		if (last->nr == 1 && is_doubled(a, r.block[last->from]))
			autopsy_advise(f, SAID(made_longer_advice, fact_name("holder", holder.text), fact_site("site", &f->site)));
		else
			autopsy_advise(f, SAID(made_anew_advice, fact_name("holder", holder.text), fact_site("site", &f->site),
				       fact_bytes("bytes", last->bytes)));
	} else {
		last = NULL;
	}
	free(r.block);
	return last;
}

/* ---- what a call returned the last time ------------------------------------------------------- */

/* A variable of a function that leads to blocks. */
struct variable {
	struct objectname name; /* `text` is the variable's own */
	uint64_t bytes;		/* of the last time; of the shape that is made anew */
	uint32_t nr;		/* blocks of those */
	size_t largest;		/* of them */
	bool is_of_more;	/* the model was called between them: they are no set that was made at once */
	struct stack_frame line; /* where its function calls again */
};

/* Of one Python stack the latest block, and the latest that another variable has, or none (0). */
struct latest {
	uint64_t ordinal[2];
	uint32_t variable[2];
	uint32_t asked; /* the variable that `is_same` is of */
	bool is_same;
};

struct variables {
	struct variable *variable; /* 1 to nr */
	uint32_t nr;
	size_t room;
	uint32_t *of;	      /* by block; 0: none, or it does not matter */
	struct latest *stack; /* by Python stack */
	uint32_t nr_stacks;
};

/*
 * Is it a variable itself, or an entry of a tuple that is one? To other objects calls may add. What else refers to it, as the call does
 * that has it as an argument, needs it.
 */
static bool is_result(const struct named *named, size_t length)
{
	struct keeper k;

	if (named->holders > 1)
		return false;
	if (!named->name.text[length])
		return true;
	return objectname_keepers(&k, 1, named->census->census, named->object) && k.kind == TFMT_KIND_TUPLE && strlen(k.name.text) == length;
}

/* Which it is, `of_results` if that is what a call may have returned; 0: it is no variable of a function's. */
static uint32_t variable_of(struct variables *v, const struct named *named, bool of_results)
{
	const struct objectname *name = &named->name;
	size_t length = strcspn(name->text, ".[");
	struct variable *new;

	if (name->root != ROOT_LOCAL || !name->function || !name->file || (of_results && !is_result(named, length)))
		return 0;
	for (uint32_t i = 1; i <= v->nr; i++)
		if (strlen(v->variable[i].name.text) == length && !strncmp(v->variable[i].name.text, name->text, length) &&
		    !strcmp(v->variable[i].name.function, name->function) && !strcmp(v->variable[i].name.file, name->file))
			return i;
	v->variable = heap_grow(v->variable, &v->room, v->nr + 2, sizeof(*v->variable));
	new = &v->variable[++v->nr];
	*new = (struct variable){ .name = *name };
	new->name.text[length] = '\0';
	return v->nr;
}

static void add_latest(struct latest *l, uint64_t ordinal, uint32_t variable)
{
	int k = l->ordinal[0] && l->variable[0] != variable && ordinal < l->ordinal[0];

	if (!k && l->ordinal[0] && l->variable[0] != variable) {
		l->ordinal[1] = l->ordinal[0];
		l->variable[1] = l->variable[0];
	}
	if (ordinal >= l->ordinal[k]) {
		l->ordinal[k] = ordinal;
		l->variable[k] = variable;
	}
}

static void find_variables(struct variables *v, const struct autopsy *a)
{
	*v = (struct variables){ .of = heap_alloc(a->categories.nr_blocks + 1, sizeof(*v->of)) };
	v->stack = autopsy_by_stack(a, sizeof(*v->stack), &v->nr_stacks);
	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct life *life = &a->categories.block[i].life;
		uint32_t stack = autopsy_group(a, i)->python_stack;
		struct named named;

		if (stack >= v->nr_stacks || !autopsy_matters(a, a->place[a->block[i].place].bytes))
			continue;
		if (!a->block[i].has_graph && namedblocks_name(&named, a->device->process, life, LIVES_OOM))
			v->of[i] = variable_of(v, &named, true);
		add_latest(&v->stack[stack], life->birth.ordinal, v->of[i]);
	}
}

/* Did the call of the variable's function that now runs make this block as well? *line: where it is called. */
static bool is_same_call(const struct autopsy *a, struct variables *v, size_t block, struct stack_frame *line)
{
	const uint32_t stacks[] = { a->failure->python_stack, autopsy_group(a, block)->python_stack };
	struct latest *l = &v->stack[stacks[1]];

	if (l->asked != v->of[block]) {
		l->asked = v->of[block];
		l->is_same = autopsy_same_call_of(a, stacks, &v->variable[l->asked].name, line);
	} else if (l->is_same) {
		*line = v->variable[l->asked].line;
	}
	return l->is_same;
}

/* Has the call made such a tensor after this one, which the variable does not have: the new one? */
static bool has_new_one(const struct variables *v, const struct latest *l, size_t block, uint64_t ordinal)
{
	int k = l->variable[0] == v->of[block];

	return l->ordinal[k] > ordinal;
}

/* The variable that has most of the last time; 0: none has. */
static uint32_t find_last_time(struct variables *v, const struct autopsy *a)
{
	uint32_t most = 0;

	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct life *life = &a->categories.block[i].life;
		struct variable *one = v->of[i] ? &v->variable[v->of[i]] : NULL;
		struct stack_frame line;

		if (!one || !has_new_one(v, &v->stack[autopsy_group(a, i)->python_stack], i, life->birth.ordinal) ||
		    !is_same_call(a, v, i, &line))
			continue;
		if (!one->bytes || life->size > a->categories.block[one->largest].life.size) {
			one->largest = i;
			one->line = line;
		}
		one->bytes += life->size;
		one->nr++;
		if (!most || one->bytes > v->variable[most].bytes)
			most = v->of[i];
	}
	return most;
}

bool autopsy_is_called_again(const struct autopsy *a, struct autopsy_finding *f)
{
	struct variable *one;
	struct variables v;
	uint32_t most;

	if (!a->has_site || !a->device->process->names)
		return false;
	find_variables(&v, a);
	most = find_last_time(&v, a);
	one = most && autopsy_matters(a, v.variable[most].bytes) ? &v.variable[most] : NULL;
	if (one) {
		f->bytes = one->bytes;
		autopsy_at_place(a, f, a->block[one->largest].place);
		f->caller = one->line;
		f->has_caller = f->has_holder = true;
		f->certainty = CERTAINTY_PROVEN;
		autopsy_say(f, SAID(called_again, fact_bytes("bytes", one->bytes)));
		autopsy_evidence(f, SAID(older_holder, fact_name("holder", one->name.text),
					 fact_line("site", one->name.file, one->name.line, one->name.function)));
		autopsy_advise(f, SAID(called_again_advice, fact_name("holder", one->name.text), fact_site("site", &one->line),
				       fact_bytes("bytes", one->bytes)));
	}
	free(v.variable);
	free(v.of);
	free(v.stack);
	return one;
}

/* ---- one by one ------------------------------------------------------------------------------ */

static bool is_of_shape(const struct autopsy *a, size_t block, const struct tfmt_shape *asked)
{
	const struct tfmt_shape *s = &a->block[block].shape;
	bool is = a->block[block].is_shaped && s->element_type == asked->element_type && s->nr_dims == asked->nr_dims;

	for (uint32_t i = 0; is && i < s->nr_dims; i++)
		is = s->dims[i] == asked->dims[i];
	return is;
}

/* Is it in an entry of the variable, as of a list? A chain of objects gets longer, and its older ones are not replaced. */
static bool has_entry(const struct objectname *name)
{
	return name->text[strcspn(name->text, ".[")] == '[';
}

/* The variable that has most of that shape, 0 if none has; *made: how many there are of the request's line which no variable has. */
static uint32_t find_replaced(struct variables *v, const struct autopsy *a, const struct tfmt_shape *asked, uint32_t *made)
{
	uint32_t most = 0;

	*made = 0;
	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct life *life = &a->categories.block[i].life;
		struct variable *one;
		struct named named;
		uint32_t of;

		if (a->block[i].has_graph || !moment_is_passing(a->categories.block[i].category) || !is_of_shape(a, i, asked))
			continue;
		of = namedblocks_name(&named, a->device->process, life, LIVES_OOM) && has_entry(&named.name) ? variable_of(v, &named, false) : 0;
		*made += !of && sourceline_is_same_call(&a->site, &a->place[a->block[i].place].frame);
		if (!of)
			continue;
		one = &v->variable[of];
		one->largest = one->nr++ ? one->largest : i;
		one->is_of_more |= life->birth.nr_forwards != a->categories.block[one->largest].life.birth.nr_forwards;
		one->bytes += life->size;
		if (!most || one->bytes > v->variable[most].bytes)
			most = of;
	}
	return most;
}

bool autopsy_is_replaced(const struct autopsy *a, struct autopsy_finding *f)
{
	struct variables v = { 0 };
	struct variable *one = NULL;
	struct tfmt_shape asked;
	uint32_t most, made;

	if (!a->has_site || !a->failure->shape || !tfmt_reader_shape(a->device->process->reader, a->failure->shape, &asked))
		return false;
	most = find_replaced(&v, a, &asked, &made);
	if (most && made >= LIST_MIN && made < v.variable[most].nr && !v.variable[most].is_of_more && autopsy_matters(a, v.variable[most].bytes) &&
	    autopsy_line_of(a, a->failure->python_stack, &v.variable[most].name, &v.variable[most].line))
		one = &v.variable[most];
	if (one) {
		f->bytes = one->bytes;
		autopsy_at_request(a, f);
		f->caller = one->line;
		f->has_caller = !sourceline_is_same_call(&f->site, &one->line);
		f->has_holder = true;
		f->certainty = CERTAINTY_PROVEN;
		autopsy_say(f, SAID(replaced_one_by_one, fact_bytes("bytes", one->bytes), fact_count("tensors", one->nr), fact_count("made", made)));
		autopsy_evidence(f, SAID(older_holder, fact_name("holder", one->name.text),
					 fact_line("site", one->name.file, one->name.line, one->name.function)));
		autopsy_advise(f, SAID(replaced_advice, fact_name("holder", one->name.text), fact_site("site", &one->line),
				       fact_bytes("bytes", one->bytes)));
	}
	free(v.variable);
	return one;
}
