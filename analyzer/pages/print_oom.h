/* SPDX-License-Identifier: MIT */
/* Why an allocation failed, in words: the verdict on a message with its evidence, what to do. */
#ifndef VT_PRINT_OOM_H
#define VT_PRINT_OOM_H

#include "analyzer/errortexts/oomstory.h"
#include "analyzer/ui/emit.h"
#include "analyzer/ui/print_wrapped.h"

/* Text: all about one message, 24 lines at most: evidence that does not fit is in JSON alone. Nothing in JSON. */
void print_oom_text(struct emit *e, const struct oom_message *m, const struct oom_story *s);

/* JSON: the array "findings" in the object that is open. Nothing as text. */
void print_oom_findings(struct emit *e, const struct oom_message *m, const struct oom_story *s);

#endif
