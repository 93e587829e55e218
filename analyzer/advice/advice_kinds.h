/* SPDX-License-Identifier: MIT */
/* The kinds of advice, rows of the table in advice.c. */
#ifndef VT_ADVICE_KINDS_H
#define VT_ADVICE_KINDS_H

#include "analyzer/advice/advice_job.h"

/* Kinds: fill *a but for its kind and saved_bytes. Returns false where there is nothing of the kind. */
bool advice_checkpointing(const struct jobpart *j, struct advice *a);
bool advice_chunked_loss(const struct jobpart *j, struct advice *a);
bool advice_small_state(const struct jobpart *j, struct advice *a);
bool advice_bf16_state(const struct jobpart *j, struct advice *a);
bool advice_set_to_none(const struct jobpart *j, struct advice *a);
bool advice_accumulation(const struct jobpart *j, struct advice *a);
bool advice_smaller_batch(const struct jobpart *j, struct advice *a);
bool advice_shorter(const struct jobpart *j, struct advice *a);
bool advice_free_before(const struct jobpart *j, struct advice *a);
bool advice_duplicates(const struct jobpart *j, struct advice *a);
bool advice_activation_offload(const struct jobpart *j, struct advice *a);
bool advice_expandable(const struct jobpart *j, struct advice *a);
bool advice_offload(const struct jobpart *j, struct advice *a);
bool advice_sharding(const struct jobpart *j, struct advice *a);
bool advice_sharded_parameters(const struct jobpart *j, struct advice *a);

#endif
