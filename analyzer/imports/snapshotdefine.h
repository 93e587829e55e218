/* SPDX-License-Identifier: MIT */
/* What a snapshot's events refer to: stacks, texts, devices, and what is known of the process. */
#ifndef VT_SNAPSHOTDEFINE_H
#define VT_SNAPSHOTDEFINE_H

#include "analyzer/imports/snapshot.h"
#include "analyzer/imports/tracemaker.h"

/* Domains of ranges, as STRING ids beyond those of the snapshot's texts. */
#define SNAPSHOTDEFINE_LABELS(s) ((uint32_t)(s)->stacks.texts.nr_members + 1)

/* Write all definitions. */
void snapshotdefine_all(const struct snapshot *s, struct tracemaker *t);

/* The stack of an entry that has none although others do: of a thread without Python. */
#define SNAPSHOTDEFINE_NO_PYTHON UINT32_MAX

/* Give an event the stack of a pair (number + 1, 0 = none), and say of a tensor's whether an autograd node runs in it. */
void snapshotdefine_stack(const struct snapshot *s, uint32_t stack, struct tfmt_event *ev);

/* The same of a call of the driver: it was PyTorch's allocator that made it. */
void snapshotdefine_call(const struct snapshot *s, uint32_t stack, struct tfmt_event *ev);

#endif
