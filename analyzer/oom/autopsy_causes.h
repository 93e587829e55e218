/* SPDX-License-Identifier: MIT */
/* The table of causes in autopsy_causes.c, and its functions by what they look at: each is as autopsy_cause.applies says. */
#ifndef VT_AUTOPSY_CAUSES_H
#define VT_AUTOPSY_CAUSES_H

#include "analyzer/oom/autopsy_rank.h"

struct autopsy_cause {
	enum verdict verdict;
	const char *name;
	/*
	 * Does it apply? Fill bytes, site and texts of *f if so; certainty, where it is another than the table's. If not, `aside`
	 * may say which figure decided. What other causes have found is not to be looked at.
	 */
	bool (*applies)(const struct autopsy *a, struct autopsy_finding *f);
	enum autopsy_kind kind;
	enum certainty certainty; /* by its evidence alone */
	bool is_beside; /* also said where another cause is the verdict */
	bool of_batch;  /* what it explains grows with the batch: of a batch that is out of line, it follows from that */
};
extern const struct autopsy_cause autopsy_causes[]; /* ends with a row without a name */

/* What nobody needs any more, by what a census says holds it (autopsy_held.c). */
bool autopsy_is_cycle(const struct autopsy *a, struct autopsy_finding *f);
bool autopsy_is_exception(const struct autopsy *a, struct autopsy_finding *f);

/* Tensors that grow with each token, call or step (autopsy_growing.c). */
bool autopsy_is_kv_cache(const struct autopsy *a, struct autopsy_finding *f);
bool autopsy_is_growing_tensor(const struct autopsy *a, struct autopsy_finding *f);

/* What the program keeps from one step to the next (autopsy_kept.c). */
bool autopsy_is_retained_graph(const struct autopsy *a, struct autopsy_finding *f);
bool autopsy_is_past_evaluation(const struct autopsy *a, struct autopsy_finding *f);
bool autopsy_is_kept_graphs(const struct autopsy *a, struct autopsy_finding *f);
bool autopsy_is_leak(const struct autopsy *a, struct autopsy_finding *f);
bool autopsy_is_regular_leak(const struct autopsy *a, struct autopsy_finding *f);

/*
 * An older model that is kept beside the newest (autopsy_older.c); models that nothing but weakref.finalize() leads to, or that
 * torch.autocast() keeps (autopsy_models.c); what else is kept though it is used no more (autopsy_olderstates.c).
 */
bool autopsy_is_older_model(const struct autopsy *a, struct autopsy_finding *f);
bool autopsy_is_left_in_optimizer(const struct autopsy *a, struct autopsy_finding *f);
bool autopsy_is_kept_by_finalizer(const struct autopsy *a, struct autopsy_finding *f);
bool autopsy_is_kept_by_autocast(const struct autopsy *a, struct autopsy_finding *f);
bool autopsy_is_older_optimizers(const struct autopsy *a, struct autopsy_finding *f);

/* What is made anew while what was made the last time is there (autopsy_again.c). */
bool autopsy_is_made_anew(const struct autopsy *a, struct autopsy_finding *f);
bool autopsy_is_called_again(const struct autopsy *a, struct autopsy_finding *f);
bool autopsy_is_replaced(const struct autopsy *a, struct autopsy_finding *f);

/* Graphs of the model's calls that no backward pass has used up (autopsy_graphs.c). */
bool autopsy_is_evaluation(const struct autopsy *a, struct autopsy_finding *f);
bool autopsy_is_graph_retention(const struct autopsy *a, struct autopsy_finding *f);

/* Has an optimizer parameters of this module, as far as censuses have seen (autopsy_parts.c)? */
bool autopsy_is_updated(const struct autopsy *a, uint64_t module);

/* Not causes: has no pass so far used what the line at hand saves for one, or is a model that trains in evaluation mode by now? (autopsy_graphs.c) */
void autopsy_say_open(const struct autopsy *a, struct autopsy_finding *f);

/* Not a cause: is a model there that the step has not called, and that is none of those it trains? */
void autopsy_say_idle(const struct autopsy *a, struct autopsy_finding *f);

/* Not a cause: is most of it for the training of a part of the model that is in evaluation mode? */
void autopsy_say_trained(const struct autopsy *a, struct autopsy_finding *f);

/* What attempts that failed have left (autopsy_attempts.c). */
bool autopsy_is_traceback(const struct autopsy *a, struct autopsy_finding *f);
bool autopsy_is_held_attempt(const struct autopsy *a, struct autopsy_finding *f);

/* What is kept of calls without a graph (autopsy_outputs.c). */
bool autopsy_is_kept_outputs(const struct autopsy *a, struct autopsy_finding *f);
bool autopsy_is_kept_by_calls(const struct autopsy *a, struct autopsy_finding *f);
bool autopsy_is_kept_in_growing(const struct autopsy *a, struct autopsy_finding *f);

/* Free memory between live blocks (autopsy_pieces.c). */
bool autopsy_is_fragmentation(const struct autopsy *a, struct autopsy_finding *f);

/* A weight for each query and key (autopsy_attention.c). */
bool autopsy_is_attention_matrix(const struct autopsy *a, struct autopsy_finding *f);

/* Logits over a vocabulary, all at once (autopsy_logits.c). */
bool autopsy_is_logits_fp32(const struct autopsy *a, struct autopsy_finding *f);

/* Tensors that are larger than they need be (autopsy_tensors.c). */
bool autopsy_is_fft_upcast(const struct autopsy *a, struct autopsy_finding *f);
bool autopsy_is_contiguous_copy(const struct autopsy *a, struct autopsy_finding *f);
bool autopsy_is_list(const struct autopsy *a, struct autopsy_finding *f);
bool autopsy_is_expanded_copy(const struct autopsy *a, struct autopsy_finding *f);
bool autopsy_is_optimizer_history(const struct autopsy *a, struct autopsy_finding *f);
bool autopsy_is_optimizer_state(const struct autopsy *a, struct autopsy_finding *f);
bool autopsy_is_optimizer_temporaries(const struct autopsy *a, struct autopsy_finding *f);

/* A batch, or one tensor, that is larger than in the steps before (autopsy_larger.c). */
bool autopsy_is_larger_input(const struct autopsy *a, struct autopsy_finding *f);

/* Was the request in forward larger than in all steps before, whatever made it so? Said as evidence. */
void autopsy_say_larger(const struct autopsy *a, struct autopsy_finding *f);

bool autopsy_is_spike(const struct autopsy *a, struct autopsy_finding *f);

/*
 * Not causes, but what is said of several (autopsy_less.c): was one result asked for that is larger than all there was? Then less
 * of it at a time is the remedy. Are most of it tensors like the one asked for, of no graph? Then one could be written in another's
 * place. Is most of it many tensors of one line, of no graph? Then that line is what is to be looked at.
 * Are a few most of it, and is nothing else to be said? Then those.
 */
void autopsy_say_whole(const struct autopsy *a, struct autopsy_finding *f);
void autopsy_say_alike(const struct autopsy *a, struct autopsy_finding *f);
void autopsy_say_line(const struct autopsy *a, struct autopsy_finding *f);
void autopsy_say_logits(const struct autopsy *a, struct autopsy_finding *f); /* in 16 bits: autopsy_logits.c */
void autopsy_advise_half(const struct autopsy *a, struct autopsy_finding *f); /* weights in float32, where no backward pass has run */
void autopsy_say_looked_up(const struct autopsy *a, struct autopsy_finding *f); /* by nn.Embedding: autopsy_whole.c */
void autopsy_advise_enlarged(const struct autopsy *a, struct autopsy_finding *f); /* the request, of one sample: autopsy_whole.c */
void autopsy_say_split(const struct autopsy *a, struct autopsy_finding *f);
void autopsy_say_largest(const struct autopsy *a, struct autopsy_finding *f);

/* Is the forward() of a class the program's own, or a package's, and was it called? Any two models are of PyTorch's own classes. */
bool autopsy_has_own_forward(const struct autopsy *a, const char *class_name);

/* Do models of one class hold more than any line, as of a population? Then who holds them, and that they need not all be there (autopsy_models.c). */
void autopsy_say_models(const struct autopsy *a, struct autopsy_finding *f);

/* Are modules nested in one another by the same attribute, as of an adapter that is put around an adapter? Each has its own activations. */
void autopsy_say_nested(const struct autopsy *a, struct autopsy_finding *f);

/* Has one checkpoint() recomputed most of it? Then it covers too much. */
void autopsy_say_recomputed(const struct autopsy *a, struct autopsy_finding *f);

/* Is most of what is there gradients of single samples, one for each parameter? (autopsy_shapes.c) */
bool autopsy_is_sample_gradients(const struct autopsy *a, struct autopsy_finding *f);

/* Is most of it for pairs of the batch's samples? (autopsy_shapes.c) */
void autopsy_say_pairs(const struct autopsy *a, struct autopsy_finding *f);

/*
 * Is a block, or the request (-1), a value for each pair of so many rows that something else there has, and no parameter is wide? 0: no.
 * Then what is to be done where no pairs are meant, or not all of them.
 */
uint64_t autopsy_square_of(const struct autopsy *a, int64_t block);

/* Of [n, n, n] likewise: a value for each three of n rows. */
uint64_t autopsy_cube_of(const struct autopsy *a, int64_t block);
void autopsy_advise_square(const struct autopsy *a, struct autopsy_finding *f, uint64_t rows);

/* Has the batch as many rows as before, and are they longer than any then? */
void autopsy_say_longer_rows(const struct autopsy *a, struct autopsy_finding *f);

/* Does an operation, by ATen's name, compute each element of its result of one? It can as well be written in its place. */
bool autopsy_is_pointwise(const char *operation);

/* A tensor of so many bytes in parts, as large as what went through before; `went`: how many bytes that was, 0: not known. */
void autopsy_advise_parts(const struct autopsy *a, struct autopsy_finding *f, uint64_t bytes, uint64_t went);

/* How much is in float64, where the model has parameters and none of them is, and half of it would do; 0: nothing, or it matters not. */
uint64_t autopsy_doubles(const struct autopsy *a);

/* The headline, if that is more than all else. */
void autopsy_say_doubles(const struct autopsy *a, struct autopsy_finding *f);

/* The headline, if the largest tensor is in int64, and half of what is would do. */
void autopsy_say_integers(const struct autopsy *a, struct autopsy_finding *f);

/* The innermost line of the program's that all of these stacks lead through and that no backward pass has gone back to. false: there is none. */
bool autopsy_unused_line(struct stack_frame *line, const struct autopsy *a, const uint32_t *python_stacks, size_t nr);

/* Was most of what there is saved by lines that ran again and again within the step (autopsy_rounds.c)? The headline, if it was. */
bool autopsy_has_rounds(const struct autopsy *a);
void autopsy_say_rounds(const struct autopsy *a, struct autopsy_finding *f);

/* Did einsum() ask for a product of all dimensions of its operands, larger than all that is there? Then no batch is why. */
bool autopsy_is_uncontracted(const struct autopsy *a);

/* What is in wide elements in narrower ones, first where the model has none such. */
void autopsy_advise_narrower(const struct autopsy *a, struct autopsy_finding *f);

/* What follows the shape of the batch (autopsy_shapes.c). */
bool autopsy_is_padding(const struct autopsy *a, struct autopsy_finding *f);
bool autopsy_is_input_shape(const struct autopsy *a, struct autopsy_finding *f);
bool autopsy_is_shape_cache(const struct autopsy *a, struct autopsy_finding *f);

/* Not a cause: has nearly each block that a place keeps a shape of its own, as in a cache by shape? */
void autopsy_say_shapes(const struct autopsy *a, struct autopsy_finding *f, size_t place);

/* Not a cause: how the steps before followed their batches' shapes and which would have fitted, if that is known. */
void autopsy_say_shape(const struct autopsy *a, struct autopsy_finding *f);

/* What other ranks of the job do without, and what talking to them takes (autopsy_ranks.c). */
bool autopsy_is_rank_imbalance(const struct autopsy *a, struct autopsy_finding *f);
bool autopsy_is_ddp_buckets(const struct autopsy *a, struct autopsy_finding *f);

#endif
