/* SPDX-License-Identifier: MIT */
/*
 * Wrappers of the driver's calls for graphs that allocate. A node's address is fixed when the node is made;
 * it has memory while a launched graph holds it, and that stays reserved until it is trimmed. Only the driver
 * knows what is reserved: it is asked after each such graph's first launch, and after others as often as the
 * cost of its answers allows. For all other graphs, a launch costs one test of a flag.
 */
#include "hooks_driver.h"
#include "samples.h"

bool ip_is_captured(CUstream stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	__typeof__(&cuStreamIsCapturing) get = ip_captures_open() ? ASK(cuStreamIsCapturing) : NULL;

	return get && !get(stream, &status) && status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

/* ---- which graphs, and which executable ones, hold allocation nodes -------------------------------- */

static _Atomic uintptr_t *handle_find(_Atomic uintptr_t *table, unsigned nr, const void *handle)
{
	for (unsigned i = 0; handle && i < nr; i++)
		if ((atomic_load_explicit(&table[i], memory_order_acquire) & ~(uintptr_t)IP_GRAPH_USED) ==
		    (uintptr_t)handle)
			return &table[i];
	return NULL;
}

static _Atomic uintptr_t *graph_find(CUgraph graph)
{
	return handle_find(ip_recorder->graphs.graph, IP_GRAPHS_MAX, graph);
}

/* From now on all graphs count as holding memory: which do is not known. */
static void forget_which(struct ip_graphs *g)
{
	atomic_store_explicit(&g->all, true, memory_order_relaxed);
	atomic_store_explicit(&g->any, true, memory_order_release);
}

/* Of graphs the latest are remembered: they are instantiated soon after they are made. */
static void graph_mark(CUgraph graph)
{
	struct ip_graphs *g = &ip_recorder->graphs;
	_Atomic uintptr_t *known = graph_find(graph);
	uintptr_t before;
	uint32_t at;

	if (known) {
		atomic_fetch_and_explicit(known, ~(uintptr_t)IP_GRAPH_USED, memory_order_relaxed);
		return;
	}
	at = atomic_fetch_add_explicit(&g->nr_graphs, 1, memory_order_relaxed) % IP_GRAPHS_MAX;
	before = atomic_exchange_explicit(&g->graph[at], (uintptr_t)graph, memory_order_acq_rel);
	if (before && !(before & IP_GRAPH_USED))
		forget_which(g);
}

static void allocates_on(unsigned device)
{
	if (device < TFMT_NR_DEVICES)
		atomic_fetch_or_explicit(&ip_recorder->graphs.devices, 1ull << device, memory_order_relaxed);
}

void ip_graph_captured_alloc(unsigned device)
{
	allocates_on(device);
	atomic_store_explicit(&ip_recorder->graphs.captured, true, memory_order_relaxed);
}

/* With several captures open, whose the node is, is not known: all are taken to hold it. */
void ip_graph_capture_ended(void *graph)
{
	struct ip_graphs *g = &ip_recorder->graphs;

	bool captured = atomic_load_explicit(&g->captured, memory_order_relaxed);

	if (graph && captured)
		graph_mark(graph);
	if (captured && !ip_captures_open())
		atomic_store_explicit(&g->captured, false, memory_order_relaxed);
}

static _Atomic uintptr_t *exec_find(CUgraphExec exec)
{
	return handle_find(ip_recorder->graphs.exec, IP_GRAPH_EXECS_MAX, exec);
}

/* When there is no room for it, all graphs count as holding memory. */
static void exec_mark(CUgraphExec exec)
{
	struct ip_graphs *g = &ip_recorder->graphs;
	bool done = exec_find(exec);

	for (unsigned i = 0; i < IP_GRAPH_EXECS_MAX && !done; i++) {
		uintptr_t none = 0;

		done = atomic_compare_exchange_strong(&g->exec[i], &none, (uintptr_t)exec);
	}
	if (!done)
		forget_which(g);
	atomic_store_explicit(&g->any, true, memory_order_release);
}

static bool exec_holds_memory(CUgraphExec exec)
{
	struct ip_graphs *g = &ip_recorder->graphs;

	return atomic_load_explicit(&g->any, memory_order_relaxed) &&
	       (atomic_load_explicit(&g->all, memory_order_relaxed) || exec_find(exec));
}

/* ---- what the driver has reserved for them -------------------------------------------------------- */

static bool ask(unsigned device, CUgraphMem_attribute attribute, uint64_t *value)
{
	__typeof__(&cuDeviceGetGraphMemAttribute) get = ASK(cuDeviceGetGraphMemAttribute);
	cuuint64_t told = 0;

	if (!get || get((CUdevice)device, attribute, &told))
		return false;
	*value = told;
	return true;
}

/* Record it if it has changed. Not `at_once`: only if what asking costs allows it. */
static void sample(struct ip_thread *t, uint16_t function, unsigned device, bool at_once)
{
	struct ip_graphs *g = &ip_recorder->graphs;
	uint64_t reserved, used, now = ip_now_ns();
	bool told;

	if (device >= TFMT_NR_DEVICES || ip_captures_forbid_questions() ||
	    (!at_once && now < atomic_load_explicit(&g->next_ns[device], memory_order_relaxed)))
		return;
	t->busy = true;
	told = ask(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &reserved) &&
	       ask(device, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &used);
	t->busy = false;
	ip_sample_pace(&g->next_ns[device], now);
	if (!told || (atomic_load(&g->reserved[device]) == reserved && atomic_load(&g->used[device]) == used))
		return;
	atomic_store(&g->reserved[device], reserved);
	atomic_store(&g->used[device], used);
	ip_driver_event((struct tfmt_record){ .kind = TFMT_POOL_INFO,
					      .function = function,
					      .device = (uint8_t)device,
					      .size = reserved,
					      .aux = used });
	ip_sample_now(t, device);
}

/* A graph's nodes allocate where they say, whatever device it is launched from. */
static void sample_all(struct ip_thread *t, uint16_t function, bool at_once)
{
	uint64_t devices = atomic_load_explicit(&ip_recorder->graphs.devices, memory_order_relaxed);
	int saved = errno;

	for (; t && devices; devices &= devices - 1)
		sample(t, function, (unsigned)__builtin_ctzll(devices), at_once);
	errno = saved;
}

/* The first launch takes what the others find. */
static bool is_first_launch(CUgraphExec exec)
{
	_Atomic uintptr_t *slot = ip_captures_forbid_questions() ? NULL : exec_find(exec);
	uintptr_t unused = (uintptr_t)exec;

	return slot && atomic_compare_exchange_strong(slot, &unused, unused | IP_GRAPH_USED);
}

static void launched(uint16_t function, CUgraphExec exec, bool upload)
{
	if (exec_holds_memory(exec))
		sample_all(ip_driver_event((struct tfmt_record){ .kind = TFMT_GRAPH_LAUNCH,
								 .function = function,
								 .device = IP_CURRENT_DEVICE,
								 .address = (uintptr_t)exec,
								 .aux = upload }),
			   function, !upload && is_first_launch(exec));
}

WRAP(cuGraphLaunch, (CUgraphExec exec, CUstream stream), (exec, stream),
     launched(FN_cuGraphLaunch, exec, false))
WRAP(cuGraphLaunch_ptsz, (CUgraphExec exec, CUstream stream), (exec, stream),
     launched(FN_cuGraphLaunch_ptsz, exec, false))
WRAP(cuGraphUpload, (CUgraphExec exec, CUstream stream), (exec, stream),
     launched(FN_cuGraphUpload, exec, true))
WRAP(cuGraphUpload_ptsz, (CUgraphExec exec, CUstream stream), (exec, stream),
     launched(FN_cuGraphUpload_ptsz, exec, true))

static void trimmed(unsigned device)
{
	int saved = errno;
	struct ip_thread *t = atomic_load(&ip_recorder->graphs.any) ? ip_event_thread() : NULL;

	if (t)
		sample(t, FN_cuDeviceGraphMemTrim, device, true);
	if (device < TFMT_NR_DEVICES) /* the next launch takes anew */
		atomic_store_explicit(&ip_recorder->graphs.next_ns[device], 0, memory_order_relaxed);
	errno = saved;
}

WRAP(cuDeviceGraphMemTrim, (CUdevice device), (device), trimmed((unsigned)device))

/* ---- nodes -------------------------------------------------------------------------------------- */

static void node_alloc(uint16_t function, CUgraph graph, const CUmemPoolProps *pool, CUdeviceptr address,
		       size_t bytes)
{
	bool on_device = pool->location.type == CU_MEM_LOCATION_TYPE_DEVICE;

	allocates_on(on_device ? (unsigned)pool->location.id : ip_driver_device());
	ip_driver_took(
		(struct tfmt_record){ .kind = TFMT_DRIVER_ALLOC,
				      .flags = TFMT_SPACE_GRAPH,
				      .function = function,
				      .device = on_device ? (uint8_t)pool->location.id : IP_CURRENT_DEVICE,
				      .address = address,
				      .size = bytes },
		0);
	graph_mark(graph);
}

static void node_free(uint16_t function, CUdeviceptr address)
{
	ip_driver_event((struct tfmt_record){ .kind = TFMT_DRIVER_FREE,
					      .flags = TFMT_SPACE_GRAPH,
					      .function = function,
					      .device = IP_CURRENT_DEVICE,
					      .address = address });
}

static void node_added(uint16_t function, CUgraph graph, const CUgraphNodeParams *p)
{
	if (p->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
		node_alloc(function, graph, &p->alloc.poolProps, p->alloc.dptr, p->alloc.bytesize);
	else if (p->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
		node_free(function, p->free.dptr);
}

WRAP(cuGraphAddMemAllocNode,
     (CUgraphNode *out, CUgraph graph, const CUgraphNode *after, size_t nr, CUDA_MEM_ALLOC_NODE_PARAMS *p),
     (out, graph, after, nr, p),
     node_alloc(FN_cuGraphAddMemAllocNode, graph, &p->poolProps, p->dptr, p->bytesize))
WRAP(cuGraphAddMemFreeNode,
     (CUgraphNode *out, CUgraph graph, const CUgraphNode *after, size_t nr, CUdeviceptr address),
     (out, graph, after, nr, address), node_free(FN_cuGraphAddMemFreeNode, address))
WRAP(cuGraphAddNode_v2,
     (CUgraphNode *out, CUgraph graph, const CUgraphNode *after, const CUgraphEdgeData *edges, size_t nr,
      CUgraphNodeParams *p),
     (out, graph, after, edges, nr, p), node_added(FN_cuGraphAddNode_v2, graph, p))
WRAP(cuGraphAddNode,
     (CUgraphNode *out, CUgraph graph, const CUgraphNode *after, size_t nr, CUgraphNodeParams *p),
     (out, graph, after, nr, p), node_added(FN_cuGraphAddNode, graph, p))

/* ---- executable graphs --------------------------------------------------------------------------- */

static void instantiated(uint16_t function, CUgraphExec exec, CUgraph graph)
{
	_Atomic uintptr_t *holds = graph_find(graph);

	if (holds) {
		atomic_fetch_or_explicit(holds, IP_GRAPH_USED, memory_order_relaxed);
		exec_mark(exec);
	}
	ip_driver_born((struct tfmt_record){ .kind = TFMT_OBJECT_NEW,
					     .flags = TFMT_OBJECT_GRAPH,
					     .function = function,
					     .device = IP_CURRENT_DEVICE,
					     .address = (uintptr_t)exec,
					     .aux = holds != NULL });
}

WRAP(cuGraphInstantiateWithFlags, (CUgraphExec *out, CUgraph graph, unsigned long long flags),
     (out, graph, flags), instantiated(FN_cuGraphInstantiateWithFlags, *out, graph))
WRAP(cuGraphInstantiateWithParams, (CUgraphExec *out, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params),
     (out, graph, params), instantiated(FN_cuGraphInstantiateWithParams, *out, graph))
WRAP(cuGraphInstantiateWithParams_ptsz,
     (CUgraphExec *out, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params), (out, graph, params),
     instantiated(FN_cuGraphInstantiateWithParams_ptsz, *out, graph))
WRAP(cuGraphInstantiate_v2, (CUgraphExec *out, CUgraph graph, CUgraphNode *bad, char *log, size_t log_bytes),
     (out, graph, bad, log, log_bytes), instantiated(FN_cuGraphInstantiate_v2, *out, graph))
WRAP(cuGraphInstantiate, (CUgraphExec *out, CUgraph graph, CUgraphNode *bad, char *log, size_t log_bytes),
     (out, graph, bad, log, log_bytes), instantiated(FN_cuGraphInstantiate, *out, graph))

/* Forgotten before: another thread can be given the same handle before the call returns. */
IP_EXPORT CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec exec)
{
	bool held = (ip_reached(), exec_holds_memory(exec));
	_Atomic uintptr_t *slot = held ? exec_find(exec) : NULL;
	__typeof__(&cuGraphExecDestroy) real;
	struct ip_thread *t;
	CUresult result;

	if (slot)
		atomic_store_explicit(slot, 0, memory_order_release);
	real = REAL(cuGraphExecDestroy);
	result = real ? real(exec) : NO_DRIVER;
	if (result && slot)
		exec_mark(exec);
	if (result)
		return result;
	t = ip_driver_event((struct tfmt_record){ .kind = TFMT_OBJECT_GONE,
						  .flags = TFMT_OBJECT_GRAPH,
						  .function = FN_cuGraphExecDestroy,
						  .device = IP_CURRENT_DEVICE,
						  .address = (uintptr_t)exec });
	if (held)
		sample_all(t, FN_cuGraphExecDestroy, true);
	return result;
}
