/* SPDX-License-Identifier: MIT */
/* Parameters of encoders, and of encoders with a decoder; see modelencoders.h. */
#include "analyzer/estimate/modelencoders.h"

#include <math.h>
#include <string.h>

#define ROBERTA_OFFSET 2 /* of its learned positions, that no token has; BART's, too, has as many on top */

/* A matrix and its bias; a norm's weight and bias. */
static double linear(double rows, double columns)
{
	return rows * columns + rows;
}

static double norms(double nr, double hidden)
{
	return nr * 2 * hidden;
}

static double mlp(double hidden, double inter)
{
	return linear(inter, hidden) + linear(hidden, inter);
}

/* Attention with biases, one MLP, and their two norms. */
static double encoder_layer(double hidden, double inter)
{
	return 4 * linear(hidden, hidden) + mlp(hidden, inter) + norms(2, hidden);
}

/* The class after the family's name: "Model", "ForMaskedLM"; a file that does not say has the family's Model. */
static bool is_class(const struct modelkeys *k, const char *end)
{
	return modelkeys_is_class(k, end, "Model");
}

static bool is_language_model(const struct modelkeys *k)
{
	return is_class(k, "ForMaskedLM") || is_class(k, "LMHeadModel") || is_class(k, "ForCausalLM");
}

/* What a language model has on top of an encoder: its matrix is the embedding's, its bias is not. */
static double language_head(const struct modelconfig *m, const struct modelkeys *k)
{
	double matrix = modelkeys_flag(k, "tie_word_embeddings", true) ? 0 : m->vocab * m->hidden;

	return linear(m->hidden, m->hidden) + norms(1, m->hidden) + m->vocab + matrix;
}

static void read_text_sizes(struct modelconfig *m, const struct modelkeys *k, double vocab)
{
	m->hidden = modelkeys_size(k, 768, "hidden_size", NULL, NULL);
	m->layers = modelkeys_size(k, 12, "num_hidden_layers", NULL, NULL);
	m->heads = modelkeys_size(k, 12, "num_attention_heads", NULL, NULL);
	m->inter = modelkeys_size(k, 3072, "intermediate_size", NULL, NULL);
	m->vocab = modelkeys_size(k, vocab, "vocab_size", NULL, NULL);
	m->is_encoder = true;
}

/* Embeddings and layers of BERT and its like. */
static double text_encoder(struct modelconfig *m, const struct modelkeys *k)
{
	double positions = modelkeys_number(k, 512, "max_position_embeddings", NULL, NULL);
	double types = modelkeys_number(k, 2, "type_vocab_size", NULL, NULL);

	m->length = positions;
	return (m->vocab + positions + types) * m->hidden + norms(1, m->hidden) +
	       m->layers * encoder_layer(m->hidden, m->inter);
}

/* ---- families -------------------------------------------------------------------------------- */

static void count_bert(struct modelconfig *m, const struct modelkeys *k)
{
	double pooler, labels = modelkeys_labels(k);

	read_text_sizes(m, k, 30522);
	m->language = text_encoder(m, k);
	pooler = linear(m->hidden, m->hidden);
	if (is_class(k, "ForPreTraining"))
		m->language += pooler + language_head(m, k) + linear(2, m->hidden);
	else if (is_language_model(k))
		m->language += language_head(m, k);
	else if (is_class(k, "ForSequenceClassification"))
		m->language += pooler + linear(labels, m->hidden);
	else if (is_class(k, "ForTokenClassification") || is_class(k, "ForQuestionAnswering"))
		m->language += linear(labels, m->hidden);
	else if (is_class(k, "ForNextSentencePrediction"))
		m->language += pooler + linear(2, m->hidden);
	else
		m->language += pooler;
	m->is_exact = !is_class(k, "ForMultipleChoice");
}

static void count_roberta(struct modelconfig *m, const struct modelkeys *k)
{
	double labels = modelkeys_labels(k);

	read_text_sizes(m, k, strcmp(modelkeys_text(k, "model_type"), "roberta") ? 30522 : 50265);
	m->language = text_encoder(m, k);
	m->length = fmax(0, m->length - ROBERTA_OFFSET);
	if (is_language_model(k))
		m->language += language_head(m, k);
	else if (is_class(k, "ForSequenceClassification"))
		m->language += linear(m->hidden, m->hidden) + linear(labels, m->hidden);
	else if (is_class(k, "ForTokenClassification") || is_class(k, "ForQuestionAnswering"))
		m->language += linear(labels, m->hidden);
	else
		m->language += linear(m->hidden, m->hidden);
	m->is_exact = !is_class(k, "ForMultipleChoice");
}

static void count_distilbert(struct modelconfig *m, const struct modelkeys *k)
{
	double labels = modelkeys_labels(k);

	m->hidden = modelkeys_size(k, 768, "dim", "hidden_size", NULL);
	m->layers = modelkeys_size(k, 6, "n_layers", "num_hidden_layers", NULL);
	m->heads = modelkeys_size(k, 12, "n_heads", "num_attention_heads", NULL);
	m->inter = modelkeys_size(k, 3072, "hidden_dim", NULL, NULL);
	m->vocab = modelkeys_size(k, 30522, "vocab_size", NULL, NULL);
	m->length = modelkeys_number(k, 512, "max_position_embeddings", NULL, NULL);
	m->is_encoder = true;
	m->language = (m->vocab + m->length) * m->hidden + norms(1, m->hidden) +
		      m->layers * encoder_layer(m->hidden, m->inter);
	if (is_language_model(k))
		m->language += language_head(m, k);
	else if (is_class(k, "ForSequenceClassification"))
		m->language += linear(m->hidden, m->hidden) + linear(labels, m->hidden);
	else if (is_class(k, "ForTokenClassification") || is_class(k, "ForQuestionAnswering"))
		m->language += linear(labels, m->hidden);
	m->is_exact = !is_class(k, "ForMultipleChoice");
}

/* Its embeddings may be narrower than its layers; the head of a language model is as wide as they are. */
static void count_electra(struct modelconfig *m, const struct modelkeys *k)
{
	double labels = modelkeys_labels(k), width = modelkeys_size(k, 128, "embedding_size", NULL, NULL), rows;

	m->hidden = modelkeys_size(k, 256, "hidden_size", NULL, NULL);
	m->layers = modelkeys_size(k, 12, "num_hidden_layers", NULL, NULL);
	m->heads = modelkeys_size(k, 4, "num_attention_heads", NULL, NULL);
	m->inter = modelkeys_size(k, 1024, "intermediate_size", NULL, NULL);
	m->vocab = modelkeys_size(k, 30522, "vocab_size", NULL, NULL);
	m->length = modelkeys_number(k, 512, "max_position_embeddings", NULL, NULL);
	m->is_encoder = true;
	rows = m->vocab + m->length + modelkeys_number(k, 2, "type_vocab_size", NULL, NULL);
	m->language = rows * width + norms(1, width) + (width != m->hidden ? linear(m->hidden, width) : 0) +
		      m->layers * encoder_layer(m->hidden, m->inter);
	if (is_class(k, "ForPreTraining"))
		m->language += linear(m->hidden, m->hidden) + linear(1, m->hidden);
	else if (is_language_model(k))
		m->language += linear(width, m->hidden) + norms(1, width) + m->vocab;
	else if (is_class(k, "ForSequenceClassification"))
		m->language += linear(m->hidden, m->hidden) + linear(labels, m->hidden);
	else if (is_class(k, "ForTokenClassification") || is_class(k, "ForQuestionAnswering"))
		m->language += linear(labels, m->hidden);
	m->is_exact = modelkeys_flag(k, "tie_word_embeddings", true) && !is_class(k, "ForMultipleChoice") &&
		      !is_class(k, "ForCausalLM");
}

static void count_vit(struct modelconfig *m, const struct modelkeys *k)
{
	double h, side, qkv_bias = modelkeys_flag(k, "qkv_bias", true) ? 0 : 3;

	read_text_sizes(m, k, 0);
	h = m->vision_hidden = m->hidden;
	m->image_size = modelkeys_size(k, 224, "image_size", NULL, NULL);
	m->patch_size = modelkeys_size(k, 16, "patch_size", NULL, NULL);
	side = m->patch_size > 0 ? floor(m->image_size / m->patch_size) : 0;
	m->layers = side > 0 ? m->layers : 0; /* not even one patch: no model */
	m->length = side * side + 1;
	m->language = linear(h, modelkeys_number(k, 3, "num_channels", NULL, NULL) * m->patch_size * m->patch_size) +
		      h + m->length * h + m->layers * (encoder_layer(h, m->inter) - qkv_bias * h) + norms(1, h) +
		      (is_class(k, "ForImageClassification") ? linear(modelkeys_labels(k), h) : linear(h, h));
	m->is_exact = is_class(k, "ForImageClassification") || is_class(k, "Model");
}

/* A matrix of an encoder with a decoder is shared by both's embeddings, and by the logits where they are tied. */
static double shared_matrices(const struct modelconfig *m, const struct modelkeys *k)
{
	bool is_tied = modelkeys_flag(k, "tie_word_embeddings", strcmp(modelkeys_text(k, "model_type"), "mt5"));

	return m->vocab * m->hidden * (is_class(k, "ForConditionalGeneration") && !is_tied ? 2 : 1);
}

static void count_t5(struct modelconfig *m, const struct modelkeys *k)
{
	bool is_mt5 = !strcmp(modelkeys_text(k, "model_type"), "mt5");
	const char *way = modelkeys_text(k, "feed_forward_proj");
	double encoders, decoders, attention, buckets, mlp_bytes;

	m->hidden = modelkeys_size(k, 512, "d_model", "hidden_size", NULL);
	m->heads = modelkeys_size(k, is_mt5 ? 6 : 8, "num_heads", "num_attention_heads", NULL);
	m->head_dim = modelkeys_size(k, 64, "d_kv", NULL, NULL);
	m->inter = modelkeys_size(k, is_mt5 ? 1024 : 2048, "d_ff", NULL, NULL);
	m->vocab = modelkeys_size(k, is_mt5 ? 250112 : 32128, "vocab_size", NULL, NULL);
	encoders = modelkeys_size(k, is_mt5 ? 8 : 6, "num_layers", "num_hidden_layers", NULL);
	decoders = is_class(k, "EncoderModel") ? 0 : modelkeys_number(k, encoders, "num_decoder_layers", NULL, NULL);
	buckets = modelkeys_number(k, 32, "relative_attention_num_buckets", NULL, NULL) * m->heads;
	m->layers = encoders + decoders;
	attention = 4 * m->hidden * m->heads * m->head_dim;
	mlp_bytes = (strncmp(*way ? way : is_mt5 ? "gated" : "relu", "gated", 5) ? 2 : 3) * m->hidden * m->inter;
	m->language = shared_matrices(m, k) + encoders * (attention + mlp_bytes + 2 * m->hidden) +
		      decoders * (2 * attention + mlp_bytes + 3 * m->hidden) +
		      (decoders > 0 ? 2 : 1) * (buckets + m->hidden);
	m->untied = fmax(0, shared_matrices(m, k) - m->vocab * m->hidden);
	m->is_encoder = !(decoders > 0);
	m->is_exact = is_class(k, "ForConditionalGeneration") || is_class(k, "Model");
}

/* What BART and Whisper name alike, with their defaults in *of, which is read into. */
struct pair {
	double encoders, decoders, hidden, heads, vocab, inter;
	double encoder_inter; /* read from the file; as inter by default */
};

static void read_pair(struct modelconfig *m, const struct modelkeys *k, struct pair *of)
{
	of->encoders = modelkeys_number(k, of->encoders, "encoder_layers", "num_hidden_layers", NULL);
	of->decoders = modelkeys_number(k, of->decoders, "decoder_layers", NULL, NULL);
	of->encoder_inter = modelkeys_size(k, of->inter, "encoder_ffn_dim", NULL, NULL);
	m->hidden = modelkeys_size(k, of->hidden, "d_model", "hidden_size", NULL);
	m->heads = modelkeys_size(k, of->heads, "encoder_attention_heads", "num_attention_heads", NULL);
	m->vocab = modelkeys_size(k, of->vocab, "vocab_size", NULL, NULL);
	m->inter = modelkeys_size(k, of->inter, "decoder_ffn_dim", NULL, NULL);
	m->layers = of->encoders + of->decoders;
	m->is_exact = is_class(k, "ForConditionalGeneration") || is_class(k, "Model");
}

/* Of all layers: those of the decoder attend to the encoder as well. */
static double pair_layers(const struct modelconfig *m, const struct pair *of)
{
	double h = m->hidden;

	return of->encoders * encoder_layer(h, of->encoder_inter) +
	       of->decoders * (encoder_layer(h, m->inter) + 4 * linear(h, h) + norms(1, h));
}

static void count_bart(struct modelconfig *m, const struct modelkeys *k)
{
	struct pair of = { .encoders = 12, .decoders = 12, .hidden = 1024, .heads = 16, .vocab = 50265, .inter = 4096 };

	read_pair(m, k, &of);
	m->length = modelkeys_number(k, 1024, "max_position_embeddings", NULL, NULL);
	m->language = shared_matrices(m, k) + pair_layers(m, &of) +
		      2 * ((m->length + ROBERTA_OFFSET) * m->hidden + norms(1, m->hidden));
}

/* Two convolutions over time in front of an encoder as BART's; keys of attention have no bias. */
static void count_whisper(struct modelconfig *m, const struct modelkeys *k)
{
	struct pair of = { .encoders = 4, .decoders = 4, .hidden = 384, .heads = 6, .vocab = 51865, .inter = 1536 };
	double written, h;

	read_pair(m, k, &of);
	h = m->hidden;
	m->length = modelkeys_number(k, 1500, "max_source_positions", NULL, NULL);
	written = modelkeys_number(k, 448, "max_target_positions", NULL, NULL);
	m->language = shared_matrices(m, k) + (m->length + written) * h + norms(2, h) +
		      linear(h, 3 * modelkeys_number(k, 80, "num_mel_bins", NULL, NULL)) + linear(h, 3 * h) +
		      pair_layers(m, &of) - (of.encoders + 2 * of.decoders) * h;
}

/* Qwen2-VL's: as many patches as an image has, of which the connector makes one out of `merge` x `merge`. */
bool modelencoders_qwen2_vision(struct modelconfig *m, const struct modelkeys *k)
{
	double h = modelkeys_size(k, 1280, "embed_dim", NULL, NULL);
	double layers = modelkeys_size(k, 32, "depth", NULL, NULL);
	double merge = modelkeys_size(k, 2, "spatial_merge_size", NULL, NULL), wide = merge * merge * h;
	double patch = modelkeys_size(k, 14, "patch_size", NULL, NULL);
	double pixels = patch * patch * modelkeys_number(k, 3, "in_channels", NULL, NULL) *
			modelkeys_number(k, 2, "temporal_patch_size", NULL, NULL);

	if (!(h > 0 && layers > 0 && pixels > 0 && wide > 0))
		return false;
	m->vision_hidden = h;
	m->patch_size = merge * patch; /* of a token of the language model */
	m->vision = pixels * h + layers * encoder_layer(h, h * modelkeys_number(k, 4, "mlp_ratio", NULL, NULL));
	m->connector = norms(1, h) + linear(wide, wide) +
		       linear(modelkeys_size(k, 3584, "hidden_size", NULL, NULL), wide);
	m->has_vision = true;
	return true;
}

bool modelencoders_vision(struct modelconfig *m, const struct modelkeys *k)
{
	double layers = modelkeys_size(k, 12, "num_hidden_layers", "depth", NULL), h, inter, patches;

	h = modelkeys_size(k, 768, "hidden_size", "embed_dim", NULL);
	inter = modelkeys_size(k, 4 * h, "intermediate_size", NULL, NULL);
	m->image_size = modelkeys_size(k, 224, "image_size", NULL, NULL);
	m->patch_size = modelkeys_size(k, 32, "patch_size", NULL, NULL);
	if (!(h > 0 && layers > 0 && m->patch_size > 0 && m->image_size >= m->patch_size))
		return false;
	patches = pow(floor(m->image_size / m->patch_size), 2);
	m->vision_hidden = h;
	m->vision = h + 3 * h * m->patch_size * m->patch_size + (patches + 1) * h + norms(2, h) +
		    layers * encoder_layer(h, inter);
	m->has_vision = true;
	return true;
}

/* A part of CLIP's configuration; one without keys where the file has none. */
static struct modelkeys part_of(const struct modelkeys *k, const char *name)
{
	struct json_object *part = modelkeys_find(k, name);

	return (struct modelkeys){ .object = part && json_object_is_type(part, json_type_object) ? part : NULL,
				   .wrong = k->wrong };
}

static void count_clip(struct modelconfig *m, const struct modelkeys *k)
{
	struct modelkeys text = part_of(k, "text_config"), vision = part_of(k, "vision_config");
	double projected = modelkeys_number(k, 512, "projection_dim", NULL, NULL);

	m->hidden = modelkeys_size(&text, 512, "hidden_size", NULL, NULL);
	m->layers = modelkeys_size(&text, 12, "num_hidden_layers", NULL, NULL);
	m->heads = modelkeys_size(&text, 8, "num_attention_heads", NULL, NULL);
	m->inter = modelkeys_size(&text, 2048, "intermediate_size", NULL, NULL);
	m->vocab = modelkeys_size(&text, 49408, "vocab_size", NULL, NULL);
	m->length = modelkeys_number(&text, 77, "max_position_embeddings", NULL, NULL);
	m->language = (m->vocab + m->length) * m->hidden + m->layers * encoder_layer(m->hidden, m->inter) +
		      norms(1, m->hidden);
	if (modelencoders_vision(m, &vision))
		m->connector = projected * (m->hidden + m->vision_hidden) + 1; /* the scale of the logits */
	m->is_encoder = true;
	m->is_exact = m->has_vision && is_class(k, "Model");
}

static const struct {
	const char *type;
	void (*count)(struct modelconfig *m, const struct modelkeys *k);
} families[] = {
	{ "bert", count_bert },		{ "roberta", count_roberta }, { "xlm-roberta", count_roberta },
	{ "camembert", count_roberta }, { "vit", count_vit },	      { "clip", count_clip },
	{ "t5", count_t5 },		{ "mt5", count_t5 },	      { "bart", count_bart },
	{ "whisper", count_whisper },	{ "distilbert", count_distilbert }, { "electra", count_electra },
};
#define NR_FAMILIES (sizeof(families) / sizeof(families[0]))

static size_t family_of(const struct modelkeys *k)
{
	size_t i = 0;

	while (i < NR_FAMILIES && strcmp(modelkeys_text(k, "model_type"), families[i].type))
		i++;
	return i;
}

bool modelencoders_knows(const struct modelkeys *k)
{
	return family_of(k) < NR_FAMILIES;
}

bool modelencoders_count(struct modelconfig *m, const struct modelkeys *k)
{
	families[family_of(k)].count(m, k);
	m->kv_heads = m->is_encoder ? 0 : m->heads;
	if (!(m->head_dim > 0))
		m->head_dim = m->heads > 0 ? floor(m->hidden / m->heads) : 0;
	return m->hidden > 0 && m->layers > 0 && m->heads > 0 && m->head_dim > 0 && m->language > 0;
}
