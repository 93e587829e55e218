/* SPDX-License-Identifier: MIT */
/*
 * What the files of the driver half share among themselves, beyond simgpu.h: the address table, the unit
 * allocator, mappings of host memory, and the objects that CUDA's opaque handles stand for.
 */
#ifndef SIMGPU_INTERNAL_H
#define SIMGPU_INTERNAL_H

#include "simgpu/simgpu.h"

#define SIM_GRANULE SIM_MIB(2)		/* the driver takes and maps device memory in units of 2 MiB */

static inline size_t sim_round_up(size_t n, size_t unit)
{
	return (n + unit - 1) / unit * unit;
}

/* ---- who asks for what is not offered (static_runtime.c) ------------------------------------- */

/* Somebody looked up the driver's private tables: say so once if it is a statically linked CUDA runtime. */
void sim_private_tables_asked(void);

/* ---- which devices a process sees (visible.c) ------------------------------------------------ */

/* Physical indices that LIST, a value of CUDA_VISIBLE_DEVICES, names, in its order; returns how many. */
int sim_visible_devices(const char *list, int nr_physical, int physical[SIM_MAX_DEVICES]);

/* ---- blocks: who owns an address (block_table.c) -------------------------------------------- */

enum sim_kind {
	SIM_LINEAR,		/* cuMemAlloc, its own mapping */
	SIM_SLICE,		/* cuMemAlloc, a piece of a slab */
	SIM_POOLED,		/* cuMemAllocAsync */
	SIM_GRAPH_MEMORY,	/* of a graph's allocation node, whether it has memory or not */
	SIM_MAPPED,		/* cuMemMap */
	SIM_IMPORTED,		/* cuIpcOpenMemHandle: charged to its owner */
	SIM_GLOBAL,		/* a module's device variable: part of the context's memory */
	SIM_MANAGED,
	SIM_PINNED,
	SIM_REGISTERED,
	SIM_RESERVED,		/* cuMemAddressReserve, in its own table */
};

struct sim_block {
	uintptr_t start;
	size_t bytes;		/* charged and mapped: rounded as the driver rounds */
	size_t requested_bytes;
	enum sim_kind kind;
	int device;
	unsigned flags;		/* as the allocating call got them */
	uint64_t id;		/* unique in the process: CU_POINTER_ATTRIBUTE_BUFFER_ID */
	void *owner;		/* slab, pool, physical handle or allocation node */
	struct sim_context *context;	/* that it is destroyed with; NULL = of none, or the primary one */
};

/* A set of disjoint blocks, found by any address inside. Callers hold sim_lock(). */
struct sim_blocks {
	void *root;
};

extern struct sim_blocks sim_blocks;		/* every block of the process */

/* Add a copy of BLOCK, with a fresh id; the returned entry stays valid until it is removed. */
struct sim_block *sim_blocks_add(struct sim_blocks *set, const struct sim_block *block);

/* The block that contains ADDRESS, or NULL. */
struct sim_block *sim_blocks_find(const struct sim_blocks *set, uintptr_t address);

/* Remove the block that starts at ADDRESS and copy it to *OUT; false when there is none. */
bool sim_blocks_remove(struct sim_blocks *set, uintptr_t address, struct sim_block *out);

/* Whether blocks of KIND are device memory. */
bool sim_kind_is_device(enum sim_kind kind);

/* ---- units: first-fit runs in a row of equal units (units.c) --------------------------------- */

struct sim_units {
	uint64_t *used;		/* one bit a unit */
	size_t nr;
	size_t nr_used;
	size_t first_free;	/* no free unit lies below */
	size_t too_long;	/* so long a run is known not to be there; 0: nothing is known */
};

/* Find and take COUNT adjacent units; grows the row when GROW, else returns SIZE_MAX when none fit. */
size_t sim_units_take(struct sim_units *units, size_t count, bool grow);
void sim_units_give(struct sim_units *units, size_t at, size_t count);
void sim_units_release(struct sim_units *units);

/* ---- the host memory that a device's is (host.c) ---------------------------------------------- */

/* A fresh, zero, lazily committed mapping of BYTES at a multiple of ALIGN. Never fails: ends the process. */
void *sim_map(size_t bytes, size_t align, int prot);
void sim_unmap(void *p, size_t bytes);

/*
 * Free what was allocated in CONTEXT; NULL stands for DEVICE's primary context: every allocation of DEVICE then but
 * mappings, which their handles own, what a module holds, and what other contexts do. Locked.
 */
void sim_memory_reset(int device, const struct sim_context *context);

/* Device memory of a module's variable (memory.c): charged by whoever loads the module, or with the context. */
CUdeviceptr sim_global_alloc(int device, size_t bytes);
void sim_global_free(CUdeviceptr p);

/* ---- contents (dirty.c) ---------------------------------------------------------------------- */

/* Whether any byte of [P, P + BYTES) was written by the host side since it was handed out. */
bool sim_is_dirty(const void *p, size_t bytes);

/* [P, P + BYTES) is gone: what is remembered of its contents goes too. */
void sim_forget(const void *p, size_t bytes);

/* ---- contexts (context.c) -------------------------------------------------------------------- */

struct sim_context {
	uint32_t magic;
	int device;
	bool primary;
	unsigned flags;
	unsigned refs;		/* retains of a primary context */
	uint64_t peers;		/* a bit for each device whose memory it was given access to */
	bool active;
	unsigned long long id;
	struct sim_green *green;	/* NULL: not the context of a green one */
};

/* A context for GREEN, which shares its device's memory with the primary one; it ends with GREEN. */
struct sim_context *sim_context_green(int device, struct sim_green *green);
void sim_context_green_end(struct sim_context *ctx);

/* The calling thread's current context, or NULL. */
struct sim_context *sim_context_current(void);

/* DEVICE's primary context, whether active or not. */
struct sim_context *sim_context_primary(int device);

/* CUDA_SUCCESS when this thread has a usable context; *DEVICE is its device then. */
CUresult sim_context_need(int *device);

/* Whether cuInit() was called, and the process is not the fork child of one that had called it. */
bool sim_initialised(void);

/* ---- pools (pool.c) -------------------------------------------------------------------------- */

/* A host thread has synchronised: pools return what lies above their release thresholds. */
void sim_pools_synchronised(void);

/* Release BLOCK, just removed from sim_blocks, to its pool; also cuMemFree's way. Locked. */
void sim_pool_release(const struct sim_block *block);

/* ---- physical memory (vmm.c) ------------------------------------------------------------------ */

/* One reference to a handle's memory more, false if it is none; one less. Locked. */
bool sim_physical_get(CUmemGenericAllocationHandle handle);
void sim_physical_put(CUmemGenericAllocationHandle handle);

/* Its bytes, 0 if it is none; memory of no device, for a multicast object. Locked. */
size_t sim_physical_bytes(CUmemGenericAllocationHandle handle);
CUmemGenericAllocationHandle sim_physical_new_multicast(size_t bytes);

/* HANDLE is a multicast object of NR_DEVICES (0: as many as it gets) from now on, or goes (multicast.c). Locked. */
void sim_multicast_new(CUmemGenericAllocationHandle handle, unsigned nr_devices);
void sim_multicast_end(CUmemGenericAllocationHandle handle);

/* ---- streams and graphs (stream.c, graph.c) -------------------------------------------------- */

struct sim_graph;

struct sim_node;
struct sim_edges;

/* The graph STREAM is being captured into, or NULL. */
struct sim_graph *sim_capture_graph(void *stream);

/*
 * Whether a call that may synchronise (cuMemAlloc ...) is prohibited now by a capture: then the captures
 * concerned are invalidated and the caller returns CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED.
 */
bool sim_capture_prohibits(void);

/*
 * Whether work in STREAM would make captures wait: it is the legacy default stream, and streams that wait for that one
 * capture in this context, whatever their mode. Then those captures are invalidated and the caller returns
 * CUDA_ERROR_STREAM_CAPTURE_IMPLICIT. A synchronous copy is work in the legacy stream: NULL.
 */
bool sim_capture_entangles(const void *stream);

/* When STREAM is capturing, add a node with PARAMS and return true: the caller has nothing to do then. */
bool sim_capture_node(void *stream, const CUgraphNodeParams *params);

/* Add the node of a kernel's launch with attributes. STREAM is capturing. */
void sim_capture_kernel(void *stream, const CUgraphNodeParams *params, const CUlaunchAttribute *attributes,
			unsigned nr_attributes);

/* Add a node that allocates BYTES of DEVICE, at the address returned, or frees ADDRESS. STREAM is capturing. */
CUdeviceptr sim_capture_alloc(void *stream, int device, size_t bytes);
CUresult sim_capture_free(void *stream, CUdeviceptr address);

struct sim_graph *sim_graph_new(void);
void sim_graph_release(struct sim_graph *graph);

/*
 * Add a node to GRAPH, after those of EDGES, that allocates BYTES on DEVICE, at an address of its own, or one that
 * frees ADDRESS; *NODE is it.
 */
CUdeviceptr sim_graph_add_alloc(struct sim_graph *graph, int device, size_t bytes, const struct sim_edges *edges,
				struct sim_node **node);
CUresult sim_graph_add_free(struct sim_graph *graph, CUdeviceptr address, const struct sim_edges *edges,
			    struct sim_node **node);

/* Whether HANDLE is an event. */
bool sim_event_is(CUevent handle);

/* ---- work that a graph does at each launch (copy.c, memop.c, module.c) ----------------------- */

/* Copy as C says. */
CUresult sim_copy_3d(const CUDA_MEMCPY3D *c);

/* HEIGHT rows of COUNT elements of UNIT bytes (1, 2 or 4) get the value VALUE; a row begins PITCH bytes further on. */
CUresult sim_set(CUdeviceptr dptr, size_t pitch, unsigned value, size_t unit, size_t count, size_t height);

/* Write and look at values in memory, in order; as a node while STREAM is capturing. */
CUresult sim_stream_operations(CUstream stream, unsigned count, CUstreamBatchMemOpParams *operations);

/* Whether FUNCTION can be launched so, its code loaded on the current device then. */
CUresult sim_kernel_check(CUfunction function, unsigned long long grid, unsigned long long block, unsigned shared);

/* ---- arrays (array.c) ------------------------------------------------------------------------ */

/* Where the elements of ARRAY lie: rows of *PITCH bytes, *HEIGHT of them a plane. Invalid handle: it has none. */
CUresult sim_array_layout(CUarray array, char **memory, size_t *pitch, size_t *height, size_t *bytes);

/* ---- memory of allocation nodes (graph_memory.c) --------------------------------------------- */

/* What a launch does to it, in order. */
struct sim_graph_step {
	CUdeviceptr address;
	bool is_free;
};

/* A fresh address for a node, held once. */
CUdeviceptr sim_graph_memory_new(int device, size_t bytes);

/* All locked. Is P such an address? One holder more, one less: the last takes the address along. */
bool sim_graph_memory_is(CUdeviceptr p);
void sim_graph_memory_hold(CUdeviceptr p);
void sim_graph_memory_put(CUdeviceptr p);

/* The memory at P is freed outside its graph; invalid value if there is none. Locked. */
CUresult sim_graph_memory_free(CUdeviceptr p);

/* BLOCK, just removed from sim_blocks, goes with its device. Locked. */
void sim_graph_memory_release(const struct sim_block *block);

/* Launch a graph with these steps. AUTO_FREE: what an earlier launch left allocated is freed first, no error. */
CUresult sim_graph_memory_launch(const struct sim_graph_step *steps, size_t nr, bool auto_free);

/* Give back what DEVICE keeps reserved and nobody uses. Locked. */
void sim_graph_memory_trim(int device);

/* COUNT launches happened. */
void sim_launched(unsigned long count);

/* A host thread waits for the device: posted receives complete, pools trim. */
void sim_synchronise(void);

#endif
