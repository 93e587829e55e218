/* SPDX-License-Identifier: MIT */
/* The runtime half's start: finding the driver, initialising it, and the last error of each thread. */
#include <dlfcn.h>
#include <pthread.h>

#include "simgpu/runtime.h"

static struct sim_driver table;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static cudaError_t init_error;
static __thread cudaError_t last_error;

typedef CUresult get_fn(const char *name, void **function, int version, cuuint64_t flags,
			CUdriverProcAddressQueryResult *status);

/* The order of the real runtime: the library, one dlsym, a probe, itself by its own lookup, then the rest. */
static void look_up(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW), *probe, *self = NULL;
	get_fn *get = driver ? (get_fn *)dlsym(driver, "cuGetProcAddress_v2") : NULL;
	CUresult ret = CUDA_SUCCESS;

	init_error = cudaErrorInsufficientDriver;
	if (!get)
		return;
	get("", &probe, 0, 0, NULL);
	get("cuInit", (void **)&table.cuInit, 2000, 0, NULL);
	get("cuGetProcAddress", &self, 11030, 0, NULL);
	if (!get("cuGetProcAddress", &self, 12000, 0, NULL) && self)
		get = (get_fn *)self;
#define DRIVER(name, version, flags, symbol)                                                       \
	if (!ret)                                                                                  \
		ret = get(name, (void **)&table.symbol, version, flags, NULL);
#include "simgpu/driver_table.def"
#undef DRIVER
	if (!ret)
		init_error = (cudaError_t)table.cuInit(0);
}

cudaError_t sim_runtime_init(void)
{
	pthread_once(&once, look_up);
	return init_error;
}

const struct sim_driver *sim_driver(void)
{
	pthread_once(&once, look_up);
	return &table;
}

cudaError_t sim_runtime_error(cudaError_t e)
{
	if (e)
		last_error = e;
	return e;
}

cudaError_t cudaGetLastError(void)
{
	cudaError_t e = last_error;

	last_error = cudaSuccess;
	return e;
}

cudaError_t cudaPeekAtLastError(void)
{
	return last_error;
}

/* What the program was built for: a CUDA 12 program has that runtime loaded, and never entered. */
cudaError_t cudaRuntimeGetVersion(int *version)
{
	static int known;
	void *twelve;

	if (!version)
		return sim_runtime_error(cudaErrorInvalidValue);
	if (!known) {
		twelve = dlopen("libcudart.so.12", RTLD_NOLOAD | RTLD_LAZY);
		known = twelve ? 12080 : CUDART_VERSION;
		if (twelve)
			dlclose(twelve);
	}
	*version = known;
	return cudaSuccess;
}

bool sim_runtime_is_twelve(void)
{
	int version = CUDART_VERSION;

	cudaRuntimeGetVersion(&version);
	return version < 13000;
}

cudaError_t cudaDriverGetVersion(int *version)
{
	cudaError_t e = sim_runtime_init();

	/* As documented: without a driver or a device the version is still an answer. */
	if (e == cudaErrorInsufficientDriver && version)
		*version = 0;
	return e && e != cudaErrorNoDevice
		   ? sim_runtime_error(e)
		   : sim_runtime_error((cudaError_t)table.cuDriverGetVersion(version));
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned int version,
					     unsigned long long flags,
					     enum cudaDriverEntryPointQueryResult *status)
{
	CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	cudaError_t e = sim_runtime_init();
	static get_fn *get;

	if (e == cudaErrorInsufficientDriver || !name || !function)
		return sim_runtime_error(e ? e : cudaErrorInvalidValue);
	if (!get) {
		void *driver = dlopen("libcuda.so.1", RTLD_NOW);
		get_fn *first = (get_fn *)dlsym(driver, "cuGetProcAddress_v2");
		void *self = NULL;

		get = !first("cuGetProcAddress", &self, 12000, 0, NULL) && self ? (get_fn *)self : first;
	}
	*function = NULL;
	get(name, function, (int)version, flags, &found);
	if (status)
		*status = (enum cudaDriverEntryPointQueryResult)found;
	return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPoint(const char *name, void **function, unsigned long long flags,
				    enum cudaDriverEntryPointQueryResult *status)
{
	int version = CUDART_VERSION;

	cudaRuntimeGetVersion(&version);
	return cudaGetDriverEntryPointByVersion(name, function, (unsigned)version, flags, status);
}
