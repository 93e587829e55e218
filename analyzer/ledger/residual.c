/* SPDX-License-Identifier: MIT */
/* Samples into parts; see residual.h. */
#include "analyzer/ledger/residual.h"

#include <string.h>

void residual_ledger(struct residual *r, unsigned space, int64_t bytes)
{
	r->figures.ledger += (uint64_t)bytes;
	if (space == TFMT_SPACE_POOL)
		r->pool_live += (uint64_t)bytes;
}

static void note_peak(struct residual *r, uint64_t beyond)
{
	if (beyond > r->figures.peak)
		r->figures.peak = beyond;
}

void residual_modelled(struct residual *r, bool is_code, int64_t bytes)
{
	*(is_code ? &r->modelled_code : &r->modelled_context) += (uint64_t)bytes;
	r->is_modelled = true;
	note_peak(r, r->modelled_context + r->modelled_code +
			 (r->figures.has_last && r->figures.last.unknown > 0 ? (uint64_t)r->figures.last.unknown : 0));
}

void residual_peak(struct residual *r, uint64_t time_ns)
{
	r->peak_ns = time_ns;
	r->peak_ledger = r->figures.ledger;
	r->peak_pool_live = r->pool_live;
	r->peak_context = r->modelled_context;
	r->peak_code = r->modelled_code;
	r->peak_passed = false;
	r->has_nearest = r->figures.has_last;
	r->nearest = r->last_fresh.is_fresh ? r->last_fresh : r->figures.last;
}

/* ---- pools ------------------------------------------------------------------------------------ */

static void pool_info(struct residual *r, uint64_t address, uint64_t reserved)
{
	unsigned i = 0;

	while (i < r->nr_pools && r->pool[i].address != address)
		i++;
	if (i == RESIDUAL_POOLS)
		return;
	r->nr_pools = i == r->nr_pools ? i + 1 : r->nr_pools;
	r->pool[i].address = address;
	r->pool[i].reserved = reserved;
}

static void pool_gone(struct residual *r, uint64_t address)
{
	for (unsigned i = 0; i < r->nr_pools; i++)
		if (r->pool[i].address == address)
			r->pool[i] = r->pool[--r->nr_pools];
}

static uint64_t pools_reserved(const struct residual *r)
{
	uint64_t reserved = 0;

	for (unsigned i = 0; i < r->nr_pools; i++)
		reserved += r->pool[i].reserved;
	return reserved;
}

static uint64_t excess(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

/* ---- samples ---------------------------------------------------------------------------------- */

static void give_back(uint64_t *part, int64_t *step)
{
	uint64_t gone = 0 - (uint64_t)*step, less = gone < *part ? gone : *part;

	*part -= less;
	*step += (int64_t)less;
}

/* Something beyond the ledger has changed by `step` since the sample before: to which part does it belong? */
static void attribute(struct residual *r, int64_t step)
{
	if (step > 0 && !r->has_context)
		r->context = (uint64_t)step;
	else if (step > 0 && r->module_loaded)
		r->code += (uint64_t)step;
	else if (step > 0 && r->limit_set)
		r->local_memory += (uint64_t)step;
	if (step < 0 && r->module_loaded)
		give_back(&r->code, &step);
	if (step < 0 && r->limit_set)
		give_back(&r->local_memory, &step);
	r->has_context = true;
	r->module_loaded = r->limit_set = false;
}

/* All that is known of this process's own memory as things stand. */
static uint64_t known(const struct residual *r)
{
	return r->figures.ledger + excess(pools_reserved(r), r->pool_live) + r->modelled_context + r->modelled_code;
}

/* This process's memory as NVML said, brought up to date; 0 when more of it has gone than was there. */
static uint64_t own(const struct residual *r)
{
	int64_t bytes = (int64_t)(known(r) + (uint64_t)r->own_rest);

	return bytes > 0 ? (uint64_t)bytes : 0;
}

static int64_t rest(const struct residual_parts *p)
{
	return (int64_t)(p->used - p->ledger - p->pool_cached - p->context - p->code - p->local_memory -
			 p->other_processes);
}

static uint64_t distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

/* Does the sample stand for the peak rather than the one that does so far? What comes after it needs no correction. */
static bool is_nearer(const struct residual *r, const struct residual_parts *p)
{
	if (!r->has_nearest || p->is_fresh != r->nearest.is_fresh)
		return !r->has_nearest || p->is_fresh;
	return distance(p->time_ns, r->peak_ns) <= distance(r->nearest.time_ns, r->peak_ns);
}

/* Nothing adds up to an unknown total. */
static void sample_free(struct residual *r, uint64_t bytes)
{
	r->figures.has_free = true;
	r->figures.free = bytes;
	r->figures.free_ledger = r->figures.ledger;
}

static void sample(struct residual *r, const struct tfmt_event *ev)
{
	struct residual_parts p = {
		.time_ns = ev->time_ns,
		.total = ev->aux,
		.used = excess(ev->aux, ev->size),
		.ledger = r->figures.ledger,
		.pool_reserved = pools_reserved(r),
		.other_processes = r->other_processes,
		.own = r->knows_own ? own(r) : 0,
		.knows_driver = r->is_modelled || r->knows_processes,
		.knows_processes = r->knows_processes,
		.is_fresh = !r->is_modelled || r->processes_told || !r->other_processes,
	};

	p.pool_cached = excess(p.pool_reserved, r->pool_live);
	if (!r->is_modelled && r->knows_processes) {
		p.context = r->context;
		p.code = r->code;
		p.local_memory = r->local_memory;
		attribute(r, (int64_t)((uint64_t)rest(&p) -
				       (uint64_t)(r->figures.has_last ? r->figures.last.unknown : 0)));
	}
	p.context = r->is_modelled ? r->modelled_context : r->context;
	p.code = r->is_modelled ? r->modelled_code : r->code;
	p.local_memory = r->local_memory;
	p.unknown = rest(&p);
	note_peak(r, excess(p.used, p.ledger));
	r->figures.nr_samples++;
	r->figures.last = p;
	r->figures.has_last = true;
	r->processes_told = false;
	if (p.is_fresh)
		r->last_fresh = p;
	if (!r->peak_passed && is_nearer(r, &p))
		r->nearest = p;
	r->has_nearest = true;
	r->peak_passed |= p.is_fresh;
}

static void object(struct residual *r, const struct tfmt_event *ev)
{
	unsigned what = ev->flags & TFMT_SPACE_MASK;

	if (what == TFMT_OBJECT_MODULE || what == TFMT_OBJECT_LIBRARY)
		r->module_loaded = true;
	else if (what == TFMT_OBJECT_CONTEXT && ev->kind == TFMT_OBJECT_SET)
		r->limit_set = true;
	else if (what == TFMT_OBJECT_POOL && ev->kind == TFMT_OBJECT_GONE)
		pool_gone(r, ev->address);
}

void residual_event(struct residual *r, const struct tfmt_event *ev)
{
	switch (ev->kind) {
	case TFMT_MEMORY_INFO:
		if (ev->aux)
			sample(r, ev);
		else
			sample_free(r, ev->size);
		break;
	case TFMT_PROCESS_INFO:
		r->knows_own = ev->size != 0;
		r->own_rest = (int64_t)(ev->size - known(r));
		r->other_processes = ev->aux;
		r->knows_processes = r->processes_told = true;
		break;
	case TFMT_POOL_INFO:
		if (ev->address) /* else the graphs' memory, which the ledger has */
			pool_info(r, ev->address, ev->size);
		break;
	case TFMT_OBJECT_NEW:
	case TFMT_OBJECT_GONE:
	case TFMT_OBJECT_SET:
		object(r, ev);
		break;
	case TFMT_RESET:
		if (ev->aux) /* not the primary context: its end frees what the others share, too */
			break;
		r->context = r->code = r->local_memory = 0;
		r->has_context = r->figures.has_last = r->last_fresh.is_fresh = false;
		r->nr_pools = 0;
		break;
	default:
		break;
	}
}

/* ---- the peak --------------------------------------------------------------------------------- */

bool residual_at_peak(const struct residual *r, struct residual_parts *out)
{
	uint64_t before;

	*out = (struct residual_parts){ .ledger = r->peak_ledger,
					.context = r->peak_context,
					.code = r->peak_code,
					.knows_driver = r->is_modelled };
	if (!r->has_nearest)
		return false;
	*out = r->nearest;
	before = out->ledger + out->pool_cached + out->context + out->code;
	out->ledger = r->peak_ledger;
	out->pool_cached = excess(out->pool_reserved, r->peak_pool_live);
	if (r->is_modelled) {
		out->context = r->peak_context;
		out->code = r->peak_code;
	}
	out->used += out->ledger + out->pool_cached + out->context + out->code - before;
	if (out->own)
		out->own = excess(out->own + out->used, r->nearest.used);
	return true;
}

bool residual_process(const struct residual_parts *parts, uint64_t *bytes, bool *measured)
{
	*measured = parts->own != 0;
	*bytes = *measured ? parts->own : excess(parts->used, parts->other_processes);
	return *measured || (parts->knows_processes && parts->used >= parts->other_processes);
}
