/* SPDX-License-Identifier: MIT */
/* Which of several modules a call is of: what the loops above it in the source say of the variable that is called. */
#ifndef VT_CALLLOOP_H
#define VT_CALLLOOP_H

#include "analyzer/pysource/callsite.h"

/*
 * If the line (`within`: the line of the call, with a comprehension perhaps) begins a loop that binds the variable to
 * members of the owner's, or (is_variable) of a local variable, what it is a member of. false: it does not.
 */
bool callloop_read(struct callsite *c, char *line, const char *name, size_t len, bool within, const char *owner);

/* Of `self.layers[i]`, with the index in a text of its own: what the loops above the line bind that to. */
void callloop_index(struct callsite *c, struct sourcetext *s, const struct tfmt_code *code, uint32_t line, char *index);

#endif
