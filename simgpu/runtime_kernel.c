/* SPDX-License-Identifier: MIT */
/*
 * Kernels and variables of programs built by nvcc. They register at load time, PyTorch some 35,000 of them,
 * so registration only enters an address into a hash table; a library is loaded and a kernel named at its
 * first use.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "simgpu/callback.h"
#include "simgpu/runtime.h"

/* What __cudaRegisterFatBinary returns: a module of the program. */
struct binary {
	void *image;
	CUlibrary library;		/* NULL until a kernel of it is used */
};

struct symbol {
	const void *host;		/* the address the program knows it by; NULL: a free row */
	struct binary *binary;
	const char *name;
	size_t bytes;			/* of a variable; 0: a kernel */
	union {
		CUfunction function;		/* NULL until first used */
		CUdeviceptr *addresses;		/* by device; NULL until first used */
	};
};

static struct {
	struct symbol *rows;
	size_t nr, room;		/* room is a power of two */
} symbols;

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;

static struct symbol *slot(struct symbol *rows, size_t room, const void *host)
{
	size_t i = (size_t)(((uintptr_t)host >> 4) * 0x9e3779b97f4a7c15ULL >> 20) & (room - 1);

	while (rows[i].host && rows[i].host != host)
		i = (i + 1) & (room - 1);
	return &rows[i];
}

static void enter(const struct symbol *symbol)
{
	pthread_rwlock_wrlock(&lock);
	if (2 * symbols.nr >= symbols.room) {
		size_t room = symbols.room ? 2 * symbols.room : 1024;
		struct symbol *rows = sim_zalloc(room * sizeof(*rows));

		for (size_t i = 0; i < symbols.room; i++)
			if (symbols.rows[i].host)
				*slot(rows, room, symbols.rows[i].host) = symbols.rows[i];
		free(symbols.rows);
		symbols.rows = rows;
		symbols.room = room;
	}
	symbols.nr += !slot(symbols.rows, symbols.room, symbol->host)->host;
	*slot(symbols.rows, symbols.room, symbol->host) = *symbol;
	pthread_rwlock_unlock(&lock);
}

static bool find(const void *host, struct symbol *out)
{
	const struct symbol *row;

	pthread_rwlock_rdlock(&lock);
	row = symbols.room ? slot(symbols.rows, symbols.room, host) : NULL;
	if (row)
		*out = *row;
	pthread_rwlock_unlock(&lock);
	return host && row && out->host == host;
}

/* The driver's function for a kernel's host address. */
static cudaError_t function_of(const void *host, CUfunction *function)
{
	struct symbol symbol;
	CUkernel kernel = NULL;
	cudaError_t e = sim_runtime_context();

	if (e)
		return e;
	if (!find(host, &symbol) || symbol.bytes)
		return cudaErrorInvalidDeviceFunction;
	*function = symbol.function;
	if (symbol.function)
		return cudaSuccess;
	pthread_rwlock_wrlock(&lock);
	if (!symbol.binary->library)
		e = (cudaError_t)sim_driver()->cuLibraryLoadData(
		    &symbol.binary->library, symbol.binary->image, NULL, NULL, 0, NULL, NULL, 0);
	if (!e)
		e = (cudaError_t)sim_driver()->cuLibraryGetKernel(&kernel, symbol.binary->library,
								  symbol.name);
	if (!e)
		e = (cudaError_t)sim_driver()->cuKernelGetFunction(function, kernel);
	if (!e)
		slot(symbols.rows, symbols.room, host)->function = *function;
	pthread_rwlock_unlock(&lock);
	return e;
}

/* A kernel is named by its host address, by a handle, or, in graphs, by the driver's own function. */
cudaError_t sim_runtime_function(const void *host, CUfunction *function)
{
	cudaError_t e = function_of(host, function);

	if (e != cudaErrorInvalidDeviceFunction || !host || !sim_function_name((CUfunction)(uintptr_t)host))
		return e;
	*function = (CUfunction)(uintptr_t)host;
	return cudaSuccess;
}

const void *sim_runtime_host(CUfunction function)
{
	const void *host = NULL;

	pthread_rwlock_rdlock(&lock);
	for (size_t i = 0; i < symbols.room && !host; i++)
		if (symbols.rows[i].host && !symbols.rows[i].bytes && symbols.rows[i].function == function)
			host = symbols.rows[i].host;
	pthread_rwlock_unlock(&lock);
	return host ? host : function;
}

void sim_runtime_kernel(const void *handle, CUfunction function)
{
	enter(&(struct symbol){ .host = handle, .function = function });
}

const char *sim_kernel_name(const void *host)
{
	struct symbol symbol;

	if (!find(host, &symbol) || symbol.bytes)
		return NULL;
	return symbol.name ? symbol.name : sim_function_name(symbol.function);
}

/* ---- registration: what code compiled by nvcc calls ------------------------------------------ */

SIM_EXPORT void **__cudaRegisterFatBinary(void *image);
SIM_EXPORT void __cudaRegisterFatBinaryEnd(void **handle);
SIM_EXPORT void __cudaUnregisterFatBinary(void **handle);
SIM_EXPORT void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
				       int limit, void *tid, void *bid, void *block, void *grid, int *warp);
SIM_EXPORT void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int ext,
				  size_t bytes, int constant, int global);
SIM_EXPORT char __cudaInitModule(void **handle);
SIM_EXPORT unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream);
SIM_EXPORT cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);
SIM_EXPORT cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *host);
SIM_EXPORT cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args,
					  size_t shared, cudaStream_t stream);

void **__cudaRegisterFatBinary(void *image)
{
	struct binary *binary = sim_zalloc(sizeof(*binary));

	binary->image = image;
	return (void **)binary;
}

void __cudaRegisterFatBinaryEnd(void **handle)
{
	(void)handle;
}

/* Runs at exit or dlclose; threads of the program may still look its kernels up, so they stay. */
void __cudaUnregisterFatBinary(void **handle)
{
	(void)handle;
}

void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int limit,
			    void *tid, void *bid, void *block, void *grid, int *warp)
{
	struct symbol symbol = { .host = host, .binary = (struct binary *)handle, .name = name };

	(void)device;
	(void)limit;
	(void)tid;
	(void)bid;
	(void)block;
	(void)grid;
	(void)warp;
	enter(&symbol);
}

void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int ext, size_t bytes,
		       int constant, int global)
{
	struct symbol symbol = { .host = host, .binary = (struct binary *)handle, .name = name,
				 .bytes = bytes ? bytes : 1 };

	(void)device;
	(void)ext;
	(void)constant;
	(void)global;
	enter(&symbol);
}

char __cudaInitModule(void **handle)
{
	(void)handle;
	return 1;
}

/* ---- launches -------------------------------------------------------------------------------- */

/* The <<<>>> of a launch, from where it is written to the stub that launches: they nest only in template
 * code. */
static __thread struct configuration {
	dim3 grid, block;
	size_t shared;
	void *stream;
} configurations[16];

static __thread unsigned nr_configurations;

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream)
{
	if (nr_configurations == sizeof(configurations) / sizeof(*configurations))
		return cudaErrorMissingConfiguration;
	configurations[nr_configurations++] = (struct configuration){ grid, block, shared, stream };
	return cudaSuccess;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream)
{
	struct configuration *c;

	if (!nr_configurations)
		return sim_runtime_error(cudaErrorMissingConfiguration);
	c = &configurations[--nr_configurations];
	*grid = c->grid;
	*block = c->block;
	*shared = c->shared;
	*(void **)stream = c->stream;
	return cudaSuccess;
}

static cudaError_t launch(CUfunction function, dim3 grid, dim3 block, void **args, size_t shared,
			  cudaStream_t stream)
{
	CUresult ret = sim_driver()->cuLaunchKernel(function, grid.x, grid.y, grid.z, block.x, block.y,
						    block.z, (unsigned)shared, stream, args, NULL);

	return ret == CUDA_ERROR_INVALID_VALUE ? cudaErrorInvalidConfiguration : (cudaError_t)ret;
}

cudaError_t cudaLaunchKernel(const void *host, dim3 grid, dim3 block, void **args, size_t shared,
			     cudaStream_t stream)
{
	CUfunction function;
	cudaError_t e = function_of(host, &function);

	return sim_runtime_error(e ? e : launch(function, grid, block, args, shared, stream));
}

cudaError_t cudaLaunchCooperativeKernel(const void *host, dim3 grid, dim3 block, void **args, size_t shared,
					cudaStream_t stream)
{
	return cudaLaunchKernel(host, grid, block, args, shared, stream);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *c, const void *host, void **args)
{
	CUlaunchConfig config;
	CUfunction function;
	cudaError_t e;

	if (!c)
		return sim_runtime_error(cudaErrorInvalidConfiguration);
	e = function_of(host, &function);
	if (e)
		return sim_runtime_error(e);
	config = (CUlaunchConfig){ c->gridDim.x,  c->gridDim.y,	 c->gridDim.z,
				   c->blockDim.x, c->blockDim.y, c->blockDim.z, (unsigned)c->dynamicSmemBytes,
				   c->stream,	  (CUlaunchAttribute *)c->attrs, c->numAttrs };
	e = (cudaError_t)sim_driver()->cuLaunchKernelEx(&config, function, args, NULL);
	return sim_runtime_error(e == cudaErrorInvalidValue ? cudaErrorInvalidConfiguration : e);
}

cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *host)
{
	return sim_runtime_error(function_of(host, (CUfunction *)kernel));
}

cudaError_t cudaGetKernel(cudaKernel_t *kernel, const void *host)
{
	return __cudaGetKernel(kernel, host);
}

cudaError_t cudaGetFuncBySymbol(cudaFunction_t *function, const void *host)
{
	return sim_runtime_error(function_of(host, function));
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared,
			       cudaStream_t stream)
{
	cudaError_t e = sim_runtime_context();

	return sim_runtime_error(e ? e : launch((CUfunction)kernel, grid, block, args, shared, stream));
}

/* ---- attributes and occupancy ---------------------------------------------------------------- */

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *out, const void *host)
{
	CUfunction f;
	cudaError_t e = function_of(host, &f);

	if (!e && !out)
		e = cudaErrorInvalidValue;
	if (e)
		return sim_runtime_error(e);
	memset(out, 0, sizeof(*out));
	sim_driver()->cuFuncGetAttribute(&out->maxThreadsPerBlock, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
					 f);
	sim_driver()->cuFuncGetAttribute(&out->numRegs, CU_FUNC_ATTRIBUTE_NUM_REGS, f);
	sim_driver()->cuFuncGetAttribute(&out->ptxVersion, CU_FUNC_ATTRIBUTE_PTX_VERSION, f);
	sim_driver()->cuFuncGetAttribute(&out->binaryVersion, CU_FUNC_ATTRIBUTE_BINARY_VERSION, f);
	sim_driver()->cuFuncGetAttribute(&out->maxDynamicSharedSizeBytes,
					 CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, f);
	sim_driver()->cuFuncGetAttribute(&out->preferredShmemCarveout,
					 CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, f);
	return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void *host, enum cudaFuncAttribute attribute, int value)
{
	CUfunction f;
	cudaError_t e = function_of(host, &f);

	return sim_runtime_error(e ? e : (cudaError_t)sim_driver()->cuFuncSetAttribute(
						 f, (CUfunction_attribute)attribute, value));
}

cudaError_t cudaFuncGetName(const char **name, const void *host)
{
	CUfunction f;
	cudaError_t e = function_of(host, &f);

	return sim_runtime_error(e ? e : (cudaError_t)sim_driver()->cuFuncGetName(name, f));
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *host,
								   int block_size, size_t shared,
								   unsigned int flags)
{
	CUfunction f;
	cudaError_t e = function_of(host, &f);

	return sim_runtime_error(
	    e ? e
	      : (cudaError_t)sim_driver()->cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
		    blocks, f, block_size, shared, flags));
}

cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, const void *host, int blocks, int block_size)
{
	CUfunction f;
	cudaError_t e = function_of(host, &f);

	return e ? sim_runtime_error(e)
		 : RUNTIME(cuOccupancyAvailableDynamicSMemPerBlock(bytes, f, blocks, block_size));
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *host, int block_size,
							  size_t shared)
{
	return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, host, block_size, shared, 0);
}

cudaError_t cudaOccupancyMaxActiveClusters(int *clusters, const void *host, const cudaLaunchConfig_t *c)
{
	CUlaunchConfig config = { 0 };
	CUfunction f;
	cudaError_t e = function_of(host, &f);

	if (!e && !c)
		e = cudaErrorInvalidValue;
	if (e)
		return sim_runtime_error(e);
	config.attrs = (CUlaunchAttribute *)c->attrs;
	config.numAttrs = c->numAttrs;
	return sim_runtime_error(
	    (cudaError_t)sim_driver()->cuOccupancyMaxActiveClusters(clusters, f, &config));
}

/* ---- variables ------------------------------------------------------------------------------- */

cudaError_t cudaGetSymbolAddress(void **address, const void *host)
{
	struct symbol symbol;
	CUdeviceptr *addresses;
	int device = 0;
	cudaError_t e = sim_runtime_context();

	if (!e && (!address || !find(host, &symbol) || !symbol.bytes))
		e = cudaErrorInvalidSymbol;
	if (!e)
		e = cudaGetDevice(&device);
	if (e)
		return sim_runtime_error(e);
	pthread_rwlock_wrlock(&lock);
	addresses = slot(symbols.rows, symbols.room, host)->addresses;
	if (!addresses) {
		addresses = sim_zalloc(SIM_MAX_DEVICES * sizeof(*addresses));
		slot(symbols.rows, symbols.room, host)->addresses = addresses;
	}
	if (!addresses[device])
		addresses[device] = sim_global_alloc(device, symbol.bytes);
	*address = (void *)addresses[device];
	pthread_rwlock_unlock(&lock);
	return cudaSuccess;
}

cudaError_t cudaGetSymbolSize(size_t *bytes, const void *host)
{
	struct symbol symbol;

	if (!bytes || !find(host, &symbol) || !symbol.bytes)
		return sim_runtime_error(cudaErrorInvalidSymbol);
	*bytes = symbol.bytes;
	return cudaSuccess;
}

cudaError_t cudaMemcpyToSymbolAsync(const void *host, const void *src, size_t bytes, size_t offset,
				    enum cudaMemcpyKind kind, cudaStream_t stream)
{
	void *address;
	cudaError_t e = cudaGetSymbolAddress(&address, host);

	return e ? e : cudaMemcpyAsync((char *)address + offset, src, bytes, kind, stream);
}

cudaError_t cudaMemcpyToSymbol(const void *host, const void *src, size_t bytes, size_t offset,
			       enum cudaMemcpyKind kind)
{
	void *address;
	cudaError_t e = cudaGetSymbolAddress(&address, host);

	return e ? e : cudaMemcpy((char *)address + offset, src, bytes, kind);
}

cudaError_t cudaMemcpyFromSymbolAsync(void *dst, const void *host, size_t bytes, size_t offset,
				      enum cudaMemcpyKind kind, cudaStream_t stream)
{
	void *address;
	cudaError_t e = cudaGetSymbolAddress(&address, host);

	return e ? e : cudaMemcpyAsync(dst, (char *)address + offset, bytes, kind, stream);
}

cudaError_t cudaMemcpyFromSymbol(void *dst, const void *host, size_t bytes, size_t offset,
				 enum cudaMemcpyKind kind)
{
	void *address;
	cudaError_t e = cudaGetSymbolAddress(&address, host);

	return e ? e : cudaMemcpy(dst, (char *)address + offset, bytes, kind);
}
