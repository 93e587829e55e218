/* SPDX-License-Identifier: MIT */
/* Causes: what is made anew while what was made the last time is there: by the line of the request. */
#include <stdlib.h>
#include <string.h>

#include "analyzer/allocator/torch.h"
#include "analyzer/base/heap.h"
#include "analyzer/names/objectway.h"
#include "analyzer/oom/autopsy_causes.h"
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
