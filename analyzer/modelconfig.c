/* SPDX-License-Identifier: MIT */
/* A model's size from its config.json; see modelconfig.h. */
#include "analyzer/modelconfig.h"

#include <errno.h>
#include <json-c/json.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/command.h"
#include "analyzer/ui/message.h"

#define FILE_MAX_BYTES (1 << 22)
#define DEPTH_MAX 32
#define KEY_MAX (1 << 28)     /* no dimension of a model is larger */
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
#include "analyzer/modelfamilies.def"
#undef FAMILY
};

static const struct family *find_family(const char *type)
{
	for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
		if (!strcmp(families[i].type, type))
			return &families[i];
	return NULL;
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* What is wrong with the file, for one message; NULL: nothing. */
struct keys {
	struct json_object *object;
	const char **wrong;
};

static struct json_object *find_key(const struct keys *k, const char *name)
{
	struct json_object *value = NULL;

	return json_object_object_get_ex(k->object, name, &value) ? value : NULL;
}

/* The first of up to three names that is there, not null. */
static double number(const struct keys *k, double otherwise, const char *a, const char *b, const char *c)
{
	const char *const names[] = { a, b, c };

	for (int i = 0; i < 3 && names[i]; i++) {
		struct json_object *value = find_key(k, names[i]);
		double found;

		if (!value)
			continue;
		found = json_object_get_double(value);
		if ((!json_object_is_type(value, json_type_int) &&
		     !json_object_is_type(value, json_type_double)) ||
		    !(found >= 0) || found > KEY_MAX || found != floor(found)) {
			*k->wrong = names[i];
			return otherwise;
		}
		return found;
	}
	return otherwise;
}

static bool flag(const struct keys *k, const char *name, bool otherwise)
{
	struct json_object *value = find_key(k, name);

	if (value && !json_object_is_type(value, json_type_boolean)) {
		*k->wrong = name;
		return otherwise;
	}
	return value ? json_object_get_boolean(value) : otherwise;
}

static const char *text(const struct keys *k, const char *name)
{
	struct json_object *value = find_key(k, name);

	return value && json_object_is_type(value, json_type_string) ? json_object_get_string(value) : "";
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

/* Layers without experts, in a mixture: mlp_only_layers, and those that decoder_sparse_step passes over. */
static double dense_layers(const struct modelconfig *m, const struct keys *k)
{
	struct json_object *only = find_key(k, "mlp_only_layers");
	double step = number(k, 1, "decoder_sparse_step", NULL, NULL), dense = 0;

	if (step > 1)
		dense = m->layers - floor(m->layers / step);
	if (only && json_object_is_type(only, json_type_array))
		dense += (double)json_object_array_length(only);
	return fmin(dense, m->layers);
}

/* Parameters of all MLPs; *idle: of those, what one token does not pass. */
static double mlps_of(const struct modelconfig *m, const struct family *f, const struct keys *k, double *idle)
{
	double experts = number(k, 0, "num_local_experts", "num_experts", NULL);
	double top = number(k, 0, "num_experts_per_tok", NULL, NULL), inter, shared, dense, each, layer;

	*idle = 0;
	if (!strcmp(f->type, "mixtral")) {
		experts = experts > 0 ? experts : 8;
		top = top > 0 ? top : 2;
	} else if (!strcmp(f->type, "qwen2_moe")) {
		experts = experts > 0 ? experts : 60;
		top = top > 0 ? top : 4;
	} else if (!strcmp(f->type, "qwen3_moe")) {
		experts = experts > 0 ? experts : 128;
		top = top > 0 ? top : 8;
	}
	if (!(experts > 0))
		return m->layers * mlp_of(f, m->hidden, m->inter);
	inter = number(k,
		       !strcmp(f->type, "qwen2_moe")   ? 1408
		       : !strcmp(f->type, "qwen3_moe") ? 768
						       : m->inter,
		       "moe_intermediate_size", NULL, NULL);
	shared = number(k, !strcmp(f->type, "qwen2_moe") ? 5632 : 0, "shared_expert_intermediate_size", NULL,
			NULL);
	dense = dense_layers(m, k);
	each = mlp_of(f, m->hidden, inter);
	layer = experts * each + experts * m->hidden;
	if (shared > 0)
		layer += mlp_of(f, m->hidden, shared) + m->hidden;
	*idle = (m->layers - dense) * fmax(0, experts - top) * each;
	return (m->layers - dense) * layer + dense * mlp_of(f, m->hidden, m->inter);
}

/* Keys that change a family's layout. */
static void adapt_family(struct family *f, const struct keys *k)
{
	if (find_key(k, "attention_bias") && strcmp(f->type, "gpt2"))
		f->qkv_bias = f->o_bias = flag(k, "attention_bias", false);
	f->mlp_bias = flag(k, "mlp_bias", f->mlp_bias);
	if (!strcmp(f->type, "starcoder2"))
		f->qkv_bias = f->o_bias = f->mlp_bias = flag(k, "use_bias", true);
	if (!strcmp(f->type, "stablelm"))
		f->qkv_bias = flag(k, "use_qkv_bias", false);
	if (!strcmp(f->type, "stablelm") && flag(k, "use_parallel_residual", false))
		f->norms = 1;
	if (!strcmp(f->type, "falcon"))
		f->qkv_bias = f->o_bias = f->mlp_bias = flag(k, "bias", false);
	if (!strcmp(f->type, "falcon") && !flag(k, "parallel_attn", true))
		f->norms = 2;
	f->tied = flag(k, "tie_word_embeddings", f->tied);
}

/* Layouts that a known family has variants of, and this does not know. */
static bool has_unknown_variant(const struct family *f, const struct keys *k, const struct modelconfig *m)
{
	return (!strcmp(f->type, "falcon") && flag(k, "new_decoder_architecture", false)) ||
	       flag(k, "qk_layernorm", false) || flag(k, "use_qk_norm", false) ||
	       (!strcmp(f->type, "opt") &&
		number(k, m->hidden, "word_embed_proj_dim", NULL, NULL) != m->hidden);
}

static void read_sizes(struct modelconfig *m, const struct family *f, const struct keys *k)
{
	m->hidden = number(k, f->hidden, "hidden_size", "n_embd", "d_model");
	m->layers = number(k, f->layers, "num_hidden_layers", "n_layer", "n_layers");
	m->heads = number(k, f->heads, "num_attention_heads", "n_head", "n_heads");
	m->vocab = number(k, f->vocab, "vocab_size", NULL, NULL);
	m->inter =
		number(k, f->inter > 0 ? f->inter : 4 * m->hidden, "intermediate_size", "n_inner", "ffn_dim");
	m->kv_heads = number(k, f->kv > 0 ? f->kv : m->heads, "num_key_value_heads", NULL, NULL);
	if (json_object_object_get_ex(k->object, "num_key_value_heads", NULL) &&
	    !find_key(k, "num_key_value_heads"))
		m->kv_heads = m->heads;
	if (!strcmp(f->type, "falcon"))
		m->kv_heads = flag(k, "multi_query", true) ? 1 : m->heads;
	m->head_dim = number(k, f->head, "head_dim", NULL, NULL);
	if (!(m->head_dim > 0))
		m->head_dim = m->heads > 0 ? floor(m->hidden / m->heads) : 0;
}

/* Parameters of the language model; false: the sizes are those of no model. */
static bool count_language(struct modelconfig *m, const struct keys *k)
{
	const struct family *known = find_family(text(k, "model_type"));
	struct family f = known ? *known : families[0];
	double norm, idle;

	snprintf(m->type, sizeof(m->type), "%s", text(k, "model_type"));
	if (!known)
		f.hidden = f.layers = f.heads = f.vocab = f.inter = 0;
	read_sizes(m, &f, k);
	adapt_family(&f, k);
	if (!(m->hidden > 0 && m->layers > 0 && m->heads > 0 && m->vocab > 0 && m->head_dim > 0))
		return false;
	m->is_exact = known && !has_unknown_variant(&f, k, m);
	norm = f.norm_vectors * m->hidden;
	m->language = m->vocab * m->hidden * (f.tied ? 1 : 2) + (f.head_bias ? m->vocab : 0) +
		      m->layers * (attention_of(m, &f) + f.norms * norm) + mlps_of(m, &f, k, &idle) + norm;
	if (f.positions > 0)
		m->language +=
			m->hidden * (number(k, f.positions, "n_positions", "max_position_embeddings", NULL) +
				     (strcmp(f.type, "opt") ? 0 : 2));
	if (!strcmp(f.type, "bloom"))
		m->language += norm; /* of the embedding */
	m->active = m->language - idle;
	return true;
}

/* ---- vision ---------------------------------------------------------------------------------- */

/* CLIP's encoder, and LLaVA's connector. */
static bool count_vision(struct modelconfig *m, const struct keys *k, bool has_connector_bias)
{
	double layers = number(k, 12, "num_hidden_layers", "depth", NULL), h, inter, patches;

	h = number(k, 768, "hidden_size", "embed_dim", NULL);
	inter = number(k, 4 * h, "intermediate_size", NULL, NULL);
	m->image_size = number(k, 224, "image_size", NULL, NULL);
	m->patch_size = number(k, 32, "patch_size", NULL, NULL);
	if (!(h > 0 && layers > 0 && m->patch_size > 0 && m->image_size >= m->patch_size))
		return false;
	patches = pow(floor(m->image_size / m->patch_size), 2);
	m->vision_hidden = h;
	m->vision =
		h + 3 * h * m->patch_size * m->patch_size + (patches + 1) * h + 4 * h +
		layers * (4 * linear(h, h, true) + 4 * h + linear(inter, h, true) + linear(h, inter, true));
	m->connector =
		linear(m->hidden, h, has_connector_bias) + linear(m->hidden, m->hidden, has_connector_bias);
	m->has_vision = true;
	return true;
}

/* ---- the file -------------------------------------------------------------------------------- */

static bool count(struct modelconfig *m, struct json_object *top, const char **wrong)
{
	struct keys k = { top, wrong }, part = { NULL, wrong };
	struct json_object *language = find_key(&k, "text_config"), *vision = find_key(&k, "vision_config");
	bool is_known;

	if (!language || !json_object_is_type(language, json_type_object)) {
		if (!count_language(m, &k))
			return false;
	} else {
		part.object = language;
		if (!count_language(m, &part))
			return false;
		snprintf(m->type, sizeof(m->type), "%s", text(&k, "model_type"));
	}
	if (vision && json_object_is_type(vision, json_type_object)) {
		part.object = vision;
		if (!count_vision(m, &part, flag(&k, "multimodal_projector_bias", true)))
			return false;
		is_known = !strcmp(text(&k, "model_type"), "llava") &&
			   !strcmp(text(&part, "model_type"), "clip_vision_model");
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
	char *content = f ? malloc(FILE_MAX_BYTES + 1) : NULL;
	bool failed;

	if (!f || !content) {
		message_error("cannot open '%s': %s", path, strerror(errno));
		if (f)
			fclose(f);
		return NULL;
	}
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
