/* SPDX-License-Identifier: MIT */
/*
 * Internal interface of the simulated GPU: what its files share.
 *
 * Vocabulary. A *device* is one simulated GPU; all devices of a process have the same *profile*. A *block*
 * is a range of addresses that one allocation owns (linear, pinned, managed, registered, a mapping of
 * virtual memory, a piece of a pool). To *charge* is to take bytes of a device's capacity. *Dirty* are the
 * device bytes that the host side wrote (copies, memset, received messages); all other device bytes read 0.
 *
 * Layers. The noun files (device, blocks, memory, vmm, pool, copy, stream, graph, module) are the driver
 * half: they define the cu* functions over one shared state. The runtime*.c files are the runtime half: they
 * reach the driver half only through the pointers in sim_driver(), looked up as the real runtime looks them
 * up. Libraries (cuBLAS, cuDNN, NCCL, NVML ...) use the functions below and never an exported CUDA name of
 * ours.
 *
 * Threads. Every function may be called from any thread. sim_lock() guards devices, blocks and pools;
 * functions marked "locked" want it held, all others take it themselves and must not be called with it held.
 */
#ifndef SIMGPU_H
#define SIMGPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Under this macro cuda.h declares the old versions of its functions too. Everything a CUDA header declares
 * is part of the exported interface, so its definitions get default visibility; all else stays hidden.
 */
#define __CUDA_API_VERSION_INTERNAL 1
#pragma GCC visibility push(default)
#include <cuda.h>
#include <cuda_runtime_api.h>
#pragma GCC visibility pop

/* For an exported function that no public header declares. */
#define SIM_EXPORT __attribute__((visibility("default")))

#define SIM_KIB(n) ((size_t)(n) << 10)
#define SIM_MIB(n) ((size_t)(n) << 20)
#define SIM_MAX_DEVICES 64

/* ---- profiles and devices (device.c) --------------------------------------------------------- */

struct sim_profile {
	const char *name;		/* as --simulate takes it: "h100" */
	const char *product;		/* as the driver names it: "NVIDIA H100 80GB HBM3" */
	size_t capacity_bytes;		/* total of cudaMemGetInfo on the real card */
	size_t context_bytes;		/* what a context and its code take of it */
	int sms;
	int cc_major, cc_minor;		/* compute capability */
	int smem_optin_bytes;		/* shared memory per block, with opt-in */
	int smem_sm_bytes;		/* shared memory per SM */
	int threads_per_sm;
	int blocks_per_sm;
	int l2_bytes;
	int bus_bits;
	int clock_khz, memory_clock_khz;
	int watts;			/* board power limit, for NVML */
};

/*
 * Under SIMGPU_CAPACITY=unlimited no allocation fails. Programs divide, multiply and reserve addresses by the
 * total, so it reads as a number that they can bear, and what is in use may exceed it.
 */
#define SIM_UNLIMITED_TOTAL ((size_t)4 << 40)
bool sim_is_unlimited(void);

/* The largest capacity, and the largest request that an unlimited device grants: there are 2^47 B of addresses. */
#define SIM_CAPACITY_MAX ((size_t)64 << 40)

/* The profile of this process, from SIMGPU_PROFILE, with SIMGPU_CAPACITY applied. Never NULL. */
const struct sim_profile *sim_profile(void);

/* How many devices there are (SIMGPU_DEVICES; CUDA_VISIBLE_DEVICES restricts it as it does on a real
 * machine). */
int sim_nr_devices(void);

/* The calling thread's current device, as cudaGetDevice reports it. */
int sim_device(void);

/* Physical index of device DEV: what NVML counts, before CUDA_VISIBLE_DEVICES. */
int sim_device_physical(int dev);
int sim_nr_physical(void);

/* Identity of physical device INDEX; the text is "GPU-01234567-89ab-...", as nvidia-smi has it. */
#define SIM_UUID_TEXT 41
void sim_device_uuid(int index, unsigned char uuid[16]);
void sim_device_uuid_text(int index, char text[SIM_UUID_TEXT]);
int sim_device_pci_bus(int index);

/*
 * Take BYTES of DEV's capacity, creating its context first if there is none; false when they or the context do
 * not fit, and then nothing is taken. sim_uncharge() gives back. Both locked.
 */
bool sim_charge(int dev, size_t bytes);
void sim_uncharge(int dev, size_t bytes);

/*
 * What physical device INDEX has in all and has left, as cudaMemGetInfo and NVML tell it: contexts and what
 * other processes hold (shared_device.h) are taken. Not locked: a moment's reading.
 */
struct sim_memory {
	size_t total_bytes, used_bytes, free_bytes;
};
struct sim_memory sim_device_memory(int index);

/* Create DEV's primary context if there is none; false when it does not fit. Locked. */
bool sim_context_touch(int dev);
bool sim_context_active(int dev);

void sim_lock(void);
void sim_unlock(void);

/*
 * A limit of the host (mmap, descriptors, memory) was hit: print one line naming it and end with status 125.
 * It never becomes a CUDA error, because that would read as the program's own out-of-memory.
 */
_Noreturn void sim_host_limit(const char *what, const char *remedy);

/* malloc and calloc that end through sim_host_limit() instead of returning NULL. */
void *sim_alloc(size_t bytes);
void *sim_zalloc(size_t bytes);
void *sim_realloc(void *p, size_t bytes);

/* ---- launches, streams and the end of waiting (stream.c) ------------------------------------- */

/*
 * A kernel (or a library routine that would launch some) was launched on STREAM, a CUstream or cudaStream_t:
 * counts a node when the stream is capturing, a launch and 1 ms of model time otherwise.
 */
void sim_launch(void *stream);

/* Over 0 while this thread is in a synchronous call of the per-thread default stream (names that end in _ptds). */
extern __thread unsigned sim_uses_thread_stream;

/* Whether STREAM is capturing. */
bool sim_capturing(void *stream);

/* Add a kernel of a library to GRAPH, a CUgraph or cudaGraph_t, or with ADD false only look; false: it has none. */
bool sim_graph_library_kernel(void *graph, bool add);

/*
 * Called with true where a host thread waits for the device (synchronise) and with false where it only looks
 * (event and stream queries). NCCL completes its posted receives there. NULL by default.
 */
extern void (*sim_progress)(bool wait);

/*
 * Called before [P, P + BYTES) of device memory is read: receives posted into it must complete first, others
 * may not be waited for (the peer may be waiting for what this thread sends next). NULL by default.
 */
extern void (*sim_before_read)(const void *p, size_t bytes);

/*
 * Called before [P, P + BYTES) of device memory gets other contents or goes away: what was posted into it
 * earlier must not be written there any more. May be called with sim_lock() held. NULL by default.
 */
extern void (*sim_before_overwrite)(const void *p, size_t bytes);

/* ---- device memory contents (dirty.c, pointer.c) --------------------------------------------- */

/*
 * The host side wrote [P, P + BYTES) of device memory: it no longer reads 0 until it is handed out afresh, and
 * it is known to hold what it would hold on a GPU.
 */
void sim_dirty(const void *p, size_t bytes);

/* Say that [P, P + BYTES) holds what it would hold on a GPU, or that it may not: kernels would have written it. */
void sim_known(const void *p, size_t bytes, bool is_known);

/* Whether all of [P, P + BYTES) is known. */
bool sim_is_known(const void *p, size_t bytes);

/* BYTES were copied within device memory: DST is known where SRC is. The two do not overlap. */
void sim_known_copy(const void *dst, const void *src, size_t bytes);

/* [P, P + BYTES) is handed out afresh: what was dirty in it reads 0 again. */
void sim_fresh(void *p, size_t bytes);

/* Device of the block that contains P, or -1 when P is no device memory (host, pinned, unknown). */
int sim_pointer_device(const void *p);

/* ---- values that kernels would have computed (values.c) -------------------------------------- */

/* The process begins to use a device: if it is a Python program with PyTorch, compute small values from now on. */
void sim_values_start(void);

/*
 * The host reads BYTES that no one wrote. If what a kernel would have put there is expected, write it to DST, say
 * in *IS_KNOWN whether a GPU would have got the same, and return true.
 */
bool sim_values_answer(void *dst, size_t bytes, bool *is_known);

/* ---- unsupported functions (unsupported.c) --------------------------------------------------- */

/*
 * One per generated function, in the table sim_stubs (stub.h): name, times called, and whether saying "fine"
 * would have meant inventing a size, a handle or a pointer.
 */
struct sim_stub {
	const char *name;
	unsigned long calls;
	bool would_invent;
	bool unsupported;		/* false: a no-op by design */
};

/* Count one call of STUB; the first call of one that would have to invent something prints a line. */
void sim_stub_called(struct sim_stub *stub);

/* Count, as sim_stub_called(), a call that the function NAME, a constant, does not serve though it serves others. */
void sim_refuse(const char *name, bool would_invent);

/* ---- who listens to the simulation (listener.c; report.h has the other side) ----------------- */

/*
 * OWNER, a constant string, would have taken BYTES of DEV here, or given them back; the host read a value that
 * a kernel would have computed. Not to be called with sim_lock() held: the listener takes its own stack.
 */
bool sim_is_listening(void);
void sim_tell_modelled_alloc(int dev, const char *owner, uint64_t address, uint64_t bytes);
void sim_tell_modelled_free(int dev, const char *owner, uint64_t address, uint64_t bytes);
void sim_tell_modelled_refusal(int dev, const char *owner, uint64_t bytes);
void sim_tell_value_read(int dev, const void *p, size_t bytes);

/* ---- driver functions by name (symbol.c, over the table that gen_stubs.py writes) ------------ */

/* Address of the driver function NAME exactly as exported, or NULL. */
void *sim_symbol_address(const char *name);

/*
 * The exported name that PLAIN stands for in a program written for CUDA_VERSION: the newest that is not newer. NULL
 * when PLAIN has no versions (its exported name is PLAIN itself) or only newer ones.
 */
const char *sim_symbol_versioned(const char *plain, int cuda_version);

/* ---- the driver half as the runtime half sees it (runtime.c) --------------------------------- */

/* The driver's functions, by looked-up pointers (driver_table.h): sim_driver()->cuMemAlloc_v2(...). */
struct sim_driver;
const struct sim_driver *sim_driver(void);

/* Remember E as this thread's last runtime error unless it is success; returns E. */
cudaError_t sim_runtime_error(cudaError_t e);

#endif
