/* SPDX-License-Identifier: MIT */
/*
 * Wrappers that count the stream captures that are open. While one is, the recorder makes no call of its own to the
 * driver: it could invalidate the capture.
 */
#include "hooks_driver.h"
#include "samples.h"

uint32_t ip_captures_open(void)
{
	return atomic_load_explicit(&ip_recorder->captures, memory_order_relaxed);
}

static CUresult began(CUresult result)
{
	if (!result)
		atomic_fetch_add_explicit(&ip_recorder->captures, 1, memory_order_relaxed);
	return result;
}

/*
 * These errors end a capture, too; any other means that there was none, or that it goes on: UNMATCHED that it
 * began in another stream.
 */
static bool has_ended(CUresult result)
{
	return result == CUDA_SUCCESS || (result >= CUDA_ERROR_STREAM_CAPTURE_INVALIDATED &&
					  result <= CUDA_ERROR_STREAM_CAPTURE_ISOLATION &&
					  result != CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
}

static CUresult ended(CUresult result, void *graph)
{
	uint32_t open = ip_captures_open();

	while (has_ended(result) && open &&
	       !atomic_compare_exchange_weak(&ip_recorder->captures, &open, open - 1))
		;
	ip_graph_capture_ended(result ? NULL : graph);
	return result;
}

#define CAPTURE(name, after, params, args)                                    \
	IP_EXPORT CUresult CUDAAPI name params;                               \
	IP_EXPORT CUresult CUDAAPI name params                                \
	{                                                                     \
		__typeof__(&name) real = REAL(name);                          \
                                                                              \
		return after(real ? real args : NO_DRIVER);                   \
	}

CAPTURE(cuStreamBeginCapture, began, (CUstream stream), (stream))
CAPTURE(cuStreamBeginCapture_ptsz, began, (CUstream stream), (stream))
CAPTURE(cuStreamBeginCapture_v2, began, (CUstream stream, CUstreamCaptureMode mode), (stream, mode))
CAPTURE(cuStreamBeginCapture_v2_ptsz, began, (CUstream stream, CUstreamCaptureMode mode), (stream, mode))
CAPTURE(cuStreamBeginCaptureToGraph, began,
	(CUstream stream, CUgraph graph, const CUgraphNode *nodes, const CUgraphEdgeData *edges, size_t nr,
	 CUstreamCaptureMode mode),
	(stream, graph, nodes, edges, nr, mode))
CAPTURE(cuStreamBeginCaptureToGraph_ptsz, began,
	(CUstream stream, CUgraph graph, const CUgraphNode *nodes, const CUgraphEdgeData *edges, size_t nr,
	 CUstreamCaptureMode mode),
	(stream, graph, nodes, edges, nr, mode))
#define CAPTURE_END(name)                                                     \
	IP_EXPORT CUresult CUDAAPI name(CUstream stream, CUgraph *graph)      \
	{                                                                     \
		__typeof__(&name) real = REAL(name);                          \
		CUresult result = real ? real(stream, graph) : NO_DRIVER;     \
                                                                              \
		return ended(result, !result && graph ? *graph : NULL);       \
	}

CAPTURE_END(cuStreamEndCapture)
CAPTURE_END(cuStreamEndCapture_ptsz)
