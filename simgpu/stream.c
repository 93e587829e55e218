/* SPDX-License-Identifier: MIT */
/* Streams and events. Work completes when it is issued; model time passes at 1 ms a launch. */
#include <stdlib.h>
#include <string.h>

#include "simgpu/callback.h"
#include "simgpu/capture.h"

enum { STREAM_MAGIC = 0x5354524d, EVENT_MAGIC = 0x45564e54 };

struct event {
	uint32_t magic;
	unsigned flags;
	bool recorded;
	unsigned long time_ms;			/* model time of the last record */
	struct sim_capture *capture;		/* recorded in a stream that is capturing */
	struct sim_edges waits;			/* what that stream's next node came after then */
};

void (*sim_progress)(bool wait);

/* Model time: launches so far, one a millisecond. */
static unsigned long launches;

static struct sim_stream null_stream = { .magic = STREAM_MAGIC };
static unsigned long long last_id = 2;

void sim_launched(unsigned long count)
{
	__atomic_fetch_add(&launches, count, __ATOMIC_RELAXED);
}

unsigned long sim_launches(void)
{
	return __atomic_load_n(&launches, __ATOMIC_RELAXED);
}

void sim_synchronise(void)
{
	if (sim_progress)
		sim_progress(true);
	sim_pools_synchronised();
}

/*
 * The stream that a handle stands for. The default streams have no object of their own: all work completes at once,
 * and they cannot be captured. A handle that is none gives NULL.
 */
struct sim_stream *sim_stream_of(void *handle)
{
	struct sim_stream *s = handle;

	if (!handle || handle == (void *)CU_STREAM_LEGACY || handle == (void *)CU_STREAM_PER_THREAD)
		return &null_stream;
	return s->magic == STREAM_MAGIC ? s : NULL;
}

void sim_launch(void *handle)
{
	static const CUgraphNodeParams of_a_library = { .type = CU_GRAPH_NODE_TYPE_KERNEL };

	if (!sim_capture_node(handle, &of_a_library))
		sim_launched(1);
}

/* ---- streams --------------------------------------------------------------------------------- */

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority)
{
	struct sim_stream *s;
	int device;
	CUresult ret = sim_context_need(&device);

	if (ret)
		return ret;
	if (!stream || flags > CU_STREAM_NON_BLOCKING)
		return CUDA_ERROR_INVALID_VALUE;
	s = sim_zalloc(sizeof(*s));
	s->magic = STREAM_MAGIC;
	s->context = sim_context_current();
	s->flags = flags;
	s->priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
	s->id = __atomic_add_fetch(&last_id, 1, __ATOMIC_RELAXED);
	*stream = (CUstream)s;
	sim_tell_created(CUPTI_CBID_RESOURCE_STREAM_CREATED, s->context, s);
	return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *stream, unsigned int flags)
{
	return cuStreamCreateWithPriority(stream, flags, 0);
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
	struct sim_stream *s = sim_stream_of(stream);

	if (!s || s == &null_stream)
		return CUDA_ERROR_INVALID_HANDLE;
	sim_tell_destroying(CUPTI_CBID_RESOURCE_STREAM_DESTROY_STARTING, s->context, s);
	sim_capture_leave(s);
	s->magic = 0;
	free(s);
	return CUDA_SUCCESS;
}

/* Synchronising a stream that is being captured is an error that spoils the capture. */
static CUresult wait_for(CUstream stream, bool wait)
{
	struct sim_stream *s = sim_stream_of(stream);

	if (!sim_initialised())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!s)
		return CUDA_ERROR_INVALID_HANDLE;
	if (sim_capture_entangles(stream))
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	if (sim_capture_spoil(s))
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (wait) {
		sim_synchronise();
		sim_tell_synchronised(CUPTI_CBID_SYNCHRONIZE_STREAM_SYNCHRONIZED, stream);
	} else if (sim_progress) {
		sim_progress(false);
	}
	return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream stream)
{
	return wait_for(stream, true);
}

CUresult cuStreamQuery(CUstream stream)
{
	return wait_for(stream, false);
}

CUresult cuStreamGetFlags(CUstream stream, unsigned int *flags)
{
	struct sim_stream *s = sim_stream_of(stream);

	if (!s || !flags)
		return s ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
	*flags = s->flags;
	return CUDA_SUCCESS;
}

CUresult cuStreamGetPriority(CUstream stream, int *priority)
{
	struct sim_stream *s = sim_stream_of(stream);

	if (!s || !priority)
		return s ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
	*priority = s->priority;
	return CUDA_SUCCESS;
}

/* The default streams have the ids 1 (legacy) and 2 (per thread). */
CUresult cuStreamGetId(CUstream stream, unsigned long long *id)
{
	struct sim_stream *s = sim_stream_of(stream);

	if (!s || !id)
		return s ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
	*id = s != &null_stream ? s->id : stream == CU_STREAM_PER_THREAD ? 2 : 1;
	return CUDA_SUCCESS;
}

static CUresult context_of(CUstream stream, struct sim_context **ctx)
{
	struct sim_stream *s = sim_stream_of(stream);
	int device;

	if (!s)
		return CUDA_ERROR_INVALID_HANDLE;
	*ctx = s == &null_stream ? sim_context_current() : s->context;
	return s == &null_stream ? sim_context_need(&device) : CUDA_SUCCESS;
}

CUresult cuStreamGetCtx(CUstream stream, CUcontext *ctx)
{
	struct sim_context *c;
	CUresult ret = context_of(stream, &c);

	if (!ret)
		*ctx = (CUcontext)c;
	return ret;
}

CUresult cuStreamGetDevice(CUstream stream, CUdevice *device)
{
	struct sim_context *c;
	CUresult ret = context_of(stream, &c);

	if (!ret)
		*device = c->device;
	return ret;
}

CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback callback, void *data, unsigned int flags)
{
	struct sim_stream *s = sim_stream_of(stream);

	if (!s || !callback || flags)
		return s ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
	if (sim_capture_spoil(s))
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	callback(stream, CUDA_SUCCESS, data);
	return CUDA_SUCCESS;
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data)
{
	CUgraphNodeParams node = { .type = CU_GRAPH_NODE_TYPE_HOST, .host = { function, data } };

	if (!sim_stream_of(stream) || !function)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_capture_node(stream, &node))
		function(data);
	return CUDA_SUCCESS;
}

/* ---- events ---------------------------------------------------------------------------------- */

static struct event *event_of(CUevent handle)
{
	struct event *e = (struct event *)handle;

	return e && e->magic == EVENT_MAGIC ? e : NULL;
}

bool sim_event_is(CUevent handle)
{
	return event_of(handle);
}

CUresult cuEventCreate(CUevent *event, unsigned int flags)
{
	struct event *e;
	int device;
	CUresult ret = sim_context_need(&device);

	if (ret || !event)
		return ret ? ret : CUDA_ERROR_INVALID_VALUE;
	e = sim_zalloc(sizeof(*e));
	e->magic = EVENT_MAGIC;
	e->flags = flags;
	*event = (CUevent)e;
	return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent event)
{
	struct event *e = event_of(event);

	if (!e)
		return CUDA_ERROR_INVALID_HANDLE;
	sim_capture_put(e->capture);
	sim_edges_release(&e->waits);
	e->magic = 0;
	free(e);
	return CUDA_SUCCESS;
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags)
{
	CUgraphNodeParams node = { .type = CU_GRAPH_NODE_TYPE_EVENT_RECORD, .eventRecord = { event } };
	struct sim_stream *s = sim_stream_of(stream);
	struct event *e = event_of(event);

	if (!e || !s)
		return CUDA_ERROR_INVALID_HANDLE;
	if (sim_capture_entangles(stream))
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	if (flags == CU_EVENT_RECORD_EXTERNAL && sim_capture_node(stream, &node))
		return CUDA_SUCCESS;
	sim_capture_put(e->capture);
	e->capture = sim_capture_get(s);
	e->waits.nr = 0;
	for (size_t i = 0; e->capture && i < s->waits.nr; i++)
		sim_edges_add(&e->waits, s->waits.list[i].from, &s->waits.list[i].data);
	e->recorded = true;
	e->time_ms = sim_launches();
	return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
	return cuEventRecordWithFlags(event, stream, CU_EVENT_RECORD_DEFAULT);
}

static CUresult event_wait(CUevent event, bool wait)
{
	struct event *e = event_of(event);

	if (!sim_initialised())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!e)
		return CUDA_ERROR_INVALID_HANDLE;
	if (sim_capture_active(e->capture)) {
		sim_capture_invalidate(e->capture);
		return CUDA_ERROR_CAPTURED_EVENT;
	}
	if (wait)
		sim_synchronise();
	else if (sim_progress)
		sim_progress(false);
	return CUDA_SUCCESS;
}

CUresult cuEventSynchronize(CUevent event)
{
	return event_wait(event, true);
}

CUresult cuEventQuery(CUevent event)
{
	return event_wait(event, false);
}

/* Never 0: programs that measure how often to repeat a kernel divide by it. */
CUresult cuEventElapsedTime_v2(float *ms, CUevent start, CUevent end)
{
	struct event *a = event_of(start), *b = event_of(end);

	if (!ms)
		return CUDA_ERROR_INVALID_VALUE;
	if (!a || !b || !a->recorded || !b->recorded || (a->flags | b->flags) & CU_EVENT_DISABLE_TIMING)
		return CUDA_ERROR_INVALID_HANDLE;
	*ms = (float)((double)b->time_ms - (double)a->time_ms);
	if (a->time_ms == b->time_ms)
		*ms = 0.01f;
	return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end)
{
	return cuEventElapsedTime_v2(ms, start, end);
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags)
{
	CUgraphNodeParams node = { .type = CU_GRAPH_NODE_TYPE_WAIT_EVENT, .eventWait = { event } };
	struct sim_stream *s = sim_stream_of(stream);
	struct event *e = event_of(event);

	if (!s || !e)
		return CUDA_ERROR_INVALID_HANDLE;
	if (flags == CU_EVENT_WAIT_EXTERNAL && sim_capture_node(stream, &node))
		return CUDA_SUCCESS;
	if (s != &null_stream)
		sim_capture_join(s, e->capture, &e->waits);
	return CUDA_SUCCESS;
}

CUresult cuIpcGetEventHandle(CUipcEventHandle *handle, CUevent event)
{
	struct event *e = event_of(event);

	if (!handle || !e || !(e->flags & CU_EVENT_INTERPROCESS))
		return CUDA_ERROR_INVALID_HANDLE;
	memset(handle, 0, sizeof(*handle));
	return CUDA_SUCCESS;
}

CUresult cuIpcOpenEventHandle(CUevent *event, CUipcEventHandle handle)
{
	(void)handle;
	return cuEventCreate(event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
}
