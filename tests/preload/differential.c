/* SPDX-License-Identifier: MIT */
/*
 * Random calls of the driver and the runtime, valid and not, by several threads. usage: differential SEED CALLS THREADS
 *
 * Prints one line per call with all that the program can see of it but addresses, and last, as JSON, what a ledger of
 * these calls must say. The same arguments print the same lines, whoever watches.
 */
#define __CUDA_API_VERSION_INTERNAL 1
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((size_t)1 << 20)
#define THREADS_MAX 16
#define OBJECTS 64
#define POISON 0xa5a5a5a5a5a5a5a5ull
#define SENTINEL 4242 /* errno before each call */

enum kind { EMPTY, LINEAR, MANAGED, PINNED, REGISTERED, POOLED, ARRAY, MIPMAPPED, RANGE, HANDLE, MAPPING };
enum ledger { DEVICE_LEDGER, MANAGED_LEDGER, PINNED_LEDGER, NR_LEDGERS };

struct object {
	enum kind kind;
	uint64_t address;
	size_t bytes;
	struct object *handle; /* of a mapping */
	struct object *range;  /* of a mapping */
	unsigned references;   /* of a handle: physical memory lives while there are any */
	unsigned mappings;     /* of a handle or a range */
};

struct worker {
	pthread_t thread;
	uint64_t random;
	unsigned nr_calls;
	CUcontext context;
	CUstream stream;
	CUmemoryPool pool;
	struct object object[OBJECTS];
	FILE *log;
	char *text;
	size_t text_bytes;
	char *host; /* memory to register */
};

/* What a ledger must say; exact at any time with one thread, at the end with several. */
static pthread_mutex_t books_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	uint64_t live, peak;
} books[NR_LEDGERS];

static uint64_t draw(struct worker *w, uint64_t below)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return w->random % below;
}

/* Host memory and address space are the machine's: asked too much of, a simulated device ends the program. */
static size_t on_host(size_t bytes)
{
	return bytes < 64 * MIB ? bytes : 64 * MIB;
}

static size_t draw_bytes(struct worker *w)
{
	static const size_t bytes[] = { 0,	  1,	   511,	    512,     4097,     MIB - 1,	     MIB,
					2 * MIB, 3 * MIB + 5, 20 * MIB, 64 * MIB, 1ull << 50, SIZE_MAX };

	return bytes[draw(w, draw(w, 8) ? 10 : sizeof(bytes) / sizeof(*bytes))];
}

static void enter(enum ledger l, size_t bytes)
{
	pthread_mutex_lock(&books_lock);
	books[l].live += bytes;
	if (books[l].live > books[l].peak)
		books[l].peak = books[l].live;
	pthread_mutex_unlock(&books_lock);
}

static void leave(enum ledger l, size_t bytes)
{
	pthread_mutex_lock(&books_lock);
	books[l].live -= bytes;
	pthread_mutex_unlock(&books_lock);
}

static enum ledger ledger_of(enum kind kind)
{
	if (kind == MANAGED)
		return MANAGED_LEDGER;
	return kind == PINNED || kind == REGISTERED ? PINNED_LEDGER : DEVICE_LEDGER; /* pinned: page-locked */
}

static bool is_in_ledger(enum kind kind)
{
	return kind != RANGE && kind != MAPPING;
}

/* ---- the ways by which programs reach a function ------------------------------------------------ */

/* By the linker, by dlsym of the driver, by cuGetProcAddress at this version: all must be the same function. */
static void *reach(struct worker *w, void *linked, const char *symbol, const char *base, int version)
{
	void *found = NULL;

	switch (draw(w, 3)) {
	case 0:
		return dlsym(dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD), symbol);
	case 1:
		if (base && !cuGetProcAddress_v2(base, &found, version, 0, NULL) && found)
			return found;
		return linked;
	default:
		return linked;
	}
}
#define REACH(fn, base, version) ((__typeof__(&fn))reach(w, (void *)fn, #fn, base, version))

/* What the program sees of a call: its result, errno, and whether the out parameter was written. */
static void say(struct worker *w, const char *name, int result, bool wrote, size_t detail)
{
	fprintf(w->log, "%s %d errno %d %s %zu\n", name, result, errno == SENTINEL ? 0 : errno,
		wrote ? "written" : "untouched", detail);
}

static struct object *pick(struct worker *w, enum kind kind)
{
	unsigned at = (unsigned)draw(w, OBJECTS);

	for (unsigned i = 0; i < OBJECTS; i++) {
		struct object *o = &w->object[(at + i) % OBJECTS];

		if (o->kind == kind)
			return o;
	}
	return NULL;
}

static void keep(struct object *o, enum kind kind, uint64_t address, size_t bytes)
{
	*o = (struct object){ .kind = kind, .address = address, .bytes = bytes, .references = 1 };
	if (is_in_ledger(kind))
		enter(ledger_of(kind), bytes);
}

/* ---- allocations --------------------------------------------------------------------------------- */

static void alloc(struct worker *w, struct object *o)
{
	size_t bytes = draw_bytes(w), pitch = 0, rows = 1 + draw(w, 100);
	bool null = draw(w, 40) == 0;
	enum kind kind = LINEAR;
	CUdeviceptr p = POISON;
	const char *name;
	int result;

	errno = SENTINEL;
	switch (draw(w, 8)) {
	case 0:
		name = "cuMemAlloc_v2";
		result = REACH(cuMemAlloc_v2, "cuMemAlloc", 3020)(null ? NULL : &p, bytes);
		break;
	case 1:
		name = "cudaMalloc";
		result = (int)cudaMalloc(null ? NULL : (void **)&p, bytes);
		break;
	case 2:
		name = "cuMemAllocPitch_v2";
		bytes = bytes < MIB ? bytes : MIB;
		result = REACH(cuMemAllocPitch_v2, "cuMemAllocPitch", 3020)(&p, &pitch, bytes, rows, 4);
		bytes = pitch * rows;
		null = false;
		break;
	case 3:
		name = "cudaMallocPitch";
		bytes = bytes < MIB ? bytes : MIB;
		result = (int)cudaMallocPitch((void **)&p, &pitch, bytes, rows);
		bytes = pitch * rows;
		null = false;
		break;
	case 4:
		name = "cuMemAllocManaged";
		kind = MANAGED;
		bytes = on_host(bytes);
		result = REACH(cuMemAllocManaged, "cuMemAllocManaged", 6000)(null ? NULL : &p, bytes,
									      draw(w, 9) ? CU_MEM_ATTACH_GLOBAL : 77);
		break;
	case 5:
		name = "cudaMallocManaged";
		kind = MANAGED;
		bytes = on_host(bytes);
		result = (int)cudaMallocManaged(null ? NULL : (void **)&p, bytes, cudaMemAttachGlobal);
		break;
	case 6:
		name = "cuMemHostAlloc";
		kind = PINNED;
		bytes = on_host(bytes);
		result = REACH(cuMemHostAlloc, "cuMemHostAlloc", 2020)(null ? NULL : (void **)&p, bytes, 0);
		break;
	default:
		name = "cudaMallocHost";
		kind = PINNED;
		bytes = on_host(bytes);
		result = (int)cudaMallocHost(null ? NULL : (void **)&p, bytes);
		break;
	}
	say(w, name, result, p != POISON, result ? 0 : bytes);
	if (!result && p && p != POISON)
		keep(o, kind, p, bytes);
	cudaGetLastError();
}

static void alloc_pooled(struct worker *w, struct object *o)
{
	size_t bytes = draw_bytes(w);
	CUdeviceptr p = POISON;
	const char *name;
	int result;

	errno = SENTINEL;
	switch (draw(w, 4)) {
	case 0:
		name = "cuMemAllocAsync";
		result = REACH(cuMemAllocAsync, "cuMemAllocAsync", 11020)(&p, bytes, w->stream);
		break;
	case 1:
		name = "cuMemAllocFromPoolAsync";
		result = REACH(cuMemAllocFromPoolAsync, "cuMemAllocFromPoolAsync", 11020)(&p, bytes, w->pool,
											    w->stream);
		break;
	case 2:
		name = "cudaMallocAsync";
		result = (int)cudaMallocAsync((void **)&p, bytes, (cudaStream_t)w->stream);
		break;
	default:
		name = "cudaMallocFromPoolAsync";
		result = (int)cudaMallocFromPoolAsync((void **)&p, bytes, (cudaMemPool_t)w->pool,
						      (cudaStream_t)w->stream);
		break;
	}
	say(w, name, result, p != POISON, bytes);
	if (!result && p && p != POISON)
		keep(o, POOLED, p, bytes);
	cudaGetLastError();
}

static void alloc_array(struct worker *w, struct object *o)
{
	CUDA_ARRAY_DESCRIPTOR plane = { 1 + draw(w, 500), draw(w, 300), CU_AD_FORMAT_FLOAT, draw(w, 9) ? 4 : 7 };
	CUDA_ARRAY3D_DESCRIPTOR solid = { plane.Width, plane.Height, draw(w, 20), CU_AD_FORMAT_FLOAT, 1, 0 };
	size_t elements = solid.Width * (solid.Height ? solid.Height : 1);
	CUarray array = (CUarray)POISON;
	const char *name;
	int result;

	errno = SENTINEL;
	if (draw(w, 2)) {
		name = "cuArrayCreate_v2";
		result = REACH(cuArrayCreate_v2, "cuArrayCreate", 3020)(&array, &plane);
		elements *= plane.NumChannels;
	} else {
		name = "cuArray3DCreate_v2";
		result = REACH(cuArray3DCreate_v2, "cuArray3DCreate", 3020)(&array, &solid);
		elements *= solid.Depth ? solid.Depth : 1;
	}
	say(w, name, result, array != (CUarray)POISON, elements);
	/* The driver does not tell what an ordinary array takes: the elements, then. */
	if (!result)
		keep(o, ARRAY, (uintptr_t)array, elements * sizeof(float));
}

static void register_host(struct worker *w, struct object *o)
{
	size_t at = draw(w, 16) * 65536, bytes = draw(w, 6) ? 65536 : 0;
	const char *name = "cuMemHostRegister_v2";
	int result;

	errno = SENTINEL;
	if (draw(w, 2)) {
		result = REACH(cuMemHostRegister_v2, "cuMemHostRegister", 6050)(w->host + at, bytes, 0);
	} else {
		name = "cudaHostRegister";
		result = (int)cudaHostRegister(w->host + at, bytes, 0);
	}
	say(w, name, result, false, bytes);
	if (!result)
		keep(o, REGISTERED, (uintptr_t)w->host + at, bytes);
	cudaGetLastError();
}

/* ---- virtual memory ------------------------------------------------------------------------------- */

static void create_handle(struct worker *w, struct object *o)
{
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = draw(w, 9) ? 0 : 99 } };
	size_t bytes = draw(w, 8) ? 2 * MIB * (1 + draw(w, 8)) : draw_bytes(w);
	CUmemGenericAllocationHandle handle = POISON;
	int result;

	errno = SENTINEL;
	result = REACH(cuMemCreate, "cuMemCreate", 10020)(&handle, bytes, &prop, 0);
	say(w, "cuMemCreate", result, handle != POISON, bytes);
	if (!result)
		keep(o, HANDLE, handle, bytes);
}

static void reserve_range(struct worker *w, struct object *o)
{
	size_t bytes = draw(w, 8) ? 2 * MIB * (1 + draw(w, 16)) : on_host(draw_bytes(w));
	CUdeviceptr p = POISON;
	int result;

	errno = SENTINEL;
	result = REACH(cuMemAddressReserve, "cuMemAddressReserve", 10020)(&p, bytes, 0, 0, 0);
	say(w, "cuMemAddressReserve", result, p != POISON, bytes);
	if (!result)
		keep(o, RANGE, p, bytes);
}

static void map_handle(struct worker *w, struct object *o)
{
	struct object *handle = pick(w, HANDLE), *range = pick(w, RANGE);
	int result;

	if (!handle || !range || !handle->references)
		return;
	errno = SENTINEL;
	result = REACH(cuMemMap, "cuMemMap", 10020)(range->address, handle->bytes, 0, handle->address, 0);
	say(w, "cuMemMap", result, false, handle->bytes);
	if (result)
		return;
	keep(o, MAPPING, range->address, handle->bytes);
	o->handle = handle;
	o->range = range;
	handle->mappings++;
	range->mappings++;
}

/* Physical memory goes with the last reference and the last mapping; the object, once nothing names it. */
static void put_handle(struct object *handle)
{
	if (handle->references || handle->mappings)
		return;
	leave(DEVICE_LEDGER, handle->bytes);
	handle->kind = EMPTY;
}

static void unmap(struct worker *w)
{
	struct object *mapping = pick(w, MAPPING), *range = pick(w, RANGE);
	bool valid = mapping && draw(w, 5);
	int result;

	if (!valid && (!range || range->mappings))
		return;
	errno = SENTINEL;
	result = REACH(cuMemUnmap, "cuMemUnmap", 10020)(valid ? mapping->address : range->address,
						       valid ? mapping->bytes : 2 * MIB);
	say(w, "cuMemUnmap", result, false, 0);
	if (result || !valid)
		return;
	mapping->kind = EMPTY;
	mapping->range->mappings--;
	mapping->handle->mappings--;
	put_handle(mapping->handle);
}

static void retain_handle(struct worker *w)
{
	struct object *mapping = pick(w, MAPPING);
	CUmemGenericAllocationHandle handle = POISON;
	int result;

	errno = SENTINEL;
	result = REACH(cuMemRetainAllocationHandle, "cuMemRetainAllocationHandle", 11000)(
		&handle, mapping ? (void *)mapping->address : (void *)0x1000);
	say(w, "cuMemRetainAllocationHandle", result, handle != POISON, mapping && handle == mapping->handle->address);
	if (!result && mapping)
		mapping->handle->references++;
}

static void release_handle(struct worker *w)
{
	struct object *handle = pick(w, HANDLE);
	int result;

	if (!handle || !handle->references)
		return;
	errno = SENTINEL;
	result = REACH(cuMemRelease, "cuMemRelease", 10020)(handle->address);
	say(w, "cuMemRelease", result, false, 0);
	if (result)
		return;
	handle->references--;
	put_handle(handle);
}

/* ---- frees ------------------------------------------------------------------------------------------ */

static int free_object(struct worker *w, struct object *o, const char **name)
{
	bool runtime = draw(w, 2);

	switch (o->kind) {
	case LINEAR:
	case MANAGED:
	case POOLED:
		if (o->kind == POOLED && draw(w, 2)) {
			*name = runtime ? "cudaFreeAsync" : "cuMemFreeAsync";
			return runtime ? (int)cudaFreeAsync((void *)o->address, (cudaStream_t)w->stream)
				       : (int)REACH(cuMemFreeAsync, "cuMemFreeAsync", 11020)(o->address, w->stream);
		}
		*name = runtime ? "cudaFree" : "cuMemFree_v2";
		return runtime ? (int)cudaFree((void *)o->address)
			       : (int)REACH(cuMemFree_v2, "cuMemFree", 3020)(o->address);
	case PINNED:
		*name = runtime ? "cudaFreeHost" : "cuMemFreeHost";
		return runtime ? (int)cudaFreeHost((void *)o->address)
			       : (int)REACH(cuMemFreeHost, "cuMemFreeHost", 2000)((void *)o->address);
	case REGISTERED:
		*name = runtime ? "cudaHostUnregister" : "cuMemHostUnregister";
		return runtime ? (int)cudaHostUnregister((void *)o->address)
			       : (int)REACH(cuMemHostUnregister, "cuMemHostUnregister", 4000)((void *)o->address);
	case ARRAY:
		*name = "cuArrayDestroy";
		return (int)REACH(cuArrayDestroy, "cuArrayDestroy", 2000)((CUarray)o->address);
	case RANGE:
		*name = "cuMemAddressFree";
		return (int)REACH(cuMemAddressFree, "cuMemAddressFree", 10020)(o->address, o->bytes);
	default:
		return -1;
	}
}

static void free_something(struct worker *w)
{
	static const enum kind kinds[] = { LINEAR, LINEAR, MANAGED, PINNED, REGISTERED, POOLED, POOLED, ARRAY, RANGE };
	struct object *o = pick(w, kinds[draw(w, sizeof(kinds) / sizeof(*kinds))]);
	const char *name = "";
	int result;

	if (!o || (o->kind == RANGE && o->mappings))
		return;
	errno = SENTINEL;
	result = free_object(w, o, &name);
	say(w, name, result, false, 0);
	if (!result) {
		if (is_in_ledger(o->kind))
			leave(ledger_of(o->kind), o->bytes);
		o->kind = EMPTY;
	}
	cudaGetLastError();
}

/* Frees of what was never allocated: refused, and the ledger stays as it was. */
static void free_nothing(struct worker *w)
{
	const uint64_t wrong[] = { 0, 0x1000, (uintptr_t)w->host + 3 * 65536 + 16 };
	uint64_t address = wrong[draw(w, 3)];
	const char *name;
	int result;

	errno = SENTINEL;
	switch (draw(w, 5)) {
	case 0:
		name = "cuMemFree_v2";
		result = REACH(cuMemFree_v2, "cuMemFree", 3020)(address);
		break;
	case 1:
		name = "cudaFree";
		result = (int)cudaFree((void *)address);
		break;
	case 2:
		name = "cuMemFreeHost";
		result = REACH(cuMemFreeHost, "cuMemFreeHost", 2000)((void *)address);
		break;
	case 3:
		name = "cuMemFreeAsync";
		result = REACH(cuMemFreeAsync, "cuMemFreeAsync", 11020)(address, w->stream);
		break;
	default:
		name = "cuMemRelease";
		result = REACH(cuMemRelease, "cuMemRelease", 10020)(0);
		break;
	}
	say(w, name, result, false, 0);
	cudaGetLastError();
}

/* ---- threads ------------------------------------------------------------------------------------------ */

static void one_call(struct worker *w)
{
	static void (*const make[])(struct worker *, struct object *) = {
		alloc, alloc, alloc, alloc_pooled, alloc_array, register_host, create_handle, reserve_range, map_handle,
	};
	static void (*const end[])(struct worker *) = {
		free_something, free_something, free_something, free_something,
		free_something, unmap,		retain_handle,	release_handle,
		free_nothing,
	};
	struct object *o = pick(w, EMPTY);

	if (o && draw(w, 2))
		make[draw(w, sizeof(make) / sizeof(*make))](w, o);
	else
		end[draw(w, sizeof(end) / sizeof(*end))](w);
}

static void *work(void *arg)
{
	struct worker *w = arg;
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				 .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 } };

	if (cuCtxSetCurrent(w->context) || cuStreamCreate(&w->stream, 0) || cuMemPoolCreate(&w->pool, &props))
		abort();
	for (unsigned i = 0; i < w->nr_calls; i++)
		one_call(w);
	return NULL;
}

int main(int argc, char **argv)
{
	static struct worker worker[THREADS_MAX];
	unsigned nr_threads = argc > 3 ? (unsigned)atoi(argv[3]) : 1;
	CUcontext context;

	if (argc < 4 || nr_threads < 1 || nr_threads > THREADS_MAX || cuInit(0) ||
	    cuDevicePrimaryCtxRetain(&context, 0))
		return 2;
	for (unsigned i = 0; i < nr_threads; i++) {
		struct worker *w = &worker[i];

		w->random = 0x9e3779b97f4a7c15u * (strtoull(argv[1], NULL, 10) * THREADS_MAX + i + 1);
		w->nr_calls = (unsigned)atoi(argv[2]) / nr_threads;
		w->context = context;
		w->host = aligned_alloc(65536, 16 * 65536);
		w->log = open_memstream(&w->text, &w->text_bytes);
		if (pthread_create(&w->thread, NULL, work, w))
			return 2;
	}
	for (unsigned i = 0; i < nr_threads; i++) {
		pthread_join(worker[i].thread, NULL);
		fclose(worker[i].log);
		fwrite(worker[i].text, 1, worker[i].text_bytes, stdout);
	}
	printf("{\"live\": %" PRIu64 ", \"peak\": %" PRIu64 ", \"managed_peak\": %" PRIu64 ", \"pinned_peak\": %" PRIu64
	       "}\n",
	       books[DEVICE_LEDGER].live, books[DEVICE_LEDGER].peak, books[MANAGED_LEDGER].peak,
	       books[PINNED_LEDGER].peak);
	return 0;
}
