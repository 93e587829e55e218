/* SPDX-License-Identifier: MIT */
/*
 * The unseen rest of a step in which memory ran out: layers that forward has not reached, the logits after them, and
 * what the optimizer will keep.
 *
 * How many layers there are shows in the parameters, which repeat; what each keeps, in the last one that was whole.
 * Logits come where parameters end with a matrix over the vocabulary, or a vocabulary is there and nothing tells of
 * its use, as a step does that went through without. Where nothing is trained there is no such rest.
 *
 * In backward activations go and gradients come: of layers that are alike it needs most where it begins, or at its end,
 * when all gradients are there and the optimizer updates.
 *
 * Layers that are not alike (stages of convolutions, a U-Net) tell nothing of others: the rest is not known then, only
 * what there was.
 */
#ifndef VT_UNSEEN_H
#define VT_UNSEEN_H

#include "analyzer/changes/batchcut.h"

struct unseen {
	uint32_t nr_layers, layer; /* of the model; the one that memory ran out in. nr_layers 0: not known */
	uint64_t vocabulary;	   /* 0 = no logits are expected */
	bool are_freed;		   /* logits go before backward begins: nobody knows, set by the caller */
	uint64_t state_bytes;	   /* of the optimizer, if it is Adam; 0 = it has been seen */
	bool in_backward;	   /* memory ran out there, after all layers */
	bool is_unknown;	   /* the step may need any more than that: what is told is the least */
	int32_t *of;		   /* by path (modulepaths.h): its layer */
	uint32_t nr_paths;
};

/* unseen_release() is needed either way. */
void unseen_find(struct unseen *u, const struct jobpart *j, const struct batchcut *c);
void unseen_release(struct unseen *u);

/*
 * What the step would have taken beside what there was at the failure, with this cut; `gradients` of those to come are
 * counted by the caller.
 */
uint64_t unseen_bytes(const struct unseen *u, const struct jobpart *j, const struct batchcut *c, uint64_t gradients);

/*
 * Gradients that would add up, of parameters that had none when memory ran out: of as many as there are, or as the
 * optimizer keeps state of.
 */
uint64_t unseen_gradients(const struct jobpart *j);

#endif
