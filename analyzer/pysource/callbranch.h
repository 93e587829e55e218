/* SPDX-License-Identifier: MIT */
/*
 * Is a call in a loop's body made in each round? What the conditions around it say, and the `continue`s above
 * it: a layer that is passed over at random, an expert without tokens, one half of the layers that is
 * checkpointed at another line.
 */
#ifndef VT_CALLBRANCH_H
#define VT_CALLBRANCH_H

#include "analyzer/pysource/callsite.h"

/*
 * Sets what callsite.h says of branches, of a call on this line whose loop (c->loop_line) is known. `word`:
 * what the call names, the loop's variable or the list.
 */
void callbranch_read(struct callsite *c, struct sourcetext *s, const struct tfmt_code *code, uint32_t line,
		     const char *word);

#endif
