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
	bool is_blocking;		/* a stream that waits for the legacy one takes part */
	bool is_borrowed;		/* the program's graph: cuStreamBeginCaptureToGraph */
	const void *thread;		/* that began it: the address of its thread_mode */
	struct sim_capture *next;	/* in the list of those that go on */
};

__thread unsigned sim_uses_thread_stream;
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
		if (capture->graph && !capture->is_borrowed)
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
		s->waits.nr = 0;
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

static void note_blocking(struct sim_capture *capture, const struct sim_stream *s)
{
	if (!(s->flags & CU_STREAM_NON_BLOCKING))
		__atomic_store_n(&capture->is_blocking, true, __ATOMIC_RELAXED);
}

void sim_capture_join(struct sim_stream *s, struct sim_capture *capture, const struct sim_edges *edges)
{
	if (!sim_capture_active(capture))
		return;
	if (!capture_of(s)) {
		__atomic_fetch_add(&capture->refs, 1, __ATOMIC_RELAXED);
		s->capture = capture;
		s->waits.nr = 0;
		note_blocking(capture, s);
	}
	for (size_t i = 0; s->capture == capture && i < edges->nr; i++)
		sim_edges_add(&s->waits, edges->list[i].from, &edges->list[i].data);
}

static void end(struct sim_capture *capture)
{
	capture->status = CU_STREAM_CAPTURE_STATUS_NONE;
	remove_ongoing(capture);
}

void sim_capture_leave(struct sim_stream *s)
{
	struct sim_capture *capture = capture_of(s);

	sim_edges_release(&s->waits);
	free(s->told);
	free(s->told_data);
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

/* NODE was added in stream S: its next one comes after it alone. */
static void follow(struct sim_stream *s, struct sim_node *node)
{
	s->waits.nr = 0;
	sim_edges_add(&s->waits, node, NULL);
}

bool sim_capture_node(void *stream, const CUgraphNodeParams *params)
{
	struct sim_graph *graph = sim_capture_graph(stream);
	struct sim_stream *s = sim_stream_of(stream);

	if (graph)
		follow(s, sim_node_new(graph, params, &s->waits));
	return graph;
}

void sim_capture_kernel(void *stream, const CUgraphNodeParams *params, const CUlaunchAttribute *attributes,
			unsigned nr_attributes)
{
	struct sim_stream *s = sim_stream_of(stream);

	if (!sim_capture_node(stream, params))
		return;
	for (unsigned i = 0; i < nr_attributes; i++)
		cuGraphKernelNodeSetAttribute((CUgraphNode)s->waits.list[0].from, attributes[i].id,
					      &attributes[i].value);
}

CUdeviceptr sim_capture_alloc(void *stream, int device, size_t bytes)
{
	struct sim_stream *s = sim_stream_of(stream);
	struct sim_node *node;
	CUdeviceptr p = sim_graph_add_alloc(sim_capture_graph(stream), device, bytes, &s->waits, &node);

	follow(s, node);
	return p;
}

CUresult sim_capture_free(void *stream, CUdeviceptr address)
{
	struct sim_stream *s = sim_stream_of(stream);
	struct sim_node *node;
	CUresult ret = sim_graph_add_free(sim_capture_graph(stream), address, &s->waits, &node);

	if (!ret)
		follow(s, node);
	return ret;
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

static bool is_entangled(const struct sim_capture *capture, const void *context)
{
	return __atomic_load_n(&capture->is_blocking, __ATOMIC_RELAXED) && capture->origin->context == context;
}

bool sim_capture_entangles(const void *stream)
{
	if ((stream && stream != (void *)CU_STREAM_LEGACY) || sim_uses_thread_stream)
		return false;
	return invalidate(is_entangled, sim_context_current());
}

void sim_capture_invalidate(struct sim_capture *capture)
{
	if (sim_capture_active(capture))
		capture->status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
}

/* Capture into GRAPH of the program's, after EDGES; NULL: into a new one. */
static CUresult begin(CUstream stream, CUstreamCaptureMode mode, struct sim_graph *graph,
		      const struct sim_edges *edges)
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
	capture->graph = graph ? graph : sim_graph_new();
	capture->is_borrowed = graph;
	capture->thread = &thread_mode;
	note_blocking(capture, s);
	s->capture = capture;
	s->waits.nr = 0;
	for (size_t i = 0; edges && i < edges->nr; i++)
		sim_edges_add(&s->waits, edges->list[i].from, &edges->list[i].data);
	add_ongoing(capture);
	return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
	return begin(stream, mode, NULL, NULL);
}

/* As documented: the nodes that DEPENDENCIES name are GRAPH's, and the capture adds to it. */
CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph handle, const CUgraphNode *dependencies,
				     const CUgraphEdgeData *data, size_t nr, CUstreamCaptureMode mode)
{
	struct sim_graph *graph = sim_graph_of(handle);
	struct sim_edges edges;
	CUresult ret = graph ? sim_edges_read(&edges, graph, dependencies, data, nr) : CUDA_ERROR_INVALID_VALUE;

	if (ret)
		return ret;
	ret = begin(stream, mode, graph, &edges);
	sim_edges_release(&edges);
	return ret;
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

/* What S's next node comes after, as two lists that stay until S is asked again. */
static void tell_waits(struct sim_stream *s)
{
	s->told = sim_realloc(s->told, (s->waits.nr + 1) * sizeof(*s->told));
	s->told_data = sim_realloc(s->told_data, (s->waits.nr + 1) * sizeof(*s->told_data));
	for (size_t i = 0; i < s->waits.nr; i++) {
		s->told[i] = (CUgraphNode)s->waits.list[i].from;
		s->told_data[i] = s->waits.list[i].data;
	}
}

/* Whether what edges carry is left out of an answer that has no room for it. */
static bool is_lossy(const struct sim_edges *edges)
{
	for (size_t i = 0; i < edges->nr; i++)
		if (edges->list[i].data.from_port || edges->list[i].data.type)
			return true;
	return false;
}

CUresult cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
				   CUgraph *graph, const CUgraphNode **dependencies,
				   const CUgraphEdgeData **data, size_t *nr)
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
	if (capture && (dependencies || data))
		tell_waits(s);
	if (dependencies)
		*dependencies = capture ? s->told : NULL;
	if (data)
		*data = capture ? s->told_data : NULL;
	if (nr)
		*nr = capture ? s->waits.nr : 0;
	return capture && dependencies && !data && is_lossy(&s->waits) ? CUDA_ERROR_LOSSY_QUERY : CUDA_SUCCESS;
}

CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
				   CUgraph *graph, const CUgraphNode **dependencies, size_t *nr)
{
	return cuStreamGetCaptureInfo_v3(stream, status, id, graph, dependencies, NULL, nr);
}

/* What the stream's next node comes after: NR nodes more, or those instead. */
CUresult cuStreamUpdateCaptureDependencies_v2(CUstream stream, CUgraphNode *dependencies,
					      const CUgraphEdgeData *data, size_t nr, unsigned int flags)
{
	struct sim_stream *s = sim_stream_of(stream);
	struct sim_capture *capture = s ? capture_of(s) : NULL;
	struct sim_edges edges;
	CUresult ret;

	if (!s || flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES)
		return s ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
	if (!capture || capture->status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
		return CUDA_ERROR_ILLEGAL_STATE;
	ret = sim_edges_read(&edges, capture->graph, dependencies, data, nr);
	if (ret)
		return ret;
	if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES)
		s->waits.nr = 0;
	for (size_t i = 0; i < edges.nr; i++)
		sim_edges_add(&s->waits, edges.list[i].from, &edges.list[i].data);
	sim_edges_release(&edges);
	return CUDA_SUCCESS;
}

CUresult cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode *dependencies, size_t nr,
					   unsigned int flags)
{
	return cuStreamUpdateCaptureDependencies_v2(stream, dependencies, NULL, nr, flags);
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
