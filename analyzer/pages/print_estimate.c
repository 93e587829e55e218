/* SPDX-License-Identifier: MIT */
/* An estimate, term by term; see print_estimate.h. */
#include "analyzer/pages/print_estimate.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "analyzer/base/human.h"

#define GIB 1073741824.0
#define GB 1e9

static const struct emit_column columns[] = {
	{ .key = "term", .head = "term", .align = EMIT_LEFT },
	{ .key = "gib", .head = "GiB", .align = EMIT_RIGHT, .text_only = true },
	{ .key = "gb", .head = "GB", .align = EMIT_RIGHT, .text_only = true },
	{ .key = "bytes", .align = EMIT_RIGHT },
	{ .key = "formula", .head = "formula", .align = EMIT_LEFT },
	{ .key = "error", .align = EMIT_LEFT },
	{ 0 },
};

__attribute__((format(printf, 5, 6))) static void term(struct emit *e, const char *name, double bytes,
						       const char *error, const char *format, ...)
{
	char formula[160];
	va_list args;

	va_start(args, format);
	vsnprintf(formula, sizeof(formula), format, args);
	va_end(args);
	emit_row_begin(e);
	emit_string(e, "term", NULL, name);
	emit_label(e, "gib", NULL, "%.2f", bytes / GIB);
	emit_label(e, "gb", NULL, "%.2f", bytes / GB);
	emit_double(e, "bytes", NULL, nearbyint(bytes));
	emit_string(e, "formula", NULL, formula);
	emit_string(e, "error", NULL, error);
	if (error)
		emit_text(e, "known error: %s", error);
	emit_row_end(e);
}

/* "7,063,427,072": counts are below 2^53. */
static const char *count(char buf[static HUMAN_MAX], double n)
{
	return human_count(buf, (uint64_t)nearbyint(n));
}

/* " / 8 GPUs (ZeRO 1)" where a term is spread. */
static const char *spread(char buf[static 48], const struct sizing_job *j, int stage)
{
	int n = 0;

	buf[0] = 0;
	if (j->tensor_parallel > 1)
		n = snprintf(buf, 48, " / TP %.0f", j->tensor_parallel);
	if (j->zero >= stage && j->gpus > 1)
		snprintf(buf + n, 48 - (size_t)n, " / %.0f GPUs", j->gpus);
	return buf;
}

/* The word after a factor; a line has no room for it and for over how many GPUs its term is spread. */
static const char *bytes_word(const struct sizing_job *j, int stage)
{
	char by[48];

	return *spread(by, j, stage) ? "" : " bytes";
}

/* ---- terms ----------------------------------------------------------------------------------- */

/* What comes on top of the parameters, or NULL: they are exact. */
static const char *model_error(char error[static 96], const struct estimate *x)
{
	const struct sizing_job *j = &x->job;

	if (x->has_config && !x->config.is_exact)
		return "the layout of this model is not known; taken to be Llama's";
	if (x->has_config && x->config.untied > 0)
		snprintf(error, 96, "transformers 5 ties the output layer: %.0f parameters less", x->config.untied);
	else if (j->zero >= 3 && j->layers > 0)
		snprintf(error, 96, "layers that are gathered come on top: %.2f GiB each",
			 j->parameters * j->compute_bytes / j->tensor_parallel / j->layers / GIB);
	else if (j->zero >= 3)
		snprintf(error, 96, "layers that are gathered come on top");
	else if (j->compute_bytes < j->parameter_bytes && !j->is_inference)
		snprintf(error, 96, "copies of autocast come on top: up to %.2f GiB",
			 j->parameters * j->compute_bytes / j->tensor_parallel / GIB);
	else if (j->tensor_parallel > 1)
		snprintf(error, 96, "what is not split comes on top: norms, some embeddings");
	else
		return NULL;
	return error;
}

static void print_model_term(struct emit *e, const struct estimate *x)
{
	const struct sizing_job *j = &x->job;
	char n[HUMAN_MAX], by[48], error[96];

	term(e, "parameters", x->sizing.model, model_error(error, x), "%s x %g bytes (%s)%s", count(n, j->parameters),
	     j->parameter_bytes, x->precision, spread(by, j, 3));
}

static void print_training_terms(struct emit *e, const struct estimate *x)
{
	const struct sizing_job *j = &x->job;
	double trainable = j->parameters * j->trainable;
	const char *bytes = bytes_word(j, 1);
	char n[HUMAN_MAX], by[48];

	if (j->optimizer != SIZING_NO_OPTIMIZER)
		term(e, "optimizer", x->sizing.optimizer,
		     j->optimizer == SIZING_ADAFACTOR
			     ? "rows and columns of each matrix are left out: under 1%"
		     : j->optimizer == SIZING_ADAM_8BIT ? "tensors of under 4096 values stay in 32 bits"
							: NULL,
		     "%s trainable x %g%s%s", count(n, trainable),
		     sizing_state_bytes(j->optimizer, j->parameter_bytes), bytes, spread(by, j, 1));
	term(e, "gradients", x->sizing.gradients, NULL, "%s trainable x %g%s%s", count(n, trainable),
	     j->parameter_bytes, bytes, spread(by, j, 2));
	if (x->sizing.intermediates > 0)
		term(e, "intermediates", x->sizing.intermediates,
		     "foreach takes at most that; --fused takes none", "%s trainable x %g%s%s",
		     count(n, trainable), j->parameter_bytes, bytes, spread(by, j, 1));
}

/* Matrices of attention, where it is not fused, and of cross-attention. */
static void print_matrices(struct emit *e, const struct estimate *x)
{
	const struct sizing_job *j = &x->job;
	double layers = j->is_checkpointing ? 1 : j->layers;
	char by[48];

	spread(by, j, 4);
	if (x->sizing.attention > 0)
		term(e, "attention", x->sizing.attention, "softmax and dropout may keep a second one",
		     "%.0f layers of %.2f GiB: %.0f x %.0f x %.0f^2 x %g%s", layers, sizing_attention_layer(j) / GIB,
		     j->batch, j->heads, j->length + j->image_tokens, j->compute_bytes, by);
	if (x->sizing.cross_attention > 0)
		term(e, "cross-attention", x->sizing.cross_attention, "keys, values and one matrix of weights a layer",
		     "%.0f x %.0f x %.0f x (2 x %.0f + %.0f) x %g%s", layers, j->batch, j->cross_keys, j->hidden,
		     j->cross_queries, j->compute_bytes, by);
}

/* Of what is computed again only the layers' inputs stay, and one layer's activations at a time. */
static void print_checkpointed(struct emit *e, const struct estimate *x, const char *error)
{
	const struct sizing_job *j = &x->job;
	char n[HUMAN_MAX], by[48], tokens[HUMAN_MAX];

	human_count(tokens, (uint64_t)x->sizing.tokens);
	spread(by, j, 4);
	term(e, "activations", x->sizing.activations, NULL, "layer inputs + one layer: checkpointing");
	term(e, "layer inputs", x->sizing.layer_inputs, NULL, "%.0f x %s tokens x %.0f x %g bytes%s", j->layers,
	     tokens, j->hidden, j->compute_bytes, by);
	term(e, "one layer", x->sizing.one_layer, error, "%s tokens x %s x %g bytes / %.0f%s", tokens,
	     count(n, x->sizing.per_token), j->compute_bytes, j->layers, by);
}

/* Of the formula by tokens; NULL: it is not that. */
static const char *activations_error(const struct estimate *x)
{
	if (!isnan(x->job.activations_per_token))
		return NULL;
	if (x->config.is_encoder)
		return "ViT-B/16: 1.89 M by it, 0.16 M measured: use --measure";
	if (x->job.parameters < SIZING_ACTIVATIONS_LEAST)
		return "fitted to 0.5 to 8 B parameters, too much for fewer";
	return "Qwen2.5-1.5B: 2.57 M by it, 5,065,216 and 1,984,763 measured";
}

static void print_activations(struct emit *e, const struct estimate *x)
{
	const struct sizing_job *j = &x->job;
	const char *error = activations_error(x);
	char n[HUMAN_MAX], by[48], tokens[HUMAN_MAX];

	if (!isnan(j->measured_activations)) {
		term(e, "activations", x->sizing.activations, "the other terms' errors are in it",
		     "measured peak - parameters - optimizer%s", j->keeps_gradients ? " - gradients" : "");
		return;
	}
	if (!isnan(j->activations_ratio)) {
		term(e, "activations", x->sizing.activations, NULL, "%g x %s x %g bytes%s", j->activations_ratio,
		     count(n, j->parameters), j->parameter_bytes, spread(by, j, 4));
		return;
	}
	human_count(tokens, (uint64_t)x->sizing.tokens);
	if (x->sizing.layer_inputs > 0)
		print_checkpointed(e, x, error);
	else
		term(e, "activations", x->sizing.activations, error, "%s tokens x %s values x %g%s%s", tokens,
		     count(n, x->sizing.per_token), j->compute_bytes, bytes_word(j, 4), spread(by, j, 4));
	print_matrices(e, x);
}

static void print_terms(struct emit *e, const struct estimate *x)
{
	const struct sizing_job *j = &x->job;
	char by[48];

	emit_table_begin(e, "terms", columns);
	print_model_term(e, x);
	if (j->is_inference && !x->config.is_encoder) {
		term(e, "KV cache", x->sizing.kv_cache, "a paged cache rounds up to its pages",
		     "2 x %.0f x %.0f x %.0f x %.0f x %.0f x %g bytes%s", j->layers, j->batch, j->kv_heads,
		     j->length + j->image_tokens, j->head_dim, j->compute_bytes, spread(by, j, 4));
	} else if (!j->is_inference) {
		print_training_terms(e, x);
		print_activations(e, x);
	}
	term(e, "context", j->context_bytes, "0.15 to 0.6 GiB by GPU; NCCL and cuBLAS come on top",
	     "--context");
	term(e, "total", x->sizing.total, NULL, "%s",
	     j->is_inference      ? (x->config.is_encoder ? "context + parameters" : "context + parameters + KV cache")
	     : j->keeps_gradients ? "all others + max(intermediates, activations)"
				  : "max(gradients + intermediates, activations)");
	emit_table_end(e);
	if (!j->is_inference && !j->keeps_gradients)
		emit_text(e, "total: that max(...) + parameters + optimizer + context");
	if (!j->is_inference && isnan(j->activations_per_token) && isnan(j->activations_ratio) &&
	    isnan(j->measured_activations))
		emit_text(e, "activations: 4.6894e-4 x N + 1.8494e6 values a token; --measure counts them");
}

/* ---- below the table ------------------------------------------------------------------------- */

static const struct emit_column part_columns[] = {
	{ .key = "part", .head = "part", .align = EMIT_LEFT },
	{ .key = "gib", .head = "GiB", .align = EMIT_RIGHT, .text_only = true },
	{ .key = "gb", .head = "GB", .align = EMIT_RIGHT, .text_only = true },
	{ .key = "bytes", .align = EMIT_RIGHT },
	{ .key = "parameters", .align = EMIT_RIGHT },
	{ .key = "frozen", .align = EMIT_RIGHT },
	{ .key = "formula", .head = "of parameters, optimizer, gradients", .align = EMIT_LEFT, .text_only = true },
	{ 0 },
};

/* Which share of a part is trained. */
static double trained(const struct estimate *x, int part)
{
	for (int i = 0; i < MODELPARTS; i++)
		if (x->is_frozen[i])
			return x->is_frozen[part] ? 0 : 1;
	return x->job.trainable;
}

/* How the model's terms divide between the parts of a model that sees. */
static void print_parts(struct emit *e, const struct estimate *x)
{
	static const char *const titles[MODELPARTS] = { "language model", "vision encoder", "connector" };
	char n[HUMAN_MAX];

	if (!x->has_config || !x->config.has_vision)
		return;
	emit_blank(e);
	emit_table_begin(e, "parts", part_columns);
	for (int i = 0; i < MODELPARTS; i++) {
		double parameters = modelconfig_part(&x->config, i), share = trained(x, i);
		double bytes = sizing_part(&x->job, parameters, parameters * share);

		emit_row_begin(e);
		emit_string(e, "part", NULL, titles[i]);
		emit_label(e, "gib", NULL, "%.2f", bytes / GIB);
		emit_label(e, "gb", NULL, "%.2f", bytes / GB);
		emit_double(e, "bytes", NULL, nearbyint(bytes));
		emit_double(e, "parameters", NULL, parameters);
		emit_bool(e, "frozen", NULL, !(share > 0));
		emit_label(e, "formula", NULL, "%s parameters%s", count(n, parameters),
			   share > 0 || x->job.is_inference ? "" : ", frozen");
		emit_row_end(e);
	}
	emit_table_end(e);
}

static void print_against(struct emit *e, const struct estimate *x)
{
	double without = x->sizing.total - x->sizing.context, off;

	if (!x->against.is_known)
		return;
	off = 100 * (without / (double)x->against.allocated_bytes - 1);
	emit_blank(e);
	emit_heading(e, "formula and recording");
	emit_label(e, NULL, "  allocated", "%8.2f GiB by formula, %8.2f GiB measured%s: %+.0f%%",
		   without / GIB, (double)x->against.allocated_bytes / GIB,
		   x->against.is_exact ? "" : " at least", off);
	emit_label(e, NULL, "  reserved", "%8s                 %8.2f GiB", "-",
		   (double)x->against.reserved_bytes / GIB);
}

/* Of a measured step it is known what PyTorch had cached beside its tensors: as much of the card is left to that. */
static double largest_batch(const struct estimate *x)
{
	const struct estimate_measured *m = &x->measured;
	double capacity = (double)x->capacity_bytes, context = x->sizing.context;

	if (m->is_known && m->reserved_bytes > m->allocated_bytes && capacity > context)
		capacity = context + (capacity - context) * (double)m->allocated_bytes / (double)m->reserved_bytes;
	return sizing_largest_batch(&x->job, capacity);
}

static void print_batch(struct emit *e, const struct estimate *x)
{
	double batch;

	if (!x->capacity_bytes)
		return;
	batch = largest_batch(x);
	emit_blank(e);
	if (isinf(batch))
		emit_text(e, "largest batch: without a limit by this formula");
	else if (batch > 0)
		emit_text(e, "largest batch in %.2f GiB: %.0f%s", (double)x->capacity_bytes / GIB, batch,
			  isnan(x->job.measured_activations) ? "" : ", if activations and cache grow as the batch does");
	else
		emit_text(e, "no batch fits %.2f GiB", (double)x->capacity_bytes / GIB);
}

static void print_json_measured(struct emit *e, const char *key, const struct estimate_measured *m)
{
	if (!m->is_known) {
		emit_null(e, key, NULL);
		return;
	}
	emit_object_begin(e, key, NULL);
	emit_bool(e, "simulated", NULL, m->is_simulated);
	emit_bool(e, "exact", NULL, m->is_exact);
	emit_uint(e, "allocated_peak_bytes", NULL, m->allocated_bytes);
	emit_uint(e, "reserved_peak_bytes", NULL, m->reserved_bytes);
	emit_uint(e, "driver_peak_bytes", NULL, m->driver_bytes);
	emit_object_end(e);
}

static void print_json(struct emit *e, const struct estimate *x)
{
	const struct sizing_job *j = &x->job;

	emit_double(e, "parameters", NULL, j->parameters);
	emit_double(e, "active_parameters", NULL, j->active);
	emit_bool(e, "exact_parameters", NULL, !x->has_config || x->config.is_exact);
	emit_double(e, "language_parameters", NULL, x->has_config ? x->config.language : NAN);
	emit_double(e, "vision_parameters", NULL, x->has_config ? x->config.vision : NAN);
	emit_double(e, "connector_parameters", NULL, x->has_config ? x->config.connector : NAN);
	emit_double(e, "image_tokens", NULL, j->image_tokens);
	emit_double(e, "tokens", NULL, x->sizing.tokens);
	emit_double(e, "activations_per_token", NULL, x->sizing.per_token);
	emit_double(e, "attention_bytes_per_layer", NULL,
		    j->heads > 0 ? nearbyint(sizing_attention_layer(j)) : NAN);
	emit_double(e, "total_bytes", NULL, nearbyint(x->sizing.total));
	emit_double(e, "largest_batch", NULL,
		    x->capacity_bytes ? largest_batch(x) : NAN);
	print_json_measured(e, "measured", &x->measured);
	print_json_measured(e, "against", &x->against);
}

void print_estimate(struct emit *e, const struct estimate *x)
{
	const struct sizing_job *j = &x->job;
	char n[HUMAN_MAX];

	if (!emit_is_text(e))
		print_json(e, x);
	emit_heading(e, "%s parameters%s%s, %s, %s", count(n, j->parameters), x->has_config ? " of " : "",
		     x->has_config ? (*x->config.type ? x->config.type : "a model") : "", x->precision,
		     j->is_inference ? "inference" : x->optimizer);
	if (j->image_tokens > 0)
		emit_text(e, "%.0f tokens of an image, by whole patches", j->image_tokens);
	emit_blank(e);
	print_terms(e, x);
	print_parts(e, x);
	if (x->measured.is_known)
		emit_text(e, "measured on a simulated GPU: %.2f GiB allocated, %.2f GiB reserved at the peak",
			  (double)x->measured.allocated_bytes / GIB,
			  (double)x->measured.reserved_bytes / GIB);
	print_against(e, x);
	print_batch(e, x);
}
