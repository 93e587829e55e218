/* SPDX-License-Identifier: MIT */
/*
 * Parameters of models that are no decoder alone: encoders of text (BERT, RoBERTa), of images (ViT), of both (CLIP),
 * and encoders with a decoder (T5, BART), as transformers lays them out, parameter by parameter. What is on top of
 * the encoder is told by the class in "architectures"; without it there is what the family's Model has.
 */
#ifndef VT_MODELENCODERS_H
#define VT_MODELENCODERS_H

#include "analyzer/estimate/modelconfig.h"
#include "analyzer/estimate/modelkeys.h"

/* Is it of one of these families, by its model_type? */
bool modelencoders_knows(const struct modelkeys *k);

/* Fill *m but for its type. false: the sizes are those of no model. */
bool modelencoders_count(struct modelconfig *m, const struct modelkeys *k);

/* CLIP's vision tower: its parameters, and m's fields about it. false: the sizes are those of none. */
bool modelencoders_vision(struct modelconfig *m, const struct modelkeys *k);

/* Likewise of Qwen2-VL, with its connector. */
bool modelencoders_qwen2_vision(struct modelconfig *m, const struct modelkeys *k);

#endif
