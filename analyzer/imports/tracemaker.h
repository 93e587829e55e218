/* SPDX-License-Identifier: MIT */
/*
 * A trace that is made of something else than a program that runs: definitions and events, one after the other. The first
 * trouble is kept, and what follows does nothing.
 */
#ifndef VT_TRACEMAKER_H
#define VT_TRACEMAKER_H

#include "tracefmt/tracefmt.h"

struct tracemaker {
	struct tfmt_writer *writer;
	int err;         /* 0, or what the trace's writer has returned; of TFMT_E_IO error is the errno */
	int error;
	uint64_t order[TFMT_NR_DEVICES + 1]; /* next in its domain, by device; the last is the driver's */
	uint64_t time_ns;                    /* of the latest event: none comes before it */
	uint64_t nr_events;
	uint32_t nr_infos;
};

/* Begin on an empty file, which stays the caller's. */
void tracemaker_open(struct tracemaker *t, int fd, const struct tfmt_header *header);

/* The last frame: how the process ended is not known. Returns t->err. */
int tracemaker_close(struct tracemaker *t);

void tracemaker_define(struct tracemaker *t, uint32_t type, uint32_t id, const void *payload, size_t len);
void tracemaker_info(struct tracemaker *t, const char *key, const char *value);

/* A definition that is one text: TFMT_DEF_STRING, TFMT_DEF_FUNCTION. */
void tracemaker_text(struct tracemaker *t, uint32_t type, uint32_t id, const char *text);

/* A device of which nothing is known but that it is there. */
void tracemaker_device(struct tracemaker *t, uint32_t ordinal);

/* An event; its order is filled in, and its time if it lies before the latest one. */
void tracemaker_event(struct tracemaker *t, struct tfmt_event *ev);

#endif
