/* SPDX-License-Identifier: MIT */
/* Who holds a device's memory now, in a line each. */
#ifndef VT_LIVEHOLDERS_H
#define VT_LIVEHOLDERS_H

#include "analyzer/holders/holders.h"
#include "analyzer/live/live.h"

struct liveholders {
	struct holders holders;
};

/* Of tensors, where there are none of the driver's memory, by place in the source. liveholders_release() is needed. */
void liveholders_find(struct liveholders *h, const struct liverow *r);
void liveholders_release(struct liveholders *h);

/* What all of its blocks are called, as far as a census has seen them, and where they were allocated. Returns buf. */
const char *liveholders_text(char *buf, size_t size, const struct liverow *r, const struct holder *h);

#endif
