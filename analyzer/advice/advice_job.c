/* SPDX-License-Identifier: MIT */
/* What kinds of advice ask about the blocks of a window, and its replay. */
#include "analyzer/advice/advice_job.h"

#include <stdlib.h>

#include "analyzer/recording/sorted.h"

uint64_t advice_time(uint64_t ordinal)
{
	return ordinal >= BLOCKREPLAY_END / BLOCKREPLAY_SCALE ? BLOCKREPLAY_END : ordinal * BLOCKREPLAY_SCALE;
}

struct blockreplay advice_replay(const struct advice_job *j)
{
	struct blockreplay r = { .from = advice_time(j->from), .to = advice_time(j->to) };

	if (j->asked)
		blockreplay_add(&r, r.to, BLOCKREPLAY_END, j->asked);
	return r;
}

void advice_keep(struct blockreplay *r, const struct advice_job *j, size_t block)
{
	const struct life *life = &j->blocks.block[block].life;

	blockreplay_add(r, advice_time(life->birth.ordinal), advice_time(life->death.ordinal), life->size);
}

uint64_t advice_peak(const struct advice_job *j, struct blockreplay *r)
{
	uint64_t peak = blockreplay_peak(r) + j->base;

	blockreplay_release(r);
	return peak > j->floor ? peak : j->floor;
}

bool advice_is_born(const struct advice_job *j, size_t block, enum phase phase)
{
	const struct life *life = &j->blocks.block[block].life;

	return life->birth.ordinal >= j->from && life->birth.ordinal <= j->to && life->birth.phase == phase;
}

bool advice_is_inference(const struct advice_job *j)
{
	bool has_run = false;

	for (size_t i = 0; i < j->blocks.nr_blocks; i++) {
		const struct life *life = &j->blocks.block[i].life;

		if (life->birth.ordinal < j->from || life->birth.ordinal > j->to)
			continue;
		if (life->flags & TFMT_FLAG_FORWARD || life->birth.phase == PHASE_BACKWARD)
			return false;
		has_run |= life->birth.phase == PHASE_FORWARD;
	}
	return has_run;
}

bool advice_is_kept(const struct advice_job *j, size_t block)
{
	return j->blocks.block[block].category == CATEGORY_ACTIVATION && advice_is_born(j, block, PHASE_FORWARD);
}

uint64_t advice_key(const struct tfmt_shape *s)
{
	uint64_t dims[8], key = 1;
	uint32_t nr = 0;

	for (uint32_t i = 0; i < s->nr_dims && nr < 8; i++)
		if (s->dims[i] != 1)
			dims[nr++] = s->dims[i];
	qsort(dims, nr, sizeof(*dims), sorted_compare);
	for (uint32_t i = 0; i < nr; i++)
		key = ((key ^ dims[i]) * 0x9e3779b97f4a7c15ull) ^ key >> 29;
	return nr ? key | 1 : 0;
}

uint64_t advice_elements(const struct tfmt_shape *s)
{
	uint64_t nr = 1;

	for (uint32_t i = 0; i < s->nr_dims; i++)
		nr *= s->dims[i];
	return nr;
}

bool advice_is_parameters(const struct advice_job *j, uint64_t key)
{
	return key && j->nr_parameters &&
	       bsearch(&key, j->parameter, j->nr_parameters, sizeof(*j->parameter), sorted_compare);
}

bool advice_fits_parameter(const struct advice_job *j, size_t block)
{
	return advice_is_parameters(j, j->key[block]);
}

bool advice_is_cast(const struct advice_job *j, size_t block)
{
	const struct tfmt_shape *s = &j->shape[block];

	return s->nr_dims >= 2 && s->bytes < j->value_bytes * advice_elements(s) && advice_fits_parameter(j, block);
}
