/* SPDX-License-Identifier: MIT */
/*
 * A vocabulary: a dimension that counts words. Logits are [.., tokens, vocabulary], the matrix that computes them has a row
 * for each word.
 */
#ifndef VT_VOCABULARY_H
#define VT_VOCABULARY_H

#include "analyzer/patterns/moment.h"

/* Can so many features be a vocabulary, where a loss is computed over them? Are they one, whatever is computed? */
bool vocabulary_may_be(uint64_t features);
bool vocabulary_is_sure(uint64_t features);

/* Is the last of its dimensions a vocabulary, of more than one token? */
bool vocabulary_are_logits(const struct tfmt_shape *s);

/* Does a parameter have a row for each word, or for each of its rank's? Of parameters laid end to end nobody knows. */
bool vocabulary_has_words(const struct moment *at, uint64_t vocabulary);

/* Does a layer take in so many features? Of a vocabulary none does: logits come last. */
bool vocabulary_is_taken_in(const struct moment *at, uint64_t vocabulary);

#endif
