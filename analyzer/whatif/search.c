/* SPDX-License-Identifier: MIT */
/* The grid of settings, and their order. */
#include "analyzer/whatif/search.h"

#include <assert.h>
#include <stdlib.h>

#include "analyzer/gpu/gpunames.h"

/* PyTorch's own first; then what the documentation offers, alone and together. */
static const char *const grid[] = {
	"",
	"expandable_segments:True",
	"max_split_size_mb:32",
	"max_split_size_mb:64",
	"max_split_size_mb:128",
	"max_split_size_mb:256",
	"max_split_size_mb:512",
	"max_split_size_mb:1024",
	"roundup_power2_divisions:1",
	"roundup_power2_divisions:2",
	"roundup_power2_divisions:4",
	"roundup_power2_divisions:8",
	"roundup_power2_divisions:16",
	"roundup_power2_divisions:32",
	"roundup_power2_divisions:[256:1,512:2,1024:4,>:8]",
	"expandable_segments:True,roundup_power2_divisions:4",
	"expandable_segments:True,roundup_power2_divisions:8",
	"expandable_segments:True,roundup_power2_divisions:16",
	"max_split_size_mb:64,roundup_power2_divisions:4",
	"max_split_size_mb:128,roundup_power2_divisions:4",
	"max_split_size_mb:128,roundup_power2_divisions:8",
	"max_split_size_mb:256,roundup_power2_divisions:4",
	"max_split_size_mb:256,roundup_power2_divisions:8",
	"max_split_size_mb:512,roundup_power2_divisions:8",
	"max_split_size_mb:128,max_non_split_rounding_mb:64",
	"max_split_size_mb:256,max_non_split_rounding_mb:128",
	"large_segment_size_mb:12",
	"large_segment_size_mb:32",
	"large_segment_size_mb:64",
	"large_segment_size_mb:12,expandable_segments:True",
	"large_segment_size_mb:64,expandable_segments:True",
	"backend:cudaMallocAsync",
};
static_assert(sizeof(grid) / sizeof(grid[0]) <= SEARCH_MAX, "there is room for them");

size_t search_settings(struct whatif_setting settings[static SEARCH_MAX], unsigned version)
{
	struct allocconf conf;
	char why[256];
	size_t nr = 0;

	for (size_t i = 0; i < sizeof(grid) / sizeof(grid[0]); i++)
		if (allocconf_read(&conf, grid[i], version, why, sizeof(why)))
			settings[nr++] = (struct whatif_setting){ .text = grid[i], .version = version };
	return nr;
}

static int compare_capacity(const void *a, const void *b)
{
	uint64_t x = gpunames_capacity(*(const char *const *)a), y = gpunames_capacity(*(const char *const *)b);

	return x < y ? -1 : x > y;
}

size_t search_gpus(struct whatif_setting settings[static SEARCH_MAX], const char *name[static SEARCH_MAX],
		   const struct whatif_setting *setting)
{
	const char *const *profile = gpunames_profiles();
	size_t nr = 0;

	for (; profile[nr] && nr < SEARCH_MAX; nr++)
		name[nr] = profile[nr];
	qsort(name, nr, sizeof(*name), compare_capacity);
	for (size_t i = 0; i < nr; i++) {
		settings[i] = *setting;
		settings[i].capacity = gpunames_capacity(name[i]);
	}
	return nr;
}

static int compare(const void *a, const void *b)
{
	const struct search_total *x = a, *y = b;

	if (x->is_refused != y->is_refused)
		return x->is_refused ? 1 : -1;
	if (x->runs_out != y->runs_out)
		return x->runs_out ? 1 : -1;
	if (x->is_bound != y->is_bound)
		return x->is_bound ? 1 : -1;
	if (x->peak_reserved != y->peak_reserved)
		return x->peak_reserved < y->peak_reserved ? -1 : 1;
	if (x->driver_calls != y->driver_calls)
		return x->driver_calls < y->driver_calls ? -1 : 1;
	return x->setting < y->setting ? -1 : x->setting > y->setting;
}

struct search_total search_total(const struct whatif *w, size_t n)
{
	struct search_total total = { .setting = n };

	for (size_t k = 0; k < w->nr_devices; k++) {
		const struct tried *t = &w->device[k]->tried[n];
		struct cachingmodel_figures f = tried_figures(t);

		if (f.peak_reserved > total.peak_reserved)
			total.peak_reserved = f.peak_reserved;
		total.driver_calls += f.takes + f.gives;
		total.retries += f.retries;
		total.runs_out |= t->ooms > 0;
		total.is_refused |= t->is_refused;
		total.is_bound |= t->conf.backend == ALLOCCONF_ASYNC;
	}
	return total;
}

size_t search_rank(const struct whatif *w, struct search_total total[static SEARCH_MAX])
{
	size_t nr = 0;

	for (size_t i = 0; i < w->nr_settings; i++) {
		total[i] = search_total(w, i);
		nr += !total[i].is_refused;
	}
	qsort(total, w->nr_settings, sizeof(*total), compare);
	return nr;
}
