/* SPDX-License-Identifier: MIT */
/* NCCL's communicators in one process (struct communicators), from the events that tell of them. */
#ifndef VT_COMMUNICATORS_H
#define VT_COMMUNICATORS_H

#include "analyzer/ledger/books.h"

/* An OBJECT_NEW of a communicator, with its function. */
void communicators_event(struct communicators *c, const struct tfmt_event *ev, const char *function);

#endif
