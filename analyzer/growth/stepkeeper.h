/* SPDX-License-Identifier: MIT */
/*
 * Who keeps what grows, as a census saw it: and is that a container which is full one day, a deque with a maxlen or the cache of
 * an lru_cache; or an optimizer, which has state of each parameter once?
 */
#ifndef VT_STEPKEEPER_H
#define VT_STEPKEEPER_H

#include "analyzer/replay/replay.h"

/* Zeroed: no census saw it. */
struct stepkeeper {
	bool is_known;           /* most of it has a name, and somebody holds it */
	bool has_entries;        /* that is a list, deque, dict or set */
	bool stays_as_long;      /* it had no more entries at the latest census than at the first since the growth began */
	bool is_of_model;        /* they are parameters: layers differ in shape, and are no entries of a cache */
	bool is_state;           /* it is state of parameters, as an optimizer has it of each but once */
	uint64_t entries, bound; /* at the latest census; the most that it takes; both 0: no bound is known, or it was full */
	double full_bytes;       /* of these tensors, when it is full: as many of their mean size */
	double left_bytes;       /* of them, until then */
};

/*
 * Of what the stack of a group (index into the books' groups) had allocated and was live at the device's peak. `began` is the
 * event with which the growth began.
 */
void stepkeeper_find(struct stepkeeper *k, const struct replay_device *d, uint32_t group, uint64_t began);

#endif
