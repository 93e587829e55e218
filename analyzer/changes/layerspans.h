/* SPDX-License-Identifier: MIT */
/*
 * When layers, those of a list (layerlist.h) or others, ran in a part of the job: each one's forward and backward, and its
 * *output*, the block that it hands to the next one. Each is taken to be called once there.
 */
#ifndef VT_LAYERSPANS_H
#define VT_LAYERSPANS_H

#include "analyzer/changes/layerlist.h"

struct layerspan {
	uint64_t first, last; /* births in forward, ordinals; first TFMT_NO_ORDINAL: none */
	uint64_t end;	      /* of its forward: the next birth of another */
	uint64_t back;	      /* where its backward begins; TFMT_NO_ORDINAL: it is not seen */
	size_t output;	      /* block; SIZE_MAX: none */
	uint64_t largest;     /* bytes of its results */
	uint64_t passed;      /* bytes allocated in forward */
};

struct layerspans {
	const struct jobpart *j;
	const struct modulepaths *paths;
	struct layerlist list; /* zero: they are of none */
	uint32_t nr_layers;
	struct layerspan *span;
	int32_t *of; /* by path: its layer, -1 = in none */
};

/* `of` is the spans' own from now on. layerspans_release() is needed. */
void layerspans_find(struct layerspans *l, const struct jobpart *j, int32_t *of, uint32_t nr_layers);
void layerspans_of_list(struct layerspans *l, const struct jobpart *j, const struct layerlist *list);
void layerspans_release(struct layerspans *l);

/* Does forward call them once each, in their order? */
bool layerspans_are_in_order(const struct layerspans *l);

/* The layer that a block was made in; -1 = in none. */
int32_t layerspans_layer(const struct layerspans *l, size_t block);

/* The Python stack of the line that calls them; 0 = not known. */
uint32_t layerspans_call(const struct layerspans *l);

#endif
