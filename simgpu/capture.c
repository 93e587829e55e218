/* SPDX-License-Identifier: MIT */
/* Stream capture: which streams take part, what they may not do, and the graph that comes out. */
#include "simgpu/capture.h"

#include <pthread.h>
#include <stdlib.h>

struct sim_capture {
	unsigned refs;
	CUstreamCaptureStatus status;	/* NONE once it has ended */
	CUstreamCaptureMode mode;
	unsigned long long id;
	struct sim_stream *origin;
	struct sim_graph *graph;
	const void *thread;		/* that began it: the address of its thread_mode */
	struct sim_capture *next;	/* in the list of those that go on */
};

static unsigned long long last_id;
static __thread CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

/* The captures that go on, under their own lock: most calls that ask find none. */
static struct sim_capture *ongoing;
static pthread_mutex_t ongoing_lock = PTHREAD_MUTEX_INITIALIZER;

static void add_ongoing(struct sim_capture *capture)
{
	pthread_mutex_lock(&ongoing_lock);
	capture->next = ongoing;
	__atomic_store_n(&ongoing, capture, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&ongoing_lock);
}

static void remove_ongoing(const struct sim_capture *capture)
{
	struct sim_capture **at = &ongoing;

	pthread_mutex_lock(&ongoing_lock);
	while (*at && *at != capture)
		at = &(*at)->next;
	if (*at)
		__atomic_store_n(at, capture->next, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&ongoing_lock);
}

/* Invalidate the captures that CONCERNS picks for WHAT; false when there is none. */
static bool invalidate(bool (*concerns)(const struct sim_capture *capture, const void *what), const void *what)
{
	bool any = false;

	if (!__atomic_load_n(&ongoing, __ATOMIC_ACQUIRE))
		return false;
	pthread_mutex_lock(&ongoing_lock);
	for (struct sim_capture *c = ongoing; c; c = c->next)
		if (concerns(c, what)) {
			c->status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
			any = true;
		}
	pthread_mutex_unlock(&ongoing_lock);
	return any;
}

void sim_capture_put(struct sim_capture *capture)
{
	if (capture && !__atomic_sub_fetch(&capture->refs, 1, __ATOMIC_ACQ_REL)) {
		if (capture->graph)
			sim_graph_release(capture->graph);
		free(capture);
	}
}

bool sim_capture_active(const struct sim_capture *capture)
{
	return capture && capture->status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* The capture S takes part in; a capture that has ended is let go of here. */
static struct sim_capture *capture_of(struct sim_stream *s)
{
	if (s->capture && !sim_capture_active(s->capture)) {
		sim_capture_put(s->capture);
		s->capture = NULL;
	}
	return s->capture;
}

struct sim_capture *sim_capture_get(struct sim_stream *s)
{
	struct sim_capture *capture = capture_of(s);

	if (capture)
		__atomic_fetch_add(&capture->refs, 1, __ATOMIC_RELAXED);
	return capture;
}

void sim_capture_join(struct sim_stream *s, struct sim_capture *capture)
{
	if (!sim_capture_active(capture) || capture_of(s))
		return;
	__atomic_fetch_add(&capture->refs, 1, __ATOMIC_RELAXED);
	s->capture = capture;
}

static void end(struct sim_capture *capture)
{
	capture->status = CU_STREAM_CAPTURE_STATUS_NONE;
	remove_ongoing(capture);
}

void sim_capture_leave(struct sim_stream *s)
{
	struct sim_capture *capture = capture_of(s);

	if (!capture)
		return;
	if (capture->origin == s)
		end(capture);
	s->capture = NULL;
	sim_capture_put(capture);
}

bool sim_capture_spoil(struct sim_stream *s)
{
	struct sim_capture *capture = capture_of(s);

	if (capture)
		capture->status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
	return capture;
}

struct sim_graph *sim_capture_graph(void *stream)
{
	struct sim_stream *s = sim_stream_of(stream);
	struct sim_capture *capture = s ? capture_of(s) : NULL;

	return capture ? capture->graph : NULL;
}

bool sim_capturing(void *stream)
{
	return sim_capture_graph(stream);
}

bool sim_capture_node(void *stream, enum sim_node_kind kind)
{
	struct sim_graph *graph = sim_capture_graph(stream);

	if (graph)
		sim_graph_add(graph, kind);
	return graph;
}

/* What cuThreadExchangeStreamCaptureMode says of the modes of a thread and of a capture. */
static bool is_endangered(const struct sim_capture *capture, const void *thread)
{
	if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
		return false;
	if (capture->thread == thread)
		return capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
	return thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL && capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

bool sim_capture_prohibits(void)
{
	return invalidate(is_endangered, &thread_mode);
}

static bool is_in_context(const struct sim_capture *capture, const void *context)
{
	return capture->origin->context == context;
}

bool sim_capture_spoil_context(const struct sim_context *context)
{
	return invalidate(is_in_context, context);
}

void sim_capture_invalidate(struct sim_capture *capture)
{
	if (sim_capture_active(capture))
		capture->status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
}

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
	struct sim_stream *s = sim_stream_of(stream);
	struct sim_capture *capture;

	if (!s)
		return CUDA_ERROR_INVALID_HANDLE;
	if (s == sim_stream_of(NULL))
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (capture_of(s))
		return CUDA_ERROR_ILLEGAL_STATE;
	capture = sim_zalloc(sizeof(*capture));
	capture->refs = 1;
	capture->status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
	capture->mode = mode;
	capture->id = __atomic_add_fetch(&last_id, 1, __ATOMIC_RELAXED);
	capture->origin = s;
	capture->graph = sim_graph_new();
	capture->thread = &thread_mode;
	s->capture = capture;
	add_ongoing(capture);
	return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
	struct sim_stream *s = sim_stream_of(stream);
	struct sim_capture *capture = s ? capture_of(s) : NULL;
	CUresult ret = CUDA_SUCCESS;

	if (!s || !graph)
		return s ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
	*graph = NULL;
	if (!capture)
		return CUDA_ERROR_ILLEGAL_STATE;
	if (capture->origin != s)
		return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
	if (capture->status == CU_STREAM_CAPTURE_STATUS_INVALIDATED) {
		ret = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	} else {
		*graph = (CUgraph)capture->graph;
		capture->graph = NULL;
	}
	end(capture);
	s->capture = NULL;
	sim_capture_put(capture);
	return ret;
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
	struct sim_stream *s = sim_stream_of(stream);
	struct sim_capture *capture = s ? capture_of(s) : NULL;

	if (!s || !status)
		return s ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
	*status = capture ? capture->status : CU_STREAM_CAPTURE_STATUS_NONE;
	return CUDA_SUCCESS;
}

/* Dependencies are not tracked: a capture of completed work has none to report. */
CUresult cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
				   CUgraph *graph, const CUgraphNode **dependencies,
				   const CUgraphEdgeData **edges, size_t *nr)
{
	struct sim_stream *s = sim_stream_of(stream);
	struct sim_capture *capture = s ? capture_of(s) : NULL;

	if (!s || !status)
		return s ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
	*status = capture ? capture->status : CU_STREAM_CAPTURE_STATUS_NONE;
	if (id)
		*id = capture ? capture->id : 0;
	if (graph)
		*graph = capture ? (CUgraph)capture->graph : NULL;
	if (dependencies)
		*dependencies = NULL;
	if (edges)
		*edges = NULL;
	if (nr)
		*nr = 0;
	return CUDA_SUCCESS;
}

CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
				   CUgraph *graph, const CUgraphNode **dependencies, size_t *nr)
{
	return cuStreamGetCaptureInfo_v3(stream, status, id, graph, dependencies, NULL, nr);
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	CUstreamCaptureMode old = thread_mode;

	if (!mode)
		return CUDA_ERROR_INVALID_VALUE;
	thread_mode = *mode;
	*mode = old;
	return CUDA_SUCCESS;
}
