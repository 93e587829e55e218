/* SPDX-License-Identifier: MIT */
/*
 * Padding: sequences of several lengths are put together into one batch, whose rows are all as long as the longest.
 */
#ifndef VT_PADDING_H
#define VT_PADDING_H

#include "analyzer/patterns/moment.h"
#include "analyzer/training/stepinputs.h"

/* The sequences that a batch was padded from: tensors of one line or several, one for each row. */
struct padding {
	uint64_t nr, total, longest;
};

/* So many sequences of one length more. */
void padding_add(struct padding *p, uint64_t nr, uint64_t length);

/*
 * Is the batch as many rows as there are sequences, each as long as the longest? `by`: dimensions that the batch has more; 0
 * where sequences that were padded one by one are laid end to end.
 */
bool padding_holds(const struct tfmt_shape *batch, const struct padding *p, uint32_t by);

/* The first batch of the moment's step that was padded. `inputs`: what the device's steps have begun with, NULL: not known. */
bool padding_find(struct padding *p, const struct moment *at, const struct stepinputs_device *inputs, size_t *batch);

#endif
