/* SPDX-License-Identifier: MIT */
/*
 * A model's size from its config.json (Hugging Face's): parameters, layers, heads, tokens of an image.
 *
 * The layout of known families is that of transformers, parameter by parameter (modelfamilies.def has the decoders,
 * modelencoders.h the rest); of others it is taken to be Llama's, which is not exact. A configuration with a
 * text_config and a vision_config is a language model with a vision encoder (CLIP's layout) and a connector of two
 * linear layers (LLaVA's). Counts are doubles: exact below 2^53.
 */
#ifndef VT_MODELCONFIG_H
#define VT_MODELCONFIG_H

#include <stdbool.h>

struct modelconfig {
	char type[48];
	bool is_exact; /* the family is known, and no key of it that changes the layout is not */
	bool has_vision;
	bool is_encoder; /* it has no KV cache */
	double parameters; /* all of it: */
	double language, vision, connector;
	double untied; /* of a T5's output layer: the file has it apart, as its weights have; transformers 5 does not */
	double active; /* parameters of a mixture of experts that a token passes; else as all */
	/* of the language model */
	double hidden, inter, layers, heads, kv_heads, head_dim, vocab;
	double length; /* the most tokens that an encoder has positions for, an image's exactly; 0: as many as wanted */
	/* of the vision encoder */
	double vision_hidden, image_size, patch_size;
};

/* The parts of a model with a vision encoder, and their names in options: language, vision, connector. */
#define MODELPARTS 3
extern const char *const modelpart_names[MODELPARTS + 1];
double modelconfig_part(const struct modelconfig *m, int part); /* its parameters */

/* Read a file. 0, or CMD_TROUBLE after a message. */
int modelconfig_read(struct modelconfig *m, const char *path);

#endif
