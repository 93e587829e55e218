/* SPDX-License-Identifier: MIT */
/*
 * Wrappers of the driver's calls by which stream captures begin and end, and streams go: captures.h. While a capture
 * is open, the recorder makes no call of its own to the driver that could invalidate it.
 */
#include "hooks_driver.h"
#include "samples.h"

uint32_t ip_captures_open(void)
{
	return ip_captures_nr(&ip_recorder->captures);
}

static bool is_capturing(uintptr_t stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	__typeof__(&cuStreamIsCapturing) get = ASK(cuStreamIsCapturing);

	/* One that is invalidated can take no more harm. */
	return !get || (!get((CUstream)stream, &status) && status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
}

bool ip_captures_forbid_questions(void)
{
	int saved = errno;
	bool forbidden;

	if (!ip_captures_open())
		return false;
	forbidden = ip_captures_forbid(&ip_recorder->captures, (uintptr_t)&ip_tls, ip_now_ns(), is_capturing);
	ip_graph_capture_ended(NULL);
	errno = saved;
	return forbidden;
}

/* What NULL stands for in functions of either variant. */
#define LEGACY(stream) (stream)
#define PER_THREAD(stream) ((stream) ? (stream) : CU_STREAM_PER_THREAD)

static struct ip_capture_key key_of(CUstream stream)
{
	return (struct ip_capture_key){ (uintptr_t)stream,
					stream == CU_STREAM_PER_THREAD ? (uintptr_t)&ip_tls : 0 };
}

/* ---- captures -------------------------------------------------------------------------------------- */

static CUresult began(CUresult result, CUstream stream)
{
	int saved = errno;

	if (!result)
		ip_captures_add(&ip_recorder->captures, key_of(stream), ip_stream_home(stream), ip_now_ns());
	errno = saved;
	return result;
}

/*
 * Is the capture over? These errors end it, too, or say that there was none. After any other it goes on, as after
 * UNMATCHED, which says that it began in another stream.
 */
static bool has_ended(CUresult result)
{
	return result == CUDA_SUCCESS || result == CUDA_ERROR_ILLEGAL_STATE ||
	       (result >= CUDA_ERROR_STREAM_CAPTURE_INVALIDATED &&
		result <= CUDA_ERROR_STREAM_CAPTURE_ISOLATION && result != CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
}

static CUresult ended(CUresult result, CUstream stream, void *graph)
{
	int saved = errno;

	if (has_ended(result))
		ip_captures_drop(&ip_recorder->captures, key_of(stream));
	ip_graph_capture_ended(result ? NULL : graph);
	errno = saved;
	return result;
}

#define CAPTURE(name, variant, params, args)                                  \
	IP_EXPORT CUresult CUDAAPI name params;                               \
	IP_EXPORT CUresult CUDAAPI name params                                \
	{                                                                     \
		__typeof__(&name) real = REAL(name);                          \
                                                                              \
		return began(real ? real args : NO_DRIVER, variant(stream));  \
	}

CAPTURE(cuStreamBeginCapture, LEGACY, (CUstream stream), (stream))
CAPTURE(cuStreamBeginCapture_ptsz, PER_THREAD, (CUstream stream), (stream))
CAPTURE(cuStreamBeginCapture_v2, LEGACY, (CUstream stream, CUstreamCaptureMode mode), (stream, mode))
CAPTURE(cuStreamBeginCapture_v2_ptsz, PER_THREAD, (CUstream stream, CUstreamCaptureMode mode), (stream, mode))
CAPTURE(cuStreamBeginCaptureToGraph, LEGACY,
	(CUstream stream, CUgraph graph, const CUgraphNode *nodes, const CUgraphEdgeData *edges, size_t nr,
	 CUstreamCaptureMode mode),
	(stream, graph, nodes, edges, nr, mode))
CAPTURE(cuStreamBeginCaptureToGraph_ptsz, PER_THREAD,
	(CUstream stream, CUgraph graph, const CUgraphNode *nodes, const CUgraphEdgeData *edges, size_t nr,
	 CUstreamCaptureMode mode),
	(stream, graph, nodes, edges, nr, mode))

#define CAPTURE_END(name, variant)                                            \
	IP_EXPORT CUresult CUDAAPI name(CUstream stream, CUgraph *graph)      \
	{                                                                     \
		__typeof__(&name) real = REAL(name);                          \
		CUresult result = real ? real(stream, graph) : NO_DRIVER;     \
                                                                              \
		return ended(result, variant(stream), !result && graph ? *graph : NULL); \
	}

CAPTURE_END(cuStreamEndCapture, LEGACY)
CAPTURE_END(cuStreamEndCapture_ptsz, PER_THREAD)

/* ---- streams that go ------------------------------------------------------------------------------- */

uint64_t ip_captures_hold_of(struct ip_capture_home home)
{
	int saved = errno;
	uint64_t held = ip_captures_open() ? ip_captures_hold_home(&ip_recorder->captures, home) : 0;

	errno = saved;
	return held;
}

void ip_captures_settle(uint64_t held, bool gone)
{
	if (!held)
		return;
	ip_captures_let_go(&ip_recorder->captures, held, gone);
	ip_graph_capture_ended(NULL);
}

/* The stream's capture is held before the call: another thread can be given the same handle before it returns. */
#define STREAM_END(name)                                                      \
	IP_EXPORT CUresult CUDAAPI name(CUstream stream)                      \
	{                                                                     \
		uint64_t held = hold_of_stream(stream);                       \
		__typeof__(&name) real = REAL(name);                          \
		CUresult result = real ? real(stream) : NO_DRIVER;            \
                                                                              \
		ip_captures_settle(held, !result);                            \
		return result;                                                \
	}

static uint64_t hold_of_stream(CUstream stream)
{
	int saved = errno;
	uint64_t held = ip_captures_open() ? ip_captures_hold(&ip_recorder->captures, key_of(stream)) : 0;

	errno = saved;
	return held;
}

STREAM_END(cuStreamDestroy_v2)
STREAM_END(cuStreamDestroy)
