/* SPDX-License-Identifier: MIT */
/* What is known of the blocks of a part of the job, and their replay. */
#include "analyzer/changes/jobpart.h"

#include <stdlib.h>

#include "analyzer/base/heap.h"
#include "analyzer/changes/blockreplay.h"
#include "analyzer/changes/editpeak.h"
#include "analyzer/recording/sorted.h"

uint64_t jobpart_time(uint64_t ordinal)
{
	return ordinal >= BLOCKREPLAY_END / BLOCKREPLAY_SCALE ? BLOCKREPLAY_END : ordinal * BLOCKREPLAY_SCALE;
}

bool jobpart_is_born(const struct jobpart *j, size_t block, enum phase phase)
{
	const struct life *life = &j->blocks.block[block].life;

	return life->birth.ordinal >= j->from && life->birth.ordinal <= j->to && life->birth.phase == phase;
}

bool jobpart_is_inference(const struct jobpart *j)
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

bool jobpart_is_kept(const struct jobpart *j, size_t block)
{
	return j->blocks.block[block].category == CATEGORY_ACTIVATION && jobpart_is_born(j, block, PHASE_FORWARD);
}

uint64_t jobpart_key(const struct tfmt_shape *s)
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

uint64_t jobpart_elements(const struct tfmt_shape *s)
{
	uint64_t nr = 1;

	for (uint32_t i = 0; i < s->nr_dims; i++)
		nr *= s->dims[i];
	return nr;
}

bool jobpart_is_parameters(const struct jobpart *j, uint64_t key)
{
	return key && j->nr_parameters &&
	       bsearch(&key, j->parameter, j->nr_parameters, sizeof(*j->parameter), sorted_compare);
}

bool jobpart_fits_parameter(const struct jobpart *j, size_t block)
{
	return jobpart_is_parameters(j, j->key[block]);
}

bool jobpart_is_cast(const struct jobpart *j, size_t block)
{
	const struct tfmt_shape *s = &j->shape[block];

	return s->nr_dims >= 2 && s->bytes < j->value_bytes * jobpart_elements(s) && jobpart_fits_parameter(j, block);
}

static void find_shapes(struct jobpart *j)
{
	const struct books *books = j->device->process->books;

	for (size_t i = 0; i < j->blocks.nr_blocks; i++) {
		const struct group *g = books_group(books, j->blocks.block[i].life.group);

		if (!g->shape || !tfmt_reader_shape(books_reader(books), g->shape, &j->shape[i]))
			continue;
		j->key[i] = jobpart_key(&j->shape[i]);
		if (j->blocks.block[i].category != CATEGORY_PARAMETER || !j->key[i])
			continue;
		j->parameter[j->nr_parameters++] = j->key[i];
		if (j->shape[i].bytes > j->value_bytes * jobpart_elements(&j->shape[i]))
			j->value_bytes = j->shape[i].bytes / jobpart_elements(&j->shape[i]);
	}
	if (j->nr_parameters)
		qsort(j->parameter, j->nr_parameters, sizeof(*j->parameter), sorted_compare);
}

static void find_backward(struct jobpart *j)
{
	j->backward = TFMT_NO_ORDINAL;
	for (size_t i = 0; i < j->blocks.nr_blocks; i++) {
		const struct life *life = &j->blocks.block[i].life;

		if (life->birth.phase == PHASE_BACKWARD && life->birth.ordinal >= j->from &&
		    life->birth.ordinal < j->backward)
			j->backward = life->birth.ordinal;
		if (life->death.phase == PHASE_BACKWARD && life->death.ordinal >= j->from &&
		    life->death.ordinal < j->backward)
			j->backward = life->death.ordinal;
	}
	if (j->backward > j->to)
		j->backward = TFMT_NO_ORDINAL;
}

/* Bytes that are in the total and in no block: the sum of all blocks lacks them. */
static void find_base(struct jobpart *j)
{
	struct jobpart blocks = *j;
	struct edits none = { 0 };
	uint64_t known;

	blocks.base = blocks.floor = 0;
	known = editpeak_once(&blocks, &none);
	j->base = j->peak > known ? j->peak - known : 0;
}

void jobpart_fill(struct jobpart *j, const struct life *life, size_t nr)
{
	categories_judge(&j->blocks, j->device->process, life, nr);
	j->shape = heap_alloc(nr, sizeof(*j->shape));
	j->key = heap_alloc(nr, sizeof(*j->key));
	j->parameter = heap_alloc(nr, sizeof(*j->parameter));
	find_shapes(j);
	find_backward(j);
	find_base(j);
}

void jobpart_release(struct jobpart *j)
{
	categories_release(&j->blocks);
	free(j->shape);
	free(j->key);
	free(j->parameter);
}
