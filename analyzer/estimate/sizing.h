/* SPDX-License-Identifier: MIT */
/*
 * The memory that training or serving a model takes, by formula: one process's share, term by term.
 *
 *	total = context + model + optimizer + max(gradients + intermediates, activations)
 *
 * because gradients come into being while activations go, and the optimizer's intermediates when these are
 *gone. With accumulation, or zero_grad(set_to_none=False), gradients live through forward:
 *
 *	total = context + model + optimizer + gradients + max(intermediates, activations)
 *
 * Bytes are doubles; counts are exact below 2^53. Pure.
 */
#ifndef VT_SIZING_H
#define VT_SIZING_H

#include <stdbool.h>

/* Activations per token, in values: a line through measured transformers of 0.5 to 8 thousand million
 * parameters. */
#define SIZING_ACTIVATIONS_SLOPE 4.6894e-4
#define SIZING_ACTIVATIONS_CONSTANT 1.8494e6
#define SIZING_ACTIVATIONS_LEAST 0.5e9 /* parameters; of smaller models the constant is most of it */

enum sizing_optimizer {
	SIZING_NO_OPTIMIZER,
	SIZING_SGD,
	SIZING_MOMENTUM,
	SIZING_ADAM,
	SIZING_ADAFACTOR,
	SIZING_ADAM_8BIT,
	SIZING_NR_OPTIMIZERS
};

struct sizing_job {
	double parameters, active; /* active: those a token passes (a mixture of experts has more) */
	double trainable;          /* share of the parameters, 0 to 1 */
	double parameter_bytes;    /* of a value of parameters, gradients and optimizer state */
	double compute_bytes;      /* of a value of activations and caches */
	enum sizing_optimizer optimizer;
	bool is_fused; /* the optimizer needs no intermediates */
	double batch, length, image_tokens;
	double layers, hidden, heads, kv_heads, head_dim; /* 0: not known */
	double cross_queries, cross_keys;                 /* cross-attention in each layer; 0: none */
	double activations_per_token;                     /* values; NaN: by the formula */
	double activations_ratio;    /* bytes by those of the parameters; NaN: by tokens */
	double measured_activations; /* bytes; NaN: not measured */
	double measured_batch;       /* sequences that they were measured with */
	bool is_checkpointing, is_eager, keeps_gradients, is_inference;
	int zero; /* stage, 0 to 3 */
	double gpus, tensor_parallel;
	double context_bytes;
};

struct sizing {
	double context, model, optimizer, gradients, intermediates;
	double tokens, per_token; /* of activations: values */
	double activations;       /* without the next two */
	double layer_inputs;      /* with checkpointing, activations are these and one_layer; else both are 0 */
	double one_layer;         /* activations of one layer, with checkpointing */
	double attention;         /* matrices of L x L, where attention is not fused */
	double cross_attention;
	double kv_cache;          /* inference */
	double forward, backward; /* the two that max() compares */
	double total;
};

/* Bytes of optimizer state by a parameter, and values of intermediates. */
double sizing_state_bytes(enum sizing_optimizer optimizer, double parameter_bytes);

/* Tokens of an image: whole patches only. */
double sizing_image_tokens(double height, double width, double patch);

/* One layer's attention matrix, in bytes. */
double sizing_attention_layer(const struct sizing_job *job);

struct sizing sizing_of(const struct sizing_job *job);

/* Parameters, optimizer state and gradients of a part of the model: of so many parameters, of which so many are trained. */
double sizing_part(const struct sizing_job *job, double parameters, double trainable);

/* The largest batch whose total is at most capacity_bytes; infinity: there is none below 2^40; 0: not even one fits. */
double sizing_largest_batch(const struct sizing_job *job, double capacity_bytes);

#endif
