/* SPDX-License-Identifier: MIT */
/*
 * Cause: state of older optimizers of parameters that a newer one has state of.
 *
 * A census's names say of which parameter a state is, under which key, and which optimizer has it: two that have the same are
 * no history, as L-BFGS keeps, and no GAN's pair, whose parameters are others.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/oom/autopsy_causes.h"
#include "analyzer/oom/autopsy_holder.h"
#include "analyzer/recording/textset.h"

struct state {
	size_t block;
	const struct names_census *census;
	uint32_t optimizer; /* object of the census */
	uint32_t parameter; /* likewise */
	unsigned name;	    /* number of what it is called, in the set: exp_avg of model.weight */
};

struct states {
	struct state *state; /* by_name() */
	size_t nr;
	struct textset names;
};

/* What has the same name is side by side then, in the order of allocation. */
static int by_name(const void *va, const void *vb)
{
	const struct state *a = va, *b = vb;

	if (a->census != b->census)
		return a->census < b->census ? -1 : 1;
	if (a->parameter != b->parameter)
		return a->parameter < b->parameter ? -1 : 1;
	if (a->name != b->name)
		return a->name < b->name ? -1 : 1;
	return (a->block > b->block) - (a->block < b->block);
}

static void find_states(struct states *s, const struct autopsy *a)
{
	*s = (struct states){ .state = heap_alloc(a->categories.nr_blocks, sizeof(*s->state)) };
	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct category_block *b = &a->categories.block[i];
		const char *text;
		struct modelkeeper k;
		struct named named;

		if (b->category != CATEGORY_OPTIMIZER_STATE ||
		    !namedblocks_name(&named, a->device->process, &b->life, LIVES_OOM) ||
		    !modelkeeper_find(&k, named.census->census, named.object) || !k.optimizer)
			continue;
		text = named.name.text;
		s->state[s->nr++] = (struct state){ i, named.census, k.optimizer, k.parameter,
						    textset_add(&s->names, 0, text, strlen(text))->number };
	}
	if (s->nr)
		qsort(s->state, s->nr, sizeof(*s->state), by_name);
}

static bool has_name_of(const struct state *a, const struct state *b)
{
	return a->census == b->census && a->parameter == b->parameter && a->name == b->name;
}

/* Has a later optimizer the same state? Then this one is done with. */
static bool is_older(const struct states *s, size_t i)
{
	size_t last = i;

	while (last + 1 < s->nr && has_name_of(&s->state[last + 1], &s->state[i]))
		last++;
	return s->state[last].optimizer != s->state[i].optimizer;
}

static uint32_t optimizer_of(const struct states *s, size_t block)
{
	for (size_t i = 0; i < s->nr; i++)
		if (s->state[i].block == block)
			return s->state[i].optimizer;
	return 0;
}

static bool is_known(const uint32_t *optimizer, size_t nr, uint32_t one)
{
	for (size_t i = 0; i < nr; i++)
		if (optimizer[i] == one)
			return true;
	return false;
}

/* All that older ones have, the largest block of it, and one of another of them; how many these are. */
static size_t older_states(const struct autopsy *a, const struct states *s, uint64_t *bytes, size_t *largest, size_t *other)
{
	uint32_t *optimizer = heap_alloc(s->nr, sizeof(*optimizer));
	size_t nr = 0;

	*bytes = 0;
	for (size_t i = 0; i < s->nr; i++) {
		size_t block = s->state[i].block;

		if (!is_older(s, i))
			continue;
		*bytes += a->categories.block[block].life.size;
		if (!nr || a->categories.block[block].life.size > a->categories.block[*largest].life.size)
			*largest = block;
		if (!is_known(optimizer, nr, s->state[i].optimizer))
			optimizer[nr++] = s->state[i].optimizer;
	}
	*other = *largest;
	for (size_t i = 0; i < s->nr; i++)
		if (is_older(s, i) && s->state[i].optimizer != optimizer_of(s, *largest))
			*other = s->state[i].block;
	free(optimizer);
	return nr;
}

bool autopsy_is_older_optimizers(const struct autopsy *a, struct autopsy_finding *f)
{
	struct states s;
	struct modelkeeper k;
	char holder[OBJECTNAME_MAX];
	uint64_t bytes;
	size_t nr, largest = 0, other;

	if (!a->device->process->names)
		return false;
	find_states(&s, a);
	nr = older_states(a, &s, &bytes, &largest, &other);
	free(s.state);
	textset_release(&s.names);
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
