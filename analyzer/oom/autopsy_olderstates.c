/* SPDX-License-Identifier: MIT */
/*
 * Causes: what is kept though it is made anew, or used no more: state of older optimizers of parameters that a newer one has state of;
 * parameters that no module has, in groups of an optimizer that others are trained by; and what the line of the request made the
 * last time, while it makes the same again.
 *
 * A census's names say of which parameter a state is, under which key, and which optimizer has it: two that have the same are
 * no history, as L-BFGS keeps, and no GAN's pair, whose parameters are others.
 */
#include <stdlib.h>

#include "analyzer/allocator/torch.h"
#include "analyzer/base/heap.h"
#include "analyzer/names/letgo.h"
#include "analyzer/names/objectway.h"
#include "analyzer/oom/autopsy_causes.h"
#include "analyzer/oom/autopsy_holder.h"
#include "analyzer/purpose/optimizerstates.h"
#include "analyzer/stacks/sourceline.h"

static void find_states(struct optimizerstates *s, const struct autopsy *a)
{
	*s = (struct optimizerstates){ 0 };
	for (size_t i = 0; i < a->categories.nr_blocks; i++)
		if (a->categories.block[i].category == CATEGORY_OPTIMIZER_STATE)
			optimizerstates_add(s, a->device->process, &a->categories.block[i].life, LIVES_OOM, i);
	optimizerstates_sort(s);
}

static uint32_t optimizer_of(const struct optimizerstates *s, size_t block)
{
	for (size_t i = 0; i < s->nr; i++)
		if (s->state[i].block == block)
			return s->state[i].optimizer;
	return 0;
}

static bool is_known(const uint32_t *object, size_t nr, uint32_t one)
{
	for (size_t i = 0; i < nr; i++)
		if (object[i] == one)
			return true;
	return false;
}

/* All that older ones have, the largest block of it, and one of another of them; how many these are. */
static size_t older_states(const struct autopsy *a, const struct optimizerstates *s, uint64_t *bytes, size_t *largest, size_t *other)
{
	uint32_t *optimizer = heap_alloc(s->nr, sizeof(*optimizer));
	size_t nr = 0;

	*bytes = 0;
	for (size_t i = 0; i < s->nr; i++) {
		size_t block = s->state[i].block;

		if (!optimizerstates_is_older(s, i))
			continue;
		*bytes += a->categories.block[block].life.size;
		if (!nr || a->categories.block[block].life.size > a->categories.block[*largest].life.size)
			*largest = block;
		if (!is_known(optimizer, nr, s->state[i].optimizer))
			optimizer[nr++] = s->state[i].optimizer;
	}
	*other = *largest;
	for (size_t i = 0; i < s->nr; i++)
		if (optimizerstates_is_older(s, i) && s->state[i].optimizer != optimizer_of(s, *largest))
			*other = s->state[i].block;
	free(optimizer);
	return nr;
}

bool autopsy_is_older_optimizers(const struct autopsy *a, struct autopsy_finding *f)
{
	struct optimizerstates s;
	struct modelkeeper k;
	char holder[OBJECTNAME_MAX];
	uint64_t bytes;
	size_t nr, largest = 0, other;

	if (!a->device->process->names)
		return false;
	find_states(&s, a);
	nr = older_states(a, &s, &bytes, &largest, &other);
	optimizerstates_release(&s);
	if (!nr || !autopsy_matters(a, bytes) || !autopsy_find_holder(&k, a, largest))
		return false;
	f->bytes = bytes;
	f->has_holder = true;
	autopsy_at_place(a, f, a->block[largest].place);
	autopsy_say(f, SAID(older_optimizers, fact_bytes("bytes", bytes), fact_count("optimizers", nr)));
	autopsy_say_holder(holder, a, f, largest, other);
	autopsy_advise(f, SAID(older_optimizers_advice, fact_name("holder", holder), fact_bytes("bytes", bytes)));
	return true;
}

/* ---- parameters that only an optimizer has ----------------------------------------------------- */

/* Parameters that no module has, but an optimizer in a group. */
struct left {
	const struct names_census *census;
	uint32_t *parameter, *optimizer; /* objects of the census */
	size_t nr;
	uint64_t bytes;
	size_t largest; /* block */
};

static void find_left(struct left *l, const struct autopsy *a)
{
	struct objectname owner;
	struct modelkeeper k;
	struct named named;

	*l = (struct left){ .parameter = heap_alloc(a->categories.nr_blocks + 1, sizeof(*l->parameter)),
			    .optimizer = heap_alloc(a->categories.nr_blocks + 1, sizeof(*l->optimizer)) };
	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct life *life = &a->categories.block[i].life;

		if (a->categories.block[i].category != CATEGORY_PARAMETER || !namedblocks_name(&named, a->device->process, life, LIVES_OOM) ||
		    !modelkeeper_find(&k, named.census->census, named.object) || k.outermost || !k.optimizer ||
		    !letgo_group_owner(&owner, &named))
			continue;
		if (!l->nr || life->size > a->categories.block[l->largest].life.size)
			l->largest = i;
		l->census = named.census;
		l->parameter[l->nr] = named.object;
		l->optimizer[l->nr++] = k.optimizer;
		l->bytes += life->size;
	}
}

/* Their states are left as well. false: the optimizer trains nothing else, and is one of an older model. */
static bool add_states(struct left *l, const struct autopsy *a)
{
	struct optimizerstates s;
	bool trains_others = false;

	find_states(&s, a);
	for (size_t i = 0; i < s.nr; i++) {
		if (s.state[i].census != l->census || !is_known(l->optimizer, l->nr, s.state[i].optimizer))
			continue;
		if (is_known(l->parameter, l->nr, s.state[i].parameter))
			l->bytes += a->categories.block[s.state[i].block].life.size;
		else
			trains_others = true;
	}
	optimizerstates_release(&s);
	return trains_others;
}

bool autopsy_is_left_in_optimizer(const struct autopsy *a, struct autopsy_finding *f)
{
	struct objectname owner;
	struct named named;
	struct left l;
	bool applies;

	if (!a->device->process->names)
		return false;
	find_left(&l, a);
	applies = l.nr && add_states(&l, a) && autopsy_matters(a, l.bytes) &&
		  namedblocks_name(&named, a->device->process, &a->categories.block[l.largest].life, LIVES_OOM) &&
		  letgo_group_owner(&owner, &named);
	if (applies) {
		f->bytes = l.bytes;
		f->has_holder = true;
		f->certainty = CERTAINTY_PROVEN;
		autopsy_at_making(a, f, l.largest);
		autopsy_say(f, SAID(left_in_optimizer, fact_bytes("bytes", l.bytes), fact_count("parameters", l.nr)));
		autopsy_evidence(f, SAID(left_in_groups, fact_name("optimizer", owner.text),
					 fact_line("site", owner.file, owner.line, owner.function)));
		autopsy_advise(f, SAID(older_groups_advice, fact_name("optimizer", owner.text), fact_bytes("bytes", l.bytes)));
	}
	free(l.parameter);
	free(l.optimizer);
	return applies;
}

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
