/* SPDX-License-Identifier: MIT */
/* vramtrace estimate: the memory of a model that does not exist yet, by formula, and beside a measurement. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/message.h"
#include "analyzer/command.h"
#include "analyzer/estimate/estimate_measure.h"
#include "analyzer/pages/print_estimate.h"
#include "analyzer/ui/emit.h"
#include "analyzer/ui/options.h"

#define CONTEXT_USUAL (500u << 20)
#define LENGTH_USUAL 2048
#define PATCH_USUAL 14
#define COUNTED_MAX 0x1p60 /* bytes */
#define NOT_GIVEN INT64_MIN

enum { FP32, BF16, FP16, MIXED };
static const char *const precision_names[] = { "fp32", "bf16", "fp16", "mixed", NULL };
static const char *const optimizer_names[] = { "none",      "sgd",       "momentum", "adamw",
					       "adafactor", "adamw8bit", NULL };

struct estimate_opts {
	const char *config, *parameters, *frozen, *activations, *image, *cross, *simulate, *against;
	int precision, optimizer;
	int64_t batch, length, layers, hidden, heads, kv_heads, patch, zero, gpus, tensor_parallel;
	bool fused, checkpointing, eager, accumulate, inference, measure;
	uint64_t capacity_bytes, context_bytes;
	struct emit_opts emit;
};

static const struct opt estimate_optv[] = {
	OPT_STRING('c', "config", struct estimate_opts, config, "FILE",
		   "a config.json: parameters, layers, heads"),
	OPT_STRING('n', "parameters", struct estimate_opts, parameters, "N", "instead: 1.5B, 350M, 7e9"),
	OPT_ENUM('p', "precision", struct estimate_opts, precision, precision_names,
		 "mixed: fp32 state, 16-bit compute"),
	OPT_ENUM('o', "optimizer", struct estimate_opts, optimizer, optimizer_names, "default adamw"),
	OPT_FLAG(0, "fused", struct estimate_opts, fused, "an optimizer without intermediates"),
	OPT_STRING(0, "frozen", struct estimate_opts, frozen, "SHARE|PARTS",
		   "of the parameters: 0.99, 99%; vision,connector"),
	OPT_INT('b', "batch", struct estimate_opts, batch, "B", "sequences (1)"),
	OPT_INT('l', "length", struct estimate_opts, length, "L", "tokens of a sequence (2048, or an encoder's)"),
	OPT_STRING(0, "activations", struct estimate_opts, activations, "A",
		   "values a token: 5065216; 2.5x: parameters"),
	OPT_FLAG(0, "checkpointing", struct estimate_opts, checkpointing,
		 "recompute each layer's activations"),
	OPT_FLAG(0, "eager", struct estimate_opts, eager, "attention that is not fused: L x L matrices"),
	OPT_FLAG(0, "accumulate", struct estimate_opts, accumulate, "gradients live through forward"),
	OPT_FLAG(0, "inference", struct estimate_opts, inference, "parameters and KV cache only"),
	OPT_INT(0, "layers", struct estimate_opts, layers, "N", "without a config"),
	OPT_INT(0, "hidden", struct estimate_opts, hidden, "N", "without a config"),
	OPT_INT(0, "heads", struct estimate_opts, heads, "N", "without a config"),
	OPT_INT(0, "kv-heads", struct estimate_opts, kv_heads, "N",
		"without a config; default as many as heads"),
	OPT_STRING(0, "image", struct estimate_opts, image, "WxH", "an image in each sequence, in pixels"),
	OPT_INT(0, "patch", struct estimate_opts, patch, "N", "pixels of a side of its patches (14)"),
	OPT_STRING(0, "cross-attention", struct estimate_opts, cross, "QxK",
		   "queries and keys in each layer"),
	OPT_INT(0, "zero", struct estimate_opts, zero, "STAGE", "ZeRO 1, 2 or 3; FSDP is 3"),
	OPT_INT(0, "gpus", struct estimate_opts, gpus, "N", "that ZeRO or FSDP spreads over"),
	OPT_INT(0, "tensor-parallel", struct estimate_opts, tensor_parallel, "N",
		"GPUs that share each layer"),
	OPT_BYTES(0, "capacity", struct estimate_opts, capacity_bytes, "SIZE",
		  "of the GPU: the largest batch that fits"),
	OPT_BYTES(0, "context", struct estimate_opts, context_bytes, "SIZE", "that a process takes (500MiB)"),
	OPT_FLAG(0, "measure", struct estimate_opts, measure,
		 "take activations from a simulated step: -- CMD"),
	OPT_STRING(0, "simulate", struct estimate_opts, simulate, "GPU", "that --measure runs on (h100)"),
	OPT_STRING(0, "against", struct estimate_opts, against, "REC", "set a recording beside the formula"),
	EMIT_OPTIONS(struct estimate_opts, emit),
	OPT_END
};

static const struct opt_help estimate_help = {
	.command = "estimate",
	.purpose = "Estimate the GPU memory of a model by formula, term by term with known errors.",
	.usage = "[options] --config FILE | --parameters N [-- CMD]",
	.example =
		"vramtrace estimate --config config.json --precision bf16 --batch 8 --capacity 80GiB\n"
		"vramtrace estimate -n 7B --optimizer adamw8bit --checkpointing --layers 32 --hidden 4096\n"
		"vramtrace estimate -n 1.5B --measure -- python step.py",
	.options = estimate_optv,
	.stop_at_positional = true,
};

/* "1.5B", "350M", "7e9"; false: it is none of these. */
static bool parse_count(const char *text, double *number)
{
	static const char suffixes[] = "KMBT";
	const char *suffix;
	char *end;
	double value = strtod(text, &end);

	if (end == text || !isdigit((unsigned char)*text) || tolower((unsigned char)text[1]) == 'x') /* "0x10" */
		return false;
	if (*end) {
		suffix = strchr(suffixes, toupper((unsigned char)*end));
		if (!suffix || end[1])
			return false;
		for (const char *s = suffixes; s <= suffix; s++)
			value *= 1000;
	}
	*number = value;
	return value >= 1 && value < 0x1p53;
}

/* "336x336": two whole numbers. */
static bool parse_pair(const char *text, double *a, double *b)
{
	char *end;

	if (!isdigit((unsigned char)*text))
		return false;
	*a = strtod(text, &end);
	if (*end != 'x' || !isdigit((unsigned char)end[1]))
		return false;
	*b = strtod(end + 1, &end);
	return !*end && *a >= 1 && *b >= 1 && *a <= 1e6 && *b <= 1e6;
}

static double patch_of(const struct estimate_opts *o)
{
	return o->patch == NOT_GIVEN ? PATCH_USUAL : (double)o->patch;
}

static bool parse_share(const char *text, double *share)
{
	char *end;

	*share = strtod(text, &end);
	if (end == text)
		return false;
	if (!strcmp(end, "%"))
		*share /= 100;
	else if (*end)
		return false;
	return *share >= 0 && *share <= 1;
}

/* "vision,connector" of a model that has these parts. */
static bool parse_parts(struct estimate *x, const char *text)
{
	for (const char *next = text; next; text = next) {
		size_t n = strcspn(text, ",");
		int part = 0;

		next = text[n] ? text + n + 1 : NULL;
		while (modelpart_names[part] &&
		       (strlen(modelpart_names[part]) != n || strncmp(modelpart_names[part], text, n)))
			part++;
		if (!modelpart_names[part])
			return false;
		x->is_frozen[part] = true;
	}
	return true;
}

/* What of the parameters is trained. Returns 0 or CMD_TROUBLE after a message. */
static int read_frozen(struct estimate *x, const char *text)
{
	double frozen = 0;

	if (text && !parse_share(text, &frozen)) {
		if (!parse_parts(x, text))
			return opt_wrong(&estimate_help, "'%s' is no share such as 99%%, nor parts such as vision, for "
							 "'--frozen'", text);
		if (!x->has_config || !x->config.has_vision)
			return opt_wrong(&estimate_help, "'--frozen %s' needs the config of a model with a vision "
							 "encoder", text);
		for (int i = 0; i < MODELPARTS; i++)
			frozen += x->is_frozen[i] ? modelconfig_part(&x->config, i) / x->config.parameters : 0;
	}
	x->job.trainable = fmax(0, 1 - frozen);
	return 0;
}

static bool parse_activations(const char *text, struct sizing_job *j)
{
	size_t n = strlen(text);
	char *end;

	if (n > 1 && text[n - 1] == 'x') {
		j->activations_ratio = strtod(text, &end);
		return end == text + n - 1 && j->activations_ratio >= 0 && j->activations_ratio < 1e6;
	}
	return parse_count(text, &j->activations_per_token);
}

/* Numbers and combinations that make no sense. Returns 0 or CMD_TROUBLE after a message. */
static int check_options(const struct estimate_opts *o, const struct sizing_job *j)
{
	const struct {
		const char *name;
		int64_t value, min, max;
	} ranges[] = {
		{ "batch", o->batch, 1, INT64_C(1) << 40 },
		{ "length", o->length == NOT_GIVEN ? 0 : o->length, 0, INT64_C(1) << 32 },
		{ "layers", o->layers, 0, 1 << 20 },
		{ "hidden", o->hidden, 0, 1 << 28 },
		{ "heads", o->heads, 0, 1 << 20 },
		{ "kv-heads", o->kv_heads, 0, 1 << 20 },
		{ "patch", (int64_t)patch_of(o), 1, 1 << 16 },
		{ "zero", o->zero == NOT_GIVEN ? 0 : o->zero, 0, 3 },
		{ "gpus", o->gpus, 1, 1 << 20 },
		{ "tensor-parallel", o->tensor_parallel, 1, 1 << 16 },
	};

	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
		if (ranges[i].value < ranges[i].min || ranges[i].value > ranges[i].max)
			return opt_wrong(&estimate_help, "'--%s' cannot be %lld", ranges[i].name,
					 (long long)ranges[i].value);
	if (o->zero > 0 && o->gpus == 1)
		return opt_wrong(&estimate_help, "'--zero' needs '--gpus', over how many it spreads");
	if (o->zero == NOT_GIVEN && o->gpus > 1)
		return opt_wrong(&estimate_help, "'--gpus %lld' needs '--zero', what is spread over them",
				 (long long)o->gpus);
	if (o->patch != NOT_GIVEN && !o->image)
		return opt_wrong(&estimate_help, "'--patch' needs '--image'");
	if (o->simulate && !o->measure)
		return opt_wrong(&estimate_help, "'--simulate' needs '--measure'");
	if (o->kv_heads > 0 && j->heads > 0 && (double)o->kv_heads > j->heads)
		return opt_wrong(&estimate_help, "'--kv-heads %lld' cannot be more than the %.0f heads",
				 (long long)o->kv_heads, j->heads);
	if ((o->eager || o->inference) && !(j->layers > 0 && j->heads > 0))
		return opt_wrong(&estimate_help, "'--%s' needs '--layers' and '--heads', or a config",
				 o->eager ? "eager" : "inference");
	if ((o->inference || o->checkpointing || o->cross) && !(j->layers > 0 && j->hidden > 0))
		return opt_wrong(&estimate_help, "'--layers' and '--hidden' are needed, or a config");
	return 0;
}

static void set_precision(struct sizing_job *j, int precision)
{
	j->parameter_bytes = precision == BF16 || precision == FP16 ? 2 : 4;
	j->compute_bytes = precision == FP32 ? 4 : 2;
}

/* Tokens of a sequence where the options do not tell: as many as an encoder has positions for. */
static double usual_length(const struct modelconfig *c, const char *image)
{
	if (c->patch_size > 0 && !c->has_vision && image)
		return 0;
	return c->length > 0 && c->length < LENGTH_USUAL ? c->length : LENGTH_USUAL;
}

static void set_shape(struct sizing_job *j, const struct estimate_opts *o, const struct estimate *x)
{
	const struct modelconfig *c = &x->config;

	j->layers = o->layers ? (double)o->layers : c->layers;
	j->hidden = o->hidden ? (double)o->hidden : c->hidden;
	j->heads = o->heads ? (double)o->heads : c->heads;
	j->length = o->length != NOT_GIVEN ? (double)o->length : usual_length(c, o->image);
	j->kv_heads = c->is_encoder                  ? 0
		      : o->kv_heads                  ? (double)o->kv_heads
		      : c->kv_heads > 0 && !o->heads ? c->kv_heads
						     : j->heads;
	j->head_dim = c->head_dim > 0 && !o->hidden && !o->heads ? c->head_dim
		      : j->heads > 0                             ? j->hidden / j->heads
								 : 0;
}

/* The options' texts. Returns 0 or CMD_TROUBLE after a message. */
static int read_texts(struct estimate *x, const struct estimate_opts *o)
{
	struct sizing_job *j = &x->job;
	double width, height;

	if (read_frozen(x, o->frozen))
		return CMD_TROUBLE;
	if (o->activations && !parse_activations(o->activations, j))
		return opt_wrong(&estimate_help, "'%s' is no number of values, nor 2.5x, for '--activations'",
				 o->activations);
	if (o->image && !parse_pair(o->image, &width, &height))
		return opt_wrong(&estimate_help, "'%s' is no size such as 336x336 for '--image'", o->image);
	if (o->image)
		j->image_tokens = sizing_image_tokens(height, width, patch_of(o));
	if (o->image && j->image_tokens < 1)
		return opt_wrong(&estimate_help, "'--image %s' is smaller than a patch of %.0f pixels", o->image,
				 patch_of(o));
	if (o->cross && !parse_pair(o->cross, &j->cross_queries, &j->cross_keys))
		return opt_wrong(&estimate_help, "'%s' is no pair such as 1024x576 for '--cross-attention'",
				 o->cross);
	return 0;
}

static int describe(struct estimate *x, const struct estimate_opts *o)
{
	struct sizing_job *j = &x->job;
	int ret = 0;

	*x = (struct estimate){ .precision = precision_names[o->precision],
				.optimizer = optimizer_names[o->optimizer],
				.has_config = o->config,
				.capacity_bytes = o->capacity_bytes };
	*j = (struct sizing_job){
		.optimizer = (enum sizing_optimizer)o->optimizer,
		.is_fused = o->fused,
		.batch = (double)o->batch,
		.activations_per_token = NAN,
		.activations_ratio = NAN,
		.measured_activations = NAN,
		.is_checkpointing = o->checkpointing,
		.is_eager = o->eager,
		.keeps_gradients = o->accumulate,
		.is_inference = o->inference,
		.zero = o->zero == NOT_GIVEN ? 0 : (int)o->zero,
		.gpus = (double)o->gpus,
		.tensor_parallel = (double)o->tensor_parallel,
		.context_bytes = (double)o->context_bytes,
	};
	set_precision(j, o->precision);
	if (o->config)
		ret = modelconfig_read(&x->config, o->config);
	else if (!parse_count(o->parameters, &j->parameters))
		ret = opt_wrong(&estimate_help, "'%s' is no number such as 1.5B for '--parameters'",
				o->parameters);
	if (ret)
		return ret;
	if (o->config)
		j->parameters = x->config.parameters;
	j->active = o->config ? x->config.active : j->parameters;
	set_shape(j, o, x);
	ret = read_texts(x, o);
	return ret ? ret : check_options(o, j);
}

/* Activations are what a simulated step's peak holds beside the rest. */
static int measure(struct estimate *x, const struct estimate_opts *o, const char *const *program)
{
	double rest, peak;
	int ret = estimate_measure(&x->measured, o->simulate ? o->simulate : "h100", program);

	if (ret)
		return ret;
	x->sizing = sizing_of(&x->job);
	rest = x->sizing.model + x->sizing.optimizer + (x->job.keeps_gradients ? x->sizing.gradients : 0);
	peak = (double)x->measured.allocated_bytes;
	if (peak < rest)
		return message_error(
			"the measured step took %.2f GiB, less than parameters and optimizer by the formula: "
			"is it of this model, precision and optimizer?",
			peak / 1073741824.0);
	x->job.measured_activations = peak - rest;
	x->job.measured_batch = x->job.batch;
	return 0;
}

int cmd_estimate(int argc, const char **argv)
{
	struct estimate_opts o = { .optimizer = SIZING_ADAM,
				   .batch = 1,
				   .length = NOT_GIVEN,
				   .patch = NOT_GIVEN,
				   .zero = NOT_GIVEN,
				   .gpus = 1,
				   .tensor_parallel = 1,
				   .context_bytes = CONTEXT_USUAL };
	enum opt_result parsed = opt_parse(&estimate_help, &argc, argv, &o);
	struct estimate x;
	struct emit *e;
	int ret;

	if (parsed != OPT_OK)
		return opt_status(parsed);
	if (!o.config == !o.parameters)
		return opt_wrong(&estimate_help, o.config ? "'--config' and '--parameters' exclude each other"
							  : "missing '--config FILE' or '--parameters N'");
	if (argc > 1 && !o.measure)
		return opt_wrong(&estimate_help, "unexpected argument '%s'", argv[1]);
	if (argc < 2 && o.measure)
		return opt_wrong(&estimate_help, "'--measure' needs the program of a step: -- CMD");
	if (o.measure && o.inference)
		return opt_wrong(&estimate_help,
				 "'--measure' is for training: '--inference' has no activations");
	ret = describe(&x, &o);
	if (!ret && o.against)
		ret = estimate_measure_read(&x.against, o.against);
	if (!ret && o.measure)
		ret = measure(&x, &o, argv + 1);
	if (ret)
		return ret;
	x.sizing = sizing_of(&x.job);
	if (!(x.sizing.total < COUNTED_MAX))
		return opt_wrong(&estimate_help, "'--batch %lld' of '--length %.0f' is more memory than can be counted",
				 (long long)o.batch, x.job.length);
	e = emit_open(stdout, &o.emit, "vramtrace/estimate/1");
	print_estimate(e, &x);
	return emit_close(e);
}
