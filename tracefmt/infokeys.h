/* SPDX-License-Identifier: MIT */
/*
 * Which INFO definition is the latest of its key: a flight recorder that drops the oldest part of a trace need not keep
 * the others, or those of a job that runs for months would fill the file. Notes have no key of their own: all are
 * kept. Internal to tracefmt.
 */
#ifndef TFMT_INFOKEYS_H
#define TFMT_INFOKEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TFMT_NR_INFOKEYS 1024 /* a power of two; of further keys all values are kept */

struct tfmt_infokeys {
	struct {
		uint64_t hash; /* of the key; 0: nothing here */
		uint32_t latest, written; /* its latest value's id + 1, and that of the latest in the file; 0: none */
	} key[TFMT_NR_INFOKEYS];
	uint32_t nr;
};

/* A definition of INFO; ids grow. */
void tfmt_infokeys_define(struct tfmt_infokeys *k, uint32_t id, const uint8_t *payload, size_t len);

/* All that have been defined are in the file. */
void tfmt_infokeys_written(struct tfmt_infokeys *k);

/* Does the file hold a later value of this one's key? The payload need not be whole, if its key is. */
bool tfmt_infokeys_is_old(const struct tfmt_infokeys *k, uint32_t id, const uint8_t *payload, size_t len);

#endif
