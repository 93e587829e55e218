/* SPDX-License-Identifier: MIT */
/* One model of the two kinds, and its peaks over a reset of the device. */
#include "analyzer/whatif/tried.h"

void tried_open(struct tried *t)
{
	if (t->conf.backend == ALLOCCONF_NATIVE)
		t->caching = cachingmodel_open(&t->conf, t->capacity);
	else
		t->plain = plainmodel_open(&t->conf, t->capacity);
}

void tried_give(struct tried *t, const char *settings)
{
	struct allocconf conf = t->conf;
	char why[256];

	if (!t->caching || t->is_over || !allocconf_change(&conf, settings, why, sizeof(why)))
		return;
	conf.backend = t->conf.backend; /* which allocator serves is chosen once */
	t->conf = conf;
	cachingmodel_set_conf(t->caching, &t->conf);
}

void tried_close(struct tried *t)
{
	cachingmodel_close(t->caching);
	plainmodel_close(t->plain);
	t->caching = NULL;
	t->plain = NULL;
}

void tried_set_others(struct tried *t, uint64_t bytes)
{
	t->others = bytes;
	if (t->caching)
		cachingmodel_set_others(t->caching, bytes);
	else
		plainmodel_set_others(t->plain, bytes);
}

bool tried_alloc(struct tried *t, const struct cachingmodel_request *r)
{
	return t->caching ? cachingmodel_alloc(t->caching, r) : plainmodel_alloc(t->plain, r->slot, r->bytes);
}

void tried_free(struct tried *t, uint32_t slot, bool pending)
{
	if (t->is_over)
		return;
	if (t->caching)
		cachingmodel_free(t->caching, slot, pending);
	else
		plainmodel_free(t->plain, slot);
}

void tried_complete(struct tried *t, uint32_t slot)
{
	if (!t->is_over && t->caching)
		cachingmodel_complete(t->caching, slot);
}

void tried_empty_cache(struct tried *t)
{
	if (t->is_over)
		return;
	if (t->caching)
		cachingmodel_empty_cache(t->caching);
	else
		plainmodel_empty_cache(t->plain);
}

void tried_end_private(struct tried *t, uint32_t private_id)
{
	if (!t->is_over && t->caching)
		cachingmodel_end_private(t->caching, private_id);
}

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

struct cachingmodel_figures tried_figures(const struct tried *t)
{
	struct cachingmodel_figures f = t->caching ? *cachingmodel_figures(t->caching) : *plainmodel_figures(t->plain);
	const struct cachingmodel_figures *b = &t->before;

	if (b->peak_reserved > f.peak_reserved) {
		f.peak_reserved = b->peak_reserved;
		f.allocated_at_peak = b->allocated_at_peak;
	}
	f.peak_allocated = larger(f.peak_allocated, b->peak_allocated);
	f.takes += b->takes;
	f.gives += b->gives;
	f.retries += b->retries;
	return f;
}

uint64_t tried_driver_bytes(const struct tried *t, uint64_t bytes)
{
	uint64_t segment;

	if (!t->caching)
		return bytes;
	segment = allocconf_segment(&t->conf, allocconf_rounded(&t->conf, bytes));
	if (t->capacity && t->conf.fraction < 1 &&
	    (double)tried_figures(t).reserved + (double)segment > t->conf.fraction * (double)t->capacity)
		return 0;
	return segment;
}

void tried_reset(struct tried *t)
{
	if (t->is_over)
		return;
	t->before = tried_figures(t);
	tried_close(t);
	tried_open(t);
}
