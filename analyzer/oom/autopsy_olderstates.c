/* SPDX-License-Identifier: MIT */
/*
 * Causes: what is kept though it is used no more: state of older optimizers of parameters that a newer one has state of; and
 * parameters that no module has, in groups of an optimizer that others are trained by.
 *
 * A census's names say of which parameter a state is, under which key, and which optimizer has it: two that have the same are
 * no history, as L-BFGS keeps, and no GAN's pair, whose parameters are others.
 */
#include <stdlib.h>

#include "analyzer/base/heap.h"
#include "analyzer/names/letgo.h"
#include "analyzer/names/objectway.h"
#include "analyzer/oom/autopsy_causes.h"
#include "analyzer/purpose/optimizerstates.h"

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
