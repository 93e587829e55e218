/* SPDX-License-Identifier: MIT */
/*
 * Stream capture. A *capture* belongs to the stream it began on (its origin); other streams join it by
 * waiting for an event recorded in it, and all leave when it ends. Streams and events hold references: a
 * capture that has ended stays as an object until the last of them looks away.
 */
#ifndef SIMGPU_CAPTURE_H
#define SIMGPU_CAPTURE_H

#include "simgpu/graph.h"

struct sim_capture;

struct sim_stream {
	uint32_t magic;
	struct sim_context *context;
	unsigned flags;
	int priority;
	unsigned long long id;
	struct sim_capture *capture;
	struct sim_edges waits;		/* while it captures: what its next node comes after */
	CUgraphNode *told;		/* the same as cuStreamGetCaptureInfo answers it */
	CUgraphEdgeData *told_data;
	struct sim_green *green;	/* the green context it was made in; NULL: none */
};

/* The stream that a handle stands for (one shared object for the default streams), or NULL when it is none. */
struct sim_stream *sim_stream_of(void *handle);

/* A new reference to the capture S takes part in, or NULL; put accepts NULL. */
struct sim_capture *sim_capture_get(struct sim_stream *s);
void sim_capture_put(struct sim_capture *capture);

/* Whether CAPTURE goes on; false for NULL. */
bool sim_capture_active(const struct sim_capture *capture);

/* S takes part in CAPTURE from now on, if CAPTURE goes on and S is in none; its next node comes after EDGES, too. */
void sim_capture_join(struct sim_stream *s, struct sim_capture *capture, const struct sim_edges *edges);

/* S is destroyed: it leaves its capture. */
void sim_capture_leave(struct sim_stream *s);

/* S is capturing and was asked for what a capture cannot have: invalidate the capture and return true. */
bool sim_capture_spoil(struct sim_stream *s);

/*
 * A host thread was to wait for all work of CONTEXT: invalidate the captures of its streams, whatever their mode, and
 * return true; false when none goes on.
 */
bool sim_capture_spoil_context(const struct sim_context *context);

/* What CAPTURE cannot have was asked of something captured in it. NULL and an ended one are ignored. */
void sim_capture_invalidate(struct sim_capture *capture);

/* Launches so far, for event times. */
unsigned long sim_launches(void);

#endif
