/* SPDX-License-Identifier: MIT */
/* A model's size from its config.json; see modelconfig.h. */
#include "analyzer/estimate/modelconfig.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/base/message.h"
#include "analyzer/command.h"
#include "analyzer/estimate/modelencoders.h"

#define FILE_MAX_BYTES (1 << 22)
#define DEPTH_MAX 32
#define PARAMETERS_MAX 0x1p53 /* where doubles end to be exact */

struct family {
	const char *type;
	double hidden, inter, layers, heads, kv, head, vocab;
	bool tied;
	int norm_vectors, norms;
	bool qkv_bias, o_bias, mlp_bias, head_bias, gated;
	int qk_norm;
	double positions;
};

static const struct family families[] = {
#define FAMILY(...) { __VA_ARGS__ },
#include "analyzer/estimate/modelfamilies.def"
#undef FAMILY
};

static const struct family *find_family(const char *type)
{
	for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
		if (!strcmp(families[i].type, type))
			return &families[i];
	return NULL;
}

/* ---- the language model ---------------------------------------------------------------------- */

/* Rows x columns, and a bias of the rows. */
static double linear(double rows, double columns, bool has_bias)
{
	return rows * columns + (has_bias ? rows : 0);
}

static double mlp_of(const struct family *f, double hidden, double inter)
{
	return (f->gated ? 2 : 1) * linear(inter, hidden, f->mlp_bias) + linear(hidden, inter, f->mlp_bias);
}

static double attention_of(const struct modelconfig *m, const struct family *f)
{
	double q = m->heads * m->head_dim, kv = m->kv_heads * m->head_dim, norms = 0;

	if (f->qk_norm)
		norms = f->qk_norm == 1 ? 2 * m->head_dim : q + kv;
	return linear(q, m->hidden, f->qkv_bias) + 2 * linear(kv, m->hidden, f->qkv_bias) +
	       linear(m->hidden, q, f->o_bias) + norms;
}

/* Is attention's input first projected to few values, which queries, and keys and values together, are made of? */
static bool is_latent(const struct family *f)
{
	return !strncmp(f->type, "deepseek_v", strlen("deepseek_v"));
}

/* DeepSeek's. What is cached of it is heads' keys and values, of different sizes: head_dim is their mean. */
static double latent_attention_of(struct modelconfig *m, const struct family *f, const struct modelkeys *k)
{
	double rope = modelkeys_size(k, 64, "qk_rope_head_dim", NULL, NULL);
	double nope = modelkeys_size(k, 128, "qk_nope_head_dim", NULL, NULL);
	double value = modelkeys_size(k, 128, "v_head_dim", NULL, NULL);
	double rank = modelkeys_size(k, 512, "kv_lora_rank", NULL, NULL), q_rank = 0, q, kv;

	m->kv_heads = m->heads;
	m->head_dim = (nope + rope + value) / 2;
	if (modelkeys_find(k, "q_lora_rank") || !json_object_object_get_ex(k->object, "q_lora_rank", NULL))
		q_rank = modelkeys_number(k, 1536, "q_lora_rank", NULL, NULL);
	q = m->heads * (nope + rope) * (q_rank > 0 ? q_rank : m->hidden);
	if (q_rank > 0)
		q += linear(q_rank, m->hidden, f->qkv_bias) + q_rank;
	kv = linear(rank + rope, m->hidden, f->qkv_bias) + rank + m->heads * (nope + value) * rank;
	return q + kv + linear(m->hidden, m->heads * value, f->o_bias);
}

/* Experts, and what a key is when the file leaves it out. inter 0: as wide as an MLP without experts. */
static const struct mixture {
	const char *type;
	double experts, top, inter, shared, nr_shared, dense;
	bool shared_gate;
} mixtures[] = {
	{ "", 0, 0, 0, 0, 0, 0, true },
	{ "mixtral", 8, 2, 0, 0, 0, 0, false },
	{ "qwen2_moe", 60, 4, 1408, 5632, 0, 0, true },
	{ "qwen3_moe", 128, 8, 768, 0, 0, 0, false },
	{ "deepseek_v2", 64, 6, 1407, 0, 2, 0, false },
	{ "deepseek_v3", 256, 8, 2048, 0, 1, 3, false },
};

static const struct mixture *mixture_of(const struct family *f)
{
	for (size_t i = 1; i < sizeof(mixtures) / sizeof(mixtures[0]); i++)
		if (!strcmp(mixtures[i].type, f->type))
			return &mixtures[i];
	return &mixtures[0];
}

/* Layers without experts, in a mixture: mlp_only_layers, and those that decoder_sparse_step passes over. */
static double dense_layers(const struct modelconfig *m, const struct modelkeys *k, double first)
{
	struct json_object *only = modelkeys_find(k, "mlp_only_layers");
	double step = modelkeys_size(k, 1, "decoder_sparse_step", NULL, NULL), dense = 0;

	if (step > 1)
		dense = m->layers - floor(m->layers / step);
	dense += modelkeys_number(k, first, "first_k_dense_replace", NULL, NULL);
	if (only && json_object_is_type(only, json_type_array))
		dense += (double)json_object_array_length(only);
	return fmin(dense, m->layers);
}

/* Parameters of all MLPs; *idle: of those, what one token does not pass. */
static double mlps_of(const struct modelconfig *m, const struct family *f, const struct modelkeys *k, double *idle)
{
	const struct mixture *x = mixture_of(f);
	double experts = modelkeys_number(k, x->experts, "num_local_experts", "num_experts", "n_routed_experts");
	double top = modelkeys_number(k, x->top, "num_experts_per_tok", NULL, NULL), inter, shared, dense, each, layer;

	*idle = 0;
	if (!(experts > 0))
		return m->layers * mlp_of(f, m->hidden, m->inter);
	inter = modelkeys_number(k, x->inter > 0 ? x->inter : m->inter, "moe_intermediate_size", NULL, NULL);
	shared = modelkeys_number(k, x->shared, "shared_expert_intermediate_size", NULL, NULL);
	shared += inter * modelkeys_number(k, x->nr_shared, "n_shared_experts", NULL, NULL);
	dense = dense_layers(m, k, x->dense);
	each = mlp_of(f, m->hidden, inter);
	layer = experts * each + experts * m->hidden;
	if (shared > 0)
		layer += mlp_of(f, m->hidden, shared) + (x->shared_gate ? m->hidden : 0);
	*idle = (m->layers - dense) * fmax(0, experts - top) * each;
	return (m->layers - dense) * layer + dense * mlp_of(f, m->hidden, m->inter);
}

/* Keys that change a family's layout. */
static void adapt_family(struct family *f, const struct modelkeys *k)
{
	if (modelkeys_find(k, "attention_bias") && strcmp(f->type, "gpt2"))
		f->qkv_bias = f->o_bias = modelkeys_flag(k, "attention_bias", false);
	f->mlp_bias = modelkeys_flag(k, "mlp_bias", f->mlp_bias);
	if (!strcmp(f->type, "starcoder2"))
		f->qkv_bias = f->o_bias = f->mlp_bias = modelkeys_flag(k, "use_bias", true);
	if (!strcmp(f->type, "stablelm"))
		f->qkv_bias = modelkeys_flag(k, "use_qkv_bias", false);
	if (!strcmp(f->type, "stablelm") && modelkeys_flag(k, "use_parallel_residual", false))
		f->norms = 1;
	if (!strcmp(f->type, "falcon"))
		f->qkv_bias = f->o_bias = f->mlp_bias = modelkeys_flag(k, "bias", false);
	if (!strcmp(f->type, "falcon") &&
	    (!modelkeys_flag(k, "parallel_attn", true) || modelkeys_flag(k, "new_decoder_architecture", false)))
		f->norms = 2;
	f->tied = modelkeys_flag(k, "tie_word_embeddings", f->tied);
}

static bool is_class(const struct modelkeys *k, const char *end)
{
	return modelkeys_is_class(k, end, "ForCausalLM");
}

/*
 * Parameters of what a class has instead of the output layer, which goes; 0: it keeps that. `width`: what comes out of
 * the last layer. GPT-J's labels for answers are as many as it has classes, all others' are two.
 */
static double other_head(struct modelconfig *m, struct family *f, const struct modelkeys *top, double width)
{
	bool is_score = is_class(top, "ForSequenceClassification"), is_tokens = is_class(top, "ForTokenClassification"),
	     is_answer = is_class(top, "ForQuestionAnswering");

	if (is_class(top, "LMHeadModel") || is_class(top, "ForCausalLM") || is_class(top, "ForConditionalGeneration"))
		return 0;
	m->is_exact &= is_score || is_tokens || is_answer ||
		       (is_class(top, "Model") && !is_class(top, "DoubleHeadsModel"));
	f->tied = true;
	f->head_bias = false;
	if (is_answer)
		return linear(strcmp(f->type, "gptj") ? 2 : modelkeys_labels(top), width, true);
	return is_score || is_tokens ? linear(modelkeys_labels(top), width, is_tokens) : 0;
}

/* Layouts that a known family has variants of, and this does not know. */
static bool has_unknown_variant(const struct modelkeys *k)
{
	return modelkeys_flag(k, "qk_layernorm", false) || modelkeys_flag(k, "use_qk_norm", false);
}

/* OPT's that have narrower embeddings than layers, and those without a last norm. */
static double opt_differs(const struct modelconfig *m, const struct family *f, const struct modelkeys *k)
{
	double width = modelkeys_number(k, m->hidden, "word_embed_proj_dim", NULL, NULL), more = 0;

	if (width != m->hidden)
		more = 2 * width * m->hidden + m->vocab * (width - m->hidden) * (f->tied ? 1 : 2);
	return more - (modelkeys_flag(k, "do_layer_norm_before", true) ? 0 : f->norm_vectors * m->hidden);
}

static void read_sizes(struct modelconfig *m, const struct family *f, const struct modelkeys *k)
{
	m->hidden = modelkeys_size(k, f->hidden, "hidden_size", "n_embd", "d_model");
	m->layers = modelkeys_size(k, f->layers, "num_hidden_layers", "n_layer", "n_layers");
	m->heads = modelkeys_size(k, f->heads, "num_attention_heads", "n_head", "n_heads");
	m->vocab = modelkeys_size(k, f->vocab, "vocab_size", NULL, NULL);
	m->inter =
		modelkeys_size(k, f->inter > 0 ? f->inter : 4 * m->hidden, "intermediate_size", "n_inner", "ffn_dim");
	m->kv_heads = modelkeys_size(k, f->kv > 0 ? f->kv : m->heads, "num_key_value_heads", NULL, NULL);
	if (json_object_object_get_ex(k->object, "num_key_value_heads", NULL) &&
	    !modelkeys_find(k, "num_key_value_heads"))
		m->kv_heads = m->heads;
	if (modelkeys_find(k, "num_key_value_heads") && m->kv_heads > m->heads)
		*k->wrong = "num_key_value_heads"; /* several queries share them, never the other way round */
	if (!strcmp(f->type, "falcon") && modelkeys_flag(k, "new_decoder_architecture", false))
		m->kv_heads = modelkeys_number(k, m->heads, "num_kv_heads", NULL, NULL);
	else if (!strcmp(f->type, "falcon"))
		m->kv_heads = modelkeys_flag(k, "multi_query", true) ? 1 : m->heads;
	m->head_dim = modelkeys_number(k, f->head, "head_dim", NULL, NULL);
	if (!(m->head_dim > 0))
		m->head_dim = m->heads > 0 ? floor(m->hidden / m->heads) : 0;
}

/* Parameters of the language model; false: the sizes are those of no model. `top`: keys of the file it is a part of. */
static bool count_language(struct modelconfig *m, const struct modelkeys *k, const struct modelkeys *top)
{
	const char *type = modelkeys_text(modelkeys_find(k, "model_type") ? k : top, "model_type");
	const struct family *known = find_family(type);
	struct family f = known ? *known : families[0];
	double norm, idle, attention, head;

	snprintf(m->type, sizeof(m->type), "%s", type);
	if (!known)
		f.hidden = f.layers = f.heads = f.vocab = f.inter = 0;
	read_sizes(m, &f, k);
	f.tied = modelkeys_flag(top, "tie_word_embeddings", f.tied);
	adapt_family(&f, k);
	if (!(m->hidden > 0 && m->layers > 0 && m->heads > 0 && m->vocab > 0 && m->head_dim > 0))
		return false;
	m->is_exact = known && !has_unknown_variant(k);
	attention = is_latent(&f) ? latent_attention_of(m, &f, k) : attention_of(m, &f);
	norm = f.norm_vectors * m->hidden;
	head = other_head(m, &f, top, modelkeys_number(k, m->hidden, "word_embed_proj_dim", NULL, NULL));
	m->language = head + m->vocab * m->hidden * (f.tied ? 1 : 2) + (f.head_bias ? m->vocab : 0) +
		      m->layers * (attention + f.norms * norm) + mlps_of(m, &f, k, &idle) + norm;
	if (f.positions > 0)
		m->language +=
			m->hidden * (modelkeys_number(k, f.positions, "n_positions", "max_position_embeddings", NULL) +
				     (strcmp(f.type, "opt") ? 0 : 2));
	if (!strcmp(f.type, "opt"))
		m->language += opt_differs(m, &f, k);
	if (!strcmp(f.type, "bloom"))
		m->language += norm; /* of the embedding */
	m->active = m->language - idle;
	return true;
}

/* ---- vision ---------------------------------------------------------------------------------- */

/* Qwen2-VL's, or CLIP's encoder and LLaVA's connector. */
static bool count_vision(struct modelconfig *m, const struct modelkeys *k, bool has_connector_bias)
{
	if (!strcmp(m->type, "qwen2_vl"))
		return modelencoders_qwen2_vision(m, k);
	if (!modelencoders_vision(m, k))
		return false;
	m->connector = linear(m->hidden, m->vision_hidden, has_connector_bias) +
		       linear(m->hidden, m->hidden, has_connector_bias);
	return true;
}

/* ---- the file -------------------------------------------------------------------------------- */

static bool count(struct modelconfig *m, struct json_object *top, const char **wrong)
{
	struct modelkeys k = { top, wrong }, part = { NULL, wrong };
	struct json_object *language = modelkeys_find(&k, "text_config"), *vision = modelkeys_find(&k, "vision_config");
	bool is_known;

	if (modelencoders_knows(&k)) {
		snprintf(m->type, sizeof(m->type), "%s", modelkeys_text(&k, "model_type"));
		if (!modelencoders_count(m, &k))
			return false;
		m->parameters = m->active = m->language + m->vision + m->connector;
		return m->parameters < PARAMETERS_MAX;
	}
	if (!language || !json_object_is_type(language, json_type_object)) {
		if (!count_language(m, &k, &k))
			return false;
	} else {
		part.object = language;
		if (!count_language(m, &part, &k))
			return false;
		snprintf(m->type, sizeof(m->type), "%s", modelkeys_text(&k, "model_type"));
	}
	if (vision && json_object_is_type(vision, json_type_object)) {
		part.object = vision;
		if (!count_vision(m, &part, modelkeys_flag(&k, "multimodal_projector_bias", true)))
			return false;
		is_known = !strcmp(m->type, "qwen2_vl") ||
			   (!strcmp(m->type, "llava") &&
			    !strcmp(modelkeys_text(&part, "model_type"), "clip_vision_model"));
		m->is_exact &= is_known;
	}
	m->parameters = m->language + m->vision + m->connector;
	m->active += m->vision + m->connector;
	return m->parameters < PARAMETERS_MAX;
}

/* The file's text; the caller frees it. NULL after a message. */
static char *read_file(const char *path, size_t *size)
{
	FILE *f = fopen(path, "re");
	char *content;
	bool failed;

	if (!f) {
		message_error("cannot open '%s': %s", path, strerror(errno));
		return NULL;
	}
	content = heap_alloc(FILE_MAX_BYTES + 1, 1);
	*size = fread(content, 1, FILE_MAX_BYTES + 1, f);
	failed = ferror(f);
	fclose(f);
	if (failed)
		message_error("cannot read '%s': %s", path, strerror(errno));
	else if (*size > FILE_MAX_BYTES)
		message_error("'%s' is too long for a config.json", path);
	else
		return content;
	free(content);
	return NULL;
}

static bool is_blank(const char *text, const char *end)
{
	while (text < end && isspace((unsigned char)*text))
		text++;
	return text >= end;
}

const char *const modelpart_names[MODELPARTS + 1] = { "language", "vision", "connector", NULL };

double modelconfig_part(const struct modelconfig *m, int part)
{
	return part == 0 ? m->language : part == 1 ? m->vision : m->connector;
}

int modelconfig_read(struct modelconfig *m, const char *path)
{
	struct json_tokener *tokener = json_tokener_new_ex(DEPTH_MAX);
	struct json_object *top = NULL;
	const char *wrong = NULL;
	size_t size = 0;
	char *content = tokener ? read_file(path, &size) : NULL;
	bool counted;
	int ret = 0;

	*m = (struct modelconfig){ 0 };
	if (content)
		top = json_tokener_parse_ex(tokener, content, (int)size);
	if (!content)
		ret = CMD_TROUBLE;
	else if (!top || !json_object_is_type(top, json_type_object))
		ret = message_error("'%s' is no JSON object, or not a whole one", path);
	else if (!is_blank(content + json_tokener_get_parse_end(tokener), content + size))
		ret = message_error("'%s' goes on after its JSON object: is it two files in one?", path);
	if (!ret) {
		counted = count(m, top, &wrong);
		if (wrong)
			ret = message_error("'%s': '%s' is not a value that a model can have", path, wrong);
		else if (!counted)
			ret = message_error(
				"'%s' does not give the size of a model: hidden_size, num_hidden_layers, "
				"num_attention_heads and vocab_size are needed",
				path);
	}
	json_object_put(top);
	free(content);
	if (tokener)
		json_tokener_free(tokener);
	return ret;
}
