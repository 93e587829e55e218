/* SPDX-License-Identifier: MIT */
/* The memory that a model takes, by formula; see sizing.h. */
#include "analyzer/estimate/sizing.h"

#include <math.h>

double sizing_state_bytes(enum sizing_optimizer optimizer, double parameter_bytes)
{
	switch (optimizer) {
	case SIZING_MOMENTUM:
		return parameter_bytes;
	case SIZING_ADAM:
		return 2 * parameter_bytes;
	case SIZING_ADAM_8BIT:
		/* Two states of a byte, each with a float for every 256 values. */
		return 2 * (1 + 4.0 / 256);
	default:
		/* Adafactor keeps a row and a column of each matrix: less than a hundredth. */
		return 0;
	}
}

double sizing_image_tokens(double height, double width, double patch)
{
	return floor(height / patch) * floor(width / patch);
}

static double sequence(const struct sizing_job *j)
{
	return j->length + j->image_tokens;
}

double sizing_attention_layer(const struct sizing_job *j)
{
	return j->batch * j->heads * sequence(j) * sequence(j) * j->compute_bytes / j->tensor_parallel;
}

/* What of the activations stays with checkpointing: the input of each layer, and one layer's own. */
static void checkpoint(struct sizing *s, const struct sizing_job *j)
{
	double inputs = j->layers * s->tokens * j->hidden * j->compute_bytes / j->tensor_parallel;

	if (!j->is_checkpointing || !(j->layers > 0) || inputs + s->activations / j->layers >= s->activations)
		return;
	s->layer_inputs = inputs;
	s->one_layer = s->activations / j->layers;
	s->activations = s->layer_inputs + s->one_layer;
}

static void size_activations(struct sizing *s, const struct sizing_job *j)
{
	double layers = j->is_checkpointing ? 1 : j->layers;

	s->tokens = j->batch * sequence(j);
	s->per_token = isnan(j->activations_per_token)
			       ? SIZING_ACTIVATIONS_SLOPE * j->active + SIZING_ACTIVATIONS_CONSTANT
			       : j->activations_per_token;
	if (!isnan(j->measured_activations)) {
		s->activations = j->measured_activations * j->batch / j->measured_batch;
		return;
	}
	if (!isnan(j->activations_ratio)) {
		s->activations = j->activations_ratio * j->parameters * j->parameter_bytes / j->tensor_parallel;
	} else {
		s->activations = s->tokens * s->per_token * j->compute_bytes / j->tensor_parallel;
		checkpoint(s, j);
	}
	if (j->is_eager)
		s->attention = layers * sizing_attention_layer(j);
	/* Keys and values of what is looked at, and one matrix of weights. */
	s->cross_attention = j->batch * layers *
			     (2 * j->cross_keys * j->hidden + j->cross_queries * j->cross_keys) *
			     j->compute_bytes / j->tensor_parallel;
}

/* Over how many GPUs a term is spread that ZeRO divides from a stage on. */
static double spread(const struct sizing_job *j, int stage)
{
	return j->tensor_parallel * (j->zero >= stage ? j->gpus : 1);
}

double sizing_part(const struct sizing_job *j, double parameters, double trainable)
{
	double bytes = parameters * j->parameter_bytes / spread(j, 3);

	if (j->is_inference)
		return bytes;
	return bytes + trainable * sizing_state_bytes(j->optimizer, j->parameter_bytes) / spread(j, 1) +
	       trainable * j->parameter_bytes / spread(j, 2);
}

struct sizing sizing_of(const struct sizing_job *j)
{
	double trainable = j->parameters * j->trainable;
	struct sizing s = { .context = j->context_bytes,
			    .model = j->parameters * j->parameter_bytes / spread(j, 3) };

	if (j->is_inference) {
		s.kv_cache = 2 * j->layers * j->batch * j->kv_heads * sequence(j) * j->head_dim *
			     j->compute_bytes / j->tensor_parallel;
		s.total = s.context + s.model + s.kv_cache;
		return s;
	}
	size_activations(&s, j);
	s.gradients = trainable * j->parameter_bytes / spread(j, 2);
	s.optimizer = trainable * sizing_state_bytes(j->optimizer, j->parameter_bytes) / spread(j, 1);
	if (!j->is_fused && j->optimizer > SIZING_SGD && j->optimizer != SIZING_ADAM_8BIT)
		s.intermediates = trainable * j->parameter_bytes / spread(j, 1);
	s.forward = s.activations + s.attention + s.cross_attention;
	s.backward = s.intermediates;
	*(j->keeps_gradients ? &s.total : &s.backward) += s.gradients;
	s.total += s.context + s.model + s.optimizer + fmax(s.forward, s.backward);
	return s;
}

static bool fits(const struct sizing_job *job, double batch, double capacity_bytes)
{
	struct sizing_job j = *job;

	j.batch = batch;
	return sizing_of(&j).total <= capacity_bytes;
}

double sizing_largest_batch(const struct sizing_job *job, double capacity_bytes)
{
	double low = 0, high = 1;

	if (!fits(job, 1, capacity_bytes))
		return 0;
	for (; high < 0x1p40 && fits(job, high, capacity_bytes); high *= 2)
		low = high;
	if (high >= 0x1p40)
		return INFINITY;
	while (high - low > 1) {
		double middle = floor((low + high) / 2);

		*(fits(job, middle, capacity_bytes) ? &low : &high) = middle;
	}
	return low;
}
