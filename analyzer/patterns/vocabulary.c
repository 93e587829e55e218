/* SPDX-License-Identifier: MIT */
/* Is a dimension a vocabulary? */
#include "analyzer/patterns/vocabulary.h"

#include "analyzer/patterns/patterns_thresholds.h"

bool vocabulary_may_be(uint64_t features)
{
	return features >= VOCABULARY_MIN;
}

bool vocabulary_is_sure(uint64_t features)
{
	return features >= VOCABULARY_SURE;
}

bool vocabulary_are_logits(const struct tfmt_shape *s)
{
	return s->nr_dims >= 2 && vocabulary_is_sure(s->dims[s->nr_dims - 1]) && s->dims[s->nr_dims - 1] != s->dims[s->nr_dims - 2] &&
	       moment_elements(s, s->nr_dims) > s->dims[s->nr_dims - 1];
}

bool vocabulary_has_words(const struct moment *at, uint64_t vocabulary)
{
	int64_t world = at->device->process->world_size;
	uint64_t ranks = world > 1 ? (uint64_t)world : 1; /* that may share an output layer */

	for (size_t i = 0; i < at->nr_blocks; i++) {
		const struct tfmt_shape *s = &at->block[i].shape;

		if (at->live[i].category != CATEGORY_PARAMETER)
			continue;
		if (!at->block[i].is_shaped || (s->nr_dims == 1 && s->dims[0] >= vocabulary))
			return true;
		for (uint32_t k = 0; k < s->nr_dims; k++)
			if (s->dims[k] >= vocabulary / ranks && vocabulary % s->dims[k] == 0)
				return true;
	}
	return false;
}

bool vocabulary_is_taken_in(const struct moment *at, uint64_t vocabulary)
{
	for (size_t i = 0; i < at->nr_blocks; i++) {
		const struct tfmt_shape *s = &at->block[i].shape;

		if (at->live[i].category == CATEGORY_PARAMETER && at->block[i].is_shaped && s->nr_dims >= 2 &&
		    s->dims[1] == vocabulary)
			return true;
	}
	return false;
}
