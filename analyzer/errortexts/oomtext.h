/* SPDX-License-Identifier: MIT */
/*
 * What PyTorch says when memory runs out, read back from logs.
 *
 * Messages are found wherever they stand in the text: after prefixes of launchers, between tracebacks, wrapped
 * at any column. To find them all white space is taken out first, so a *figure* "2.50 GiB" may have been cut
 * anywhere. Text is read as a stream: memory is bounded however long it is.
 * Single-threaded.
 */
#ifndef VT_OOMTEXT_H
#define VT_OOMTEXT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "analyzer/errortexts/oommessage.h"

#define OOM_MESSAGES_MAX 256

/* All distinct messages of a text, in its order. */
struct oom_text {
	struct oom_message *message;
	size_t nr_messages;
	uint64_t nr_left_out; /* distinct ones beyond OOM_MESSAGES_MAX, before the last: counted, not kept */
	uint64_t nr_bytes;    /* length of the text */
};

/*
 * Read from `in` to its end. 0, or the negative errno that reading failed with. *t is for
 * oomtext_release() in any case.
 */
int oomtext_read(struct oom_text *t, FILE *in);
void oomtext_release(struct oom_text *t);

#endif
