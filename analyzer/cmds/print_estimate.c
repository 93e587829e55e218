/* SPDX-License-Identifier: MIT */
/* An estimate, term by term; see print_estimate.h. */
#include "analyzer/cmds/print_estimate.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "analyzer/ui/human.h"

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

/* ---- terms ----------------------------------------------------------------------------------- */

static void print_model_term(struct emit *e, const struct estimate *x)
{
	const struct sizing_job *j = &x->job;
	char n[HUMAN_MAX], by[48];

	term(e, "parameters", x->sizing.model,
	     x->has_config && !x->config.is_exact
		     ? "the layout of this model is not known; taken to be Llama's"
		     : NULL,
	     "%s x %g bytes (%s)%s", count(n, j->parameters), j->parameter_bytes, x->precision,
	     spread(by, j, 3));
	if (x->has_config && x->config.has_vision) {
		term(e, "language model", x->config.language * j->parameter_bytes, NULL,
		     "%s of the parameters", count(n, x->config.language));
		term(e, "vision encoder", x->config.vision * j->parameter_bytes, NULL, "%s of the parameters",
		     count(n, x->config.vision));
		term(e, "connector", x->config.connector * j->parameter_bytes, NULL, "%s of the parameters",
		     count(n, x->config.connector));
	}
}

static void print_training_terms(struct emit *e, const struct estimate *x)
{
	const struct sizing_job *j = &x->job;
	double trainable = j->parameters * j->trainable;
	char n[HUMAN_MAX], by[48];

	if (j->optimizer != SIZING_NO_OPTIMIZER)
		term(e, "optimizer", x->sizing.optimizer,
		     j->optimizer == SIZING_ADAFACTOR
			     ? "rows and columns of each matrix are left out: under 1%"
		     : j->optimizer == SIZING_ADAM_8BIT ? "tensors of under 4096 values stay in 32 bits"
							: NULL,
		     "%s trainable x %g bytes (%s)%s", count(n, trainable),
		     sizing_state_bytes(j->optimizer, j->parameter_bytes), x->optimizer, spread(by, j, 1));
	term(e, "gradients", x->sizing.gradients, NULL, "%s trainable x %g bytes%s", count(n, trainable),
	     j->parameter_bytes, spread(by, j, 2));
	if (x->sizing.intermediates > 0)
		term(e, "intermediates", x->sizing.intermediates,
		     "foreach takes at most that; --fused takes none", "%s trainable x %g bytes%s",
		     count(n, trainable), j->parameter_bytes, spread(by, j, 1));
}

static void print_activations(struct emit *e, const struct estimate *x)
{
	const struct sizing_job *j = &x->job;
	bool is_formula = isnan(j->activations_per_token);
	char n[HUMAN_MAX], by[48], tokens[HUMAN_MAX];

	if (!isnan(j->measured_activations)) {
		term(e, "activations", x->sizing.activations, "the other terms' errors are in it",
		     "measured peak - parameters - optimizer%s", j->keeps_gradients ? " - gradients" : "");
		return;
	}
	if (!isnan(j->activations_ratio)) {
		term(e, "activations", x->sizing.activations, NULL, "%g x parameters%s", j->activations_ratio,
		     spread(by, j, 4));
		return;
	}
	term(e, "activations", x->sizing.activations,
	     is_formula ? "Qwen2.5-1.5B: 2.57 M by it, 5,065,216 and 1,984,763 measured" : NULL,
	     "%s tokens x %s values x %g bytes%s%s", human_count(tokens, (uint64_t)x->sizing.tokens),
	     count(n, x->sizing.per_token), j->compute_bytes, spread(by, j, 4),
	     j->is_checkpointing ? ", checkpointed" : "");
	if (x->sizing.attention > 0) {
		char layer[32];

		snprintf(layer, sizeof(layer), "%.2f GiB a layer", sizing_attention_layer(j) / GIB);
		term(e, "attention", x->sizing.attention, "softmax and dropout may keep a second one",
		     "%s x %.0f x %.0f x %.0f^2 x %g bytes (%s)", j->is_checkpointing ? "1 layer" : "layers",
		     j->batch, j->heads, j->length + j->image_tokens, j->compute_bytes, layer);
	}
	if (x->sizing.cross_attention > 0)
		term(e, "cross-attention", x->sizing.cross_attention,
		     "keys, values and one matrix of weights a layer",
		     "%.0f x (2 x %.0f x %.0f + %.0f x %.0f) x %g bytes", j->layers, j->cross_keys, j->hidden,
		     j->cross_queries, j->cross_keys, j->compute_bytes);
}

static void print_terms(struct emit *e, const struct estimate *x)
{
	const struct sizing_job *j = &x->job;
	char by[48];

	emit_table_begin(e, "terms", columns);
	print_model_term(e, x);
	if (j->is_inference) {
		term(e, "KV cache", x->sizing.kv_cache, "a paged cache rounds up to its pages",
		     "2 x %.0f x %.0f x %.0f x %.0f x %.0f x %g bytes%s", j->layers, j->batch, j->kv_heads,
		     j->length + j->image_tokens, j->head_dim, j->compute_bytes, spread(by, j, 4));
	} else {
		print_training_terms(e, x);
		print_activations(e, x);
	}
	term(e, "context", j->context_bytes, "0.15 to 0.6 GiB by GPU; NCCL and cuBLAS come on top",
	     "--context");
	term(e, "total", x->sizing.total, NULL, "%s",
	     j->is_inference      ? "context + parameters + KV cache"
	     : j->keeps_gradients ? "all; larger of intermediates, activations"
				  : "larger of gradients + intermediates, activations");
	emit_table_end(e);
	if (!j->is_inference && isnan(j->activations_per_token) && isnan(j->activations_ratio) &&
	    isnan(j->measured_activations))
		emit_text(e, "activations: 4.6894e-4 x N + 1.8494e6 values a token; --measure counts them");
}

/* ---- below the table ------------------------------------------------------------------------- */

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

static void print_batch(struct emit *e, const struct estimate *x)
{
	double batch;

	if (!x->capacity_bytes)
		return;
	batch = sizing_largest_batch(&x->job, (double)x->capacity_bytes);
	emit_blank(e);
	if (isinf(batch) && isnan(x->job.measured_activations))
		emit_text(e, "largest batch: without a limit by this formula");
	else if (batch > 0 && isnan(x->job.measured_activations))
		emit_text(e, "largest batch in %.2f GiB: %.0f", (double)x->capacity_bytes / GIB, batch);
	else if (isnan(x->job.measured_activations))
		emit_text(e, "no batch fits %.2f GiB", (double)x->capacity_bytes / GIB);
	else
		emit_text(e, "%s %.2f GiB",
			  x->sizing.total <= (double)x->capacity_bytes ? "fits" : "does not fit",
			  (double)x->capacity_bytes / GIB);
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
		    x->capacity_bytes && isnan(j->measured_activations)
			    ? sizing_largest_batch(j, (double)x->capacity_bytes)
			    : NAN);
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
	if (x->measured.is_known)
		emit_text(e, "measured on a simulated GPU: %.2f GiB allocated, %.2f GiB reserved at the peak",
			  (double)x->measured.allocated_bytes / GIB,
			  (double)x->measured.reserved_bytes / GIB);
	print_against(e, x);
	print_batch(e, x);
}
