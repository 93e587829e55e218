/* SPDX-License-Identifier: MIT */
/*
 * When the layers of a list (layerlist.h) ran in the window: each one's forward and backward, and its *output*, the
 * block that it hands to the next one. Layers that forward does not call once each, in their order, have no such
 * times.
 */
#ifndef VT_LAYERSPANS_H
#define VT_LAYERSPANS_H

#include "analyzer/advice/layerlist.h"

struct layerspan {
	uint64_t first, last; /* births in forward, ordinals; first TFMT_NO_ORDINAL: none */
	uint64_t end;	      /* of its forward: the next birth of another */
	uint64_t back;	      /* where its backward begins; TFMT_NO_ORDINAL: it is not seen */
	size_t output;	      /* block; SIZE_MAX: none */
	uint64_t largest;     /* bytes of its results */
	uint64_t passed;      /* bytes allocated in forward */
};

struct layerspans {
	const struct advice_job *j;
	const struct modulepaths *paths;
	struct layerlist list;
	struct layerspan *span;
	int32_t *of; /* by path: its layer, -1 = in none */
};

/*
 * Advice about the list that saves most, of those whose activations take at least `bytes` and of which more layers ran
 * than are there at a time anyway. `advise` fills after_bytes and the texts for one list, or returns false.
 */
bool layerspans_advise(const struct advice_job *j, struct advice *a, uint64_t bytes,
		       bool (*advise)(const struct layerspans *l, struct advice *a));

/* The layer that a block was made in; -1 = in none. */
int32_t layerspans_layer(const struct layerspans *l, size_t block);

/* The Python stack of the line that calls them; 0 = not known. */
uint32_t layerspans_call(const struct layerspans *l);

#endif
