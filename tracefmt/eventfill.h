/* SPDX-License-Identifier: MIT */
/* A batch of values becomes events: the last step of a decoder. Internal to tracefmt. */
#ifndef TFMT_EVENTFILL_H
#define TFMT_EVENTFILL_H

#include "tracefmt/columns.h"

/* How many events of a batch are made, and how many values of the columns that only some events have are
 * taken. */
struct tfmt_filled {
	uint32_t nr, nr_ages, nr_blocks;
};

/* Make the first nr events of the batch, whose columns have been decoded. */
void tfmt_fill(struct tfmt_decoder *d, uint32_t nr);

/* tfmt_fill() by TFMT_WAY_WIDE, of a frame that is no checkpoint: as many as are a multiple of TFMT_LANES. */
struct tfmt_filled tfmt_fill_wide(struct tfmt_decoder *d, uint32_t nr);

/* How many of the nr events of a batch are frees; false if the class of one is not known. */
bool tfmt_count_frees(const struct tfmt_decoder *d, uint32_t nr, uint32_t *nr_frees);

/* tfmt_count_frees() by TFMT_WAY_WIDE. */
bool tfmt_count_frees_wide(const struct tfmt_decoder *d, uint32_t nr, uint32_t *nr_frees);

static inline uint64_t tfmt_difference(const struct tfmt_decoder *d, enum tfmt_column column, uint32_t i)
{
	return (uint64_t)tfmt_unzigzag(d->value[column][i]);
}

/* The class of an event, whose aux is taken. */
static inline const struct tfmt_pattern *tfmt_pattern(struct tfmt_decoder *d, uint32_t i)
{
	struct tfmt_pattern *p = &d->pattern[d->value[TFMT_COLUMN_CLASS][i]];

	if (d->value[TFMT_COLUMN_AUX][i]) /* seldom: what is reserved changes less often than what is allocated */
		p->event.aux += tfmt_difference(d, TFMT_COLUMN_AUX, i);
	return p;
}

#endif
