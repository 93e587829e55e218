/* SPDX-License-Identifier: MIT */
/* Cause: memory that is free, but lies in pieces between live blocks. */
#include <stdlib.h>

#include "analyzer/allocator/torch.h"
#include "analyzer/base/heap.h"
#include "analyzer/names/groupkeeper.h"
#include "analyzer/oom/autopsy_causes.h"
#include "analyzer/oom/oom_thresholds.h"

/* Of one line's blocks, those with free memory after or before them. */
struct beside {
	uint64_t bytes; /* free: half of each piece */
	uint64_t blocks;
	uint64_t largest; /* block, bytes */
};

struct by_address {
	uint64_t address, size;
	uint32_t place;
};

static int compare_addresses(const void *va, const void *vb)
{
	const struct by_address *a = va, *b = vb;

	return (a->address > b->address) - (a->address < b->address);
}

static void add_beside(struct beside *of, const struct by_address *b, uint64_t before, uint64_t after)
{
	struct beside *one = &of[b->place];

	if (!before && !after)
		return;
	one->bytes += (before + after) / 2;
	one->blocks++;
	if (b->size > one->largest)
		one->largest = b->size;
}

/*
 * Of each place what lies beside its blocks: an array by place, to be freed. Between neighbours is free memory, or none
 * of PyTorch's: that is told by its size alone.
 */
static struct beside *find_beside(const struct autopsy *a)
{
	size_t nr = a->categories.nr_blocks;
	struct beside *of = heap_alloc(a->nr_places + 1, sizeof(*of));
	struct by_address *b = heap_alloc(nr + 1, sizeof(*b));
	uint64_t before = 0, after;

	for (size_t i = 0; i < nr; i++) {
		const struct life *life = &a->categories.block[i].life;

		b[i] = (struct by_address){ life->address, life->size, a->block[i].place };
	}
	if (nr)
		qsort(b, nr, sizeof(*b), compare_addresses);
	for (size_t i = 0; i < nr; i++, before = after) {
		after = i + 1 < nr && b[i + 1].address > b[i].address + b[i].size
				 ? b[i + 1].address - b[i].address - b[i].size
				 : 0;
		if (after > a->cached)
			after = 0;
		add_beside(of, &b[i], before, after);
	}
	free(b);
	return of;
}

/* Does the step need more than there is, were it in one piece? */
static bool is_batch_too_large(const struct autopsy *a)
{
	return a->has_shape && shapefit_at(&a->shape, a->shape.dims) > (double)(a->usable + a->cached);
}

/* Is it kept with others in a container, as what the graphs themselves are kept in? */
static bool has_container(const struct autopsy *a, size_t block)
{
	const struct autopsy_place *place = &a->place[a->block[block].place];
	struct keeper k;

	return place->named && groupkeeper_container(&k, place->named);
}

/* Most of it is private to CUDA graphs: each keeps what its capture has reserved, or a pool that they share does. */
static void say_graphs(const struct autopsy *a, struct autopsy_finding *f)
{
	const struct category_block *largest = NULL;
	bool is_kept = false;

	/* A result of theirs that is kept tells by whom they are. */
	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct category_block *b = &a->categories.block[i];
		bool has = b->life.flags & TFMT_FLAG_CAPTURING && has_container(a, i);

		if (b->life.flags & TFMT_FLAG_CAPTURING &&
		    (!largest || has > is_kept || (has == is_kept && b->life.size > largest->life.size))) {
			largest = b;
			is_kept = has;
		}
	}
	f->bytes = a->failure->cached.of_graphs;
	if (largest)
		autopsy_at_call(a, f, (size_t)(largest - a->categories.block));
	else
		autopsy_at_request(a, f);
	autopsy_say(f, SAID(pieces_of_graphs, fact_bytes("bytes", f->bytes), fact_bytes("asked", a->failure->asked)));
	if (a->failure->cached.graphs_share) {
		autopsy_evidence(f, SAID(pieces_of_graphs_pool, NO_FACTS));
		autopsy_advise(f, SAID(graphs_order_advice, NO_FACTS));
	} else {
		autopsy_evidence(f, SAID(pieces_of_graphs_each, NO_FACTS));
		autopsy_advise(f, SAID(graphs_pool_advice, NO_FACTS));
	}
}

/* Has one container most of the place's blocks, each of them itself or in a record of its own? */
static bool has_most_in_one(struct keeper *k, const struct autopsy_place *place)
{
	struct keeper next;

	if (!groupkeeper_nearest(k, &next, place->named))
		return false;
	if (k->kind == TFMT_KIND_TUPLE || k->kind == TFMT_KIND_OTHER || (keeper_has_entries(k) && 2 * k->length < place->blocks))
		*k = next;
	return keeper_has_entries(k) && 2 * k->length >= place->blocks;
}

/*
 * Where others of the line are gone, the pieces are theirs; so are most pieces what lies between those that are left. What one container
 * has there can be copied into one tensor, on the CPU where there is no room for that.
 */
static void advise_copy(const struct autopsy *a, struct autopsy_finding *f, const struct autopsy_place *place, uint64_t beside)
{
	bool is_between = 2 * beside > a->cached;
	struct keeper k;

	if (place->named && (is_between || autopsy_nr_freed(a, (size_t)(place - a->place)) >= place->blocks) &&
	    has_most_in_one(&k, place))
		autopsy_advise(f, SAID(pieces_copy_advice, fact_name("holder", groupkeeper_name(place->named, &k.name)),
				       fact_bytes("bytes", place->bytes), fact_flag("by_host", place->bytes > a->failure->free)));
}

/*
 * PyTorch has given back what it could before it failed: what is still cached lies between live blocks. It does so for
 * requests of its own only.
 */
bool autopsy_is_fragmentation(const struct autopsy *a, struct autopsy_finding *f)
{
	const struct failure *x = a->failure;
	bool holds_it = a->cached >= x->asked && a->cached >= x->reserved / PIECES_PART;
	/* With what the driver has left: where most of a card stands empty, a sum that is a little too large is not why. */
	bool would_do = a->lacking && a->cached >= a->lacking && a->cached >= x->reserved / PIECES_WITH_REST_PART;
	uint64_t doubles = autopsy_doubles(a);
	struct beside *of;
	size_t most = 0;

	f->aside = SAID(aside_fragmentation, fact_name("cause", f->cause), fact_bytes("cached", a->cached),
			fact_bytes("asked", x->asked));
	if (x->is_pooled || x->is_library || x->asked <= x->free || (!holds_it && !would_do) || is_batch_too_large(a))
		return false;
	if (doubles / 2 > a->cached) { /* that is more than the pieces are */
		f->aside = SAID(aside_doubles, fact_name("cause", f->cause), fact_bytes("cached", a->cached), fact_bytes("doubles", doubles));
		return false;
	}
	if (2 * x->cached.of_graphs > a->cached) {
		say_graphs(a, f);
		return true;
	}
	of = find_beside(a);
	for (size_t i = 1; i < a->nr_places; i++)
		if (of[i].bytes > of[most].bytes)
			most = i;
	f->bytes = a->cached;
	autopsy_at_request(a, f);
	/* A piece of a larger tensor's segment is there, and does not serve it. */
	if (x->asked <= TORCH_SMALL_MAX && x->cached.largest >= x->asked)
		autopsy_say(f, SAID(pieces_of_larger, fact_bytes("bytes", a->cached), fact_bytes("asked", x->asked)));
	else if (holds_it)
		autopsy_say(f, SAID(pieces_hold_it, fact_bytes("bytes", a->cached), fact_bytes("asked", x->asked)));
	else
		autopsy_say(f, SAID(pieces_with_free, fact_bytes("bytes", a->cached), fact_bytes("free", x->free),
				    fact_bytes("asked", x->asked)));
	if (of[most].blocks) {
		autopsy_at_place(a, f, most);
		autopsy_evidence(f, SAID(pieces_beside, fact_count("blocks", of[most].blocks),
					 fact_bytes("largest", of[most].largest)));
		advise_copy(a, f, &a->place[most], of[most].bytes);
	}
	if (holds_it)
		autopsy_evidence(f, SAID(pieces_driver, fact_bytes("free", x->free)));
	free(of);
	return true;
}
