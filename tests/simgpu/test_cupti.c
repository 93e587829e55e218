/* SPDX-License-Identifier: MIT */
/* CUPTI on the simulated GPU: callbacks around calls, objects made and destroyed, records of memory. */
#define __CUDA_API_VERSION_INTERNAL 1
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <cupti_result.h>
#include <cupti_version.h>
#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <cupti_driver_cbid.h>
#include <cupti_runtime_cbid.h>
#include <generated_cuda_meta.h>
#include <generated_cuda_runtime_api_meta.h>

#define MIB(n) ((size_t)(n) << 20)
#define MOST 64

/* What the subscriber was told, in order. */
struct told {
	CUpti_CallbackDomain domain;
	CUpti_CallbackId cbid;
	CUpti_ApiCallbackSite site;
	uint32_t correlation;
	uint64_t data;
	int result;
	size_t bytes;
	const void *address, *stream;
	uint32_t module;
	char name[48], symbol[48];
};

static struct told told[MOST];
static unsigned nr_told;
static bool calls_from_callback;

static void note_call(struct told *t, const CUpti_CallbackData *data)
{
	t->site = data->callbackSite;
	t->correlation = data->correlationId;
	strncpy(t->name, data->functionName, sizeof(t->name) - 1);
	if (data->symbolName)
		strncpy(t->symbol, data->symbolName, sizeof(t->symbol) - 1);
	if (t->site == CUPTI_API_ENTER)
		*data->correlationData = 1000 + nr_told;
	else
		t->result = *(const int *)data->functionReturnValue;
	t->data = *data->correlationData;
	if (t->domain == CUPTI_CB_DOMAIN_RUNTIME_API && t->cbid == CUPTI_RUNTIME_TRACE_CBID_cudaMalloc_v3020) {
		const cudaMalloc_v3020_params *p = data->functionParams;

		t->bytes = p->size;
		t->address = t->site == CUPTI_API_EXIT ? *p->devPtr : NULL;
	}
	if (t->domain == CUPTI_CB_DOMAIN_DRIVER_API && t->cbid == CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2) {
		const cuMemAlloc_v2_params *p = data->functionParams;

		t->bytes = p->bytesize;
	}
}

static void note_resource(struct told *t, const CUpti_ResourceData *data)
{
	const CUpti_ModuleResourceData *module = data->resourceDescriptor;

	t->stream = data->resourceHandle.stream;
	t->address = data->context;
	if (t->cbid == CUPTI_CBID_RESOURCE_MODULE_LOADED || t->cbid == CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING) {
		t->module = module->moduleId;
		t->bytes = module->cubinSize;
	}
}

static void note(void *userdata, CUpti_CallbackDomain domain, CUpti_CallbackId cbid, const void *data)
{
	struct told *t = &told[nr_told];
	size_t available, total;

	assert_ptr_equal(userdata, told);
	assert_true(nr_told < MOST);
	memset(t, 0, sizeof(*t));
	t->domain = domain;
	t->cbid = cbid;
	if (domain == CUPTI_CB_DOMAIN_DRIVER_API || domain == CUPTI_CB_DOMAIN_RUNTIME_API)
		note_call(t, data);
	else if (domain == CUPTI_CB_DOMAIN_RESOURCE)
		note_resource(t, data);
	nr_told++;
	if (calls_from_callback)
		assert_int_equal(cudaMemGetInfo(&available, &total), cudaSuccess);
}

static CUpti_SubscriberHandle subscribe(void)
{
	CUpti_SubscriberHandle handle = NULL;

	assert_int_equal(cuptiSubscribe(&handle, note, told), CUPTI_SUCCESS);
	nr_told = 0;
	return handle;
}

static void one_subscriber_at_a_time(void **state)
{
	CUpti_SubscriberHandle first = subscribe(), second = NULL;
	uint32_t enabled = 7;

	(void)state;
	assert_int_equal(cuptiSubscribe(&second, note, NULL), CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
	assert_null(second);
	assert_int_equal(cuptiEnableCallback(1, first, CUPTI_CB_DOMAIN_RUNTIME_API, 100000),
			 CUPTI_ERROR_INVALID_PARAMETER);
	assert_int_equal(cuptiGetCallbackState(&enabled, first, CUPTI_CB_DOMAIN_DRIVER_API,
					       CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2), CUPTI_SUCCESS);
	assert_int_equal(enabled, 0);
	assert_int_equal(cuptiUnsubscribe(first), CUPTI_SUCCESS);
	assert_int_equal(cuptiUnsubscribe(first), CUPTI_ERROR_INVALID_PARAMETER);
	assert_int_equal(cuptiEnableDomain(1, first, CUPTI_CB_DOMAIN_RUNTIME_API), CUPTI_ERROR_INVALID_PARAMETER);
	second = subscribe();
	assert_int_equal(cuptiUnsubscribe(second), CUPTI_SUCCESS);
}

static void names_of_the_holder(void **state)
{
	char holder[CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN] = "";
	CUpti_SubscriberParams params = { .structSize = CUpti_SubscriberParams_STRUCT_SIZE,
					  .subscriberName = "a test" };
	CUpti_SubscriberHandle first, second;
	const char *name;

	(void)state;
	assert_int_equal(cuptiSubscribe_v2(&first, note, told, &params), CUPTI_SUCCESS);
	params.oldSubscriberName = holder;
	params.oldSubscriberSize = sizeof(holder);
	assert_int_equal(cuptiSubscribe_v2(&second, note, told, &params),
			 CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
	assert_string_equal(holder, "CUPTI for a test");
	assert_int_equal(cuptiUnsubscribe(first), CUPTI_SUCCESS);
	assert_int_equal(cuptiGetCallbackName(CUPTI_CB_DOMAIN_RUNTIME_API,
					      CUPTI_RUNTIME_TRACE_CBID_cudaMalloc_v3020, &name), CUPTI_SUCCESS);
	assert_string_equal(name, "cudaMalloc");
	/* An older version of a function keeps its number. */
	assert_int_equal(cuptiGetCallbackName(CUPTI_CB_DOMAIN_RUNTIME_API,
					      CUPTI_RUNTIME_TRACE_CBID_cudaGetDeviceProperties_v3020, &name),
			 CUPTI_SUCCESS);
	assert_string_equal(name, "cudaGetDeviceProperties");
	assert_int_equal(cuptiGetCallbackName(CUPTI_CB_DOMAIN_RESOURCE, 1, &name), CUPTI_ERROR_INVALID_PARAMETER);
}

static void calls_are_told_around(void **state)
{
	CUpti_SubscriberHandle handle = subscribe();
	void *p = NULL;

	(void)state;
	assert_int_equal(cudaFree(NULL), cudaSuccess);
	assert_int_equal(cuptiEnableDomain(1, handle, CUPTI_CB_DOMAIN_RUNTIME_API), CUPTI_SUCCESS);
	assert_int_equal(cuptiEnableCallback(1, handle, CUPTI_CB_DOMAIN_DRIVER_API,
					     CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2), CUPTI_SUCCESS);
	assert_int_equal(cudaMalloc(&p, MIB(3)), cudaSuccess);

	assert_int_equal(nr_told, 4);
	assert_string_equal(told[0].name, "cudaMalloc");
	assert_int_equal(told[0].site, CUPTI_API_ENTER);
	assert_int_equal(told[0].bytes, MIB(3));
	assert_string_equal(told[1].name, "cuMemAlloc_v2");
	assert_int_equal(told[1].bytes, MIB(3));
	assert_int_equal(told[2].site, CUPTI_API_EXIT);
	assert_int_equal(told[3].cbid, CUPTI_RUNTIME_TRACE_CBID_cudaMalloc_v3020);
	assert_int_equal(told[3].site, CUPTI_API_EXIT);
	assert_ptr_equal(told[3].address, p);
	for (int i = 1; i < 4; i++)
		assert_int_equal(told[i].correlation, told[0].correlation);
	/* What the client stored on entry is there on exit, of each call its own. */
	assert_int_equal(told[2].data, told[1].data);
	assert_int_equal(told[3].data, told[0].data);

	nr_told = 0;
	assert_int_equal(cudaFree((char *)p + 1), cudaErrorInvalidValue);
	assert_int_equal(nr_told, 2);
	assert_int_equal(told[1].result, cudaErrorInvalidValue);
	assert_true(told[1].correlation != 0);

	nr_told = 0;
	calls_from_callback = true;
	assert_int_equal(cudaFree(p), cudaSuccess);
	calls_from_callback = false;
	assert_int_equal(nr_told, 2);
	assert_int_equal(cuptiUnsubscribe(handle), CUPTI_SUCCESS);
	assert_int_equal(cudaFree(NULL), cudaSuccess);
	assert_int_equal(nr_told, 2);
}

/* As code that nvcc 13 compiled declares it. */
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared,
			       cudaStream_t stream);

static void launches_name_their_kernel(void **state)
{
	static const char ptx[] = ".version 8.0\n.target sm_80\n.address_size 64\n"
				  ".visible .entry add()\n{\n\tret;\n}\n";
	CUpti_SubscriberHandle handle;
	cudaLibrary_t library;
	cudaKernel_t kernel;
	dim3 one = { 1, 1, 1 };

	(void)state;
	assert_int_equal(cudaLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0), cudaSuccess);
	assert_int_equal(cudaLibraryGetKernel(&kernel, library, "add"), cudaSuccess);
	handle = subscribe();
	assert_int_equal(cuptiEnableDomain(1, handle, CUPTI_CB_DOMAIN_RUNTIME_API), CUPTI_SUCCESS);
	assert_int_equal(cuptiEnableCallback(1, handle, CUPTI_CB_DOMAIN_DRIVER_API,
					     CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel), CUPTI_SUCCESS);
	assert_int_equal(cudaLaunchKernel(kernel, one, one, NULL, 0, NULL), cudaSuccess);
	assert_int_equal(__cudaLaunchKernel(kernel, one, one, NULL, 0, NULL), cudaSuccess);
	assert_int_equal(cudaLaunchKernel(&one, one, one, NULL, 0, NULL), cudaErrorInvalidDeviceFunction);
	assert_int_equal(cudaGetLastError(), cudaErrorInvalidDeviceFunction);

	assert_int_equal(nr_told, 12);
	assert_string_equal(told[0].name, "cudaLaunchKernel");
	assert_string_equal(told[1].name, "cuLaunchKernel");
	assert_int_equal(told[4].cbid, CUPTI_RUNTIME_TRACE_CBID___cudaLaunchKernel_v13000);
	assert_string_equal(told[5].name, "cuLaunchKernel");
	for (unsigned i = 0; i < 8; i++)
		assert_string_equal(told[i].symbol, "add");
	for (unsigned i = 8; i < 12; i++)
		assert_string_equal(told[i].symbol, "");
	assert_int_equal(cuptiUnsubscribe(handle), CUPTI_SUCCESS);
	assert_int_equal(cudaLibraryUnload(library), cudaSuccess);
}

static void objects_are_told(void **state)
{
	static const char ptx[] = ".version 8.0\n.target sm_80\n.address_size 64\n";
	CUpti_SubscriberHandle handle = subscribe();
	CUmodule module;
	cudaStream_t stream;
	CUcontext current;
	void *p;

	(void)state;
	assert_int_equal(cuptiEnableDomain(1, handle, CUPTI_CB_DOMAIN_RESOURCE), CUPTI_SUCCESS);
	assert_int_equal(cudaDeviceReset(), cudaSuccess);
	assert_int_equal(cudaMalloc(&p, 1), cudaSuccess);
	assert_int_equal(cuCtxGetCurrent(&current), CUDA_SUCCESS);
	assert_int_equal(cudaStreamCreate(&stream), cudaSuccess);
	assert_int_equal(cudaStreamDestroy(stream), cudaSuccess);
	assert_int_equal(cuModuleLoadData(&module, ptx), CUDA_SUCCESS);
	assert_int_equal(cuModuleUnload(module), CUDA_SUCCESS);

	assert_int_equal(nr_told, 6);
	assert_int_equal(told[0].cbid, CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING);
	assert_int_equal(told[1].cbid, CUPTI_CBID_RESOURCE_CONTEXT_CREATED);
	assert_ptr_equal(told[1].address, current);
	assert_int_equal(told[2].cbid, CUPTI_CBID_RESOURCE_STREAM_CREATED);
	assert_ptr_equal(told[2].stream, stream);
	assert_int_equal(told[3].cbid, CUPTI_CBID_RESOURCE_STREAM_DESTROY_STARTING);
	assert_ptr_equal(told[3].stream, stream);
	assert_int_equal(told[4].cbid, CUPTI_CBID_RESOURCE_MODULE_LOADED);
	assert_int_equal(told[4].bytes, sizeof(ptx));
	assert_int_equal(told[5].cbid, CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING);
	assert_int_equal(told[5].module, told[4].module);
	assert_int_equal(cuptiUnsubscribe(handle), CUPTI_SUCCESS);
}

/* ---- records --------------------------------------------------------------------------------- */

static CUpti_ActivityMemory4 memory[MOST];
static CUpti_ActivityMemoryPool3 pools[MOST];
static unsigned nr_memory, nr_pools, nr_buffers;

/* Buffers of two records and a bit: several are needed, and none is filled to its end. */
static void request(uint8_t **buffer, size_t *size, size_t *most)
{
	*size = 2 * sizeof(CUpti_ActivityMemory4) + 50;
	*buffer = aligned_alloc(8, (*size + 7) / 8 * 8);
	*most = 0;
}

static void complete(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
	CUpti_Activity *record = NULL;

	(void)context, (void)stream, (void)size;
	nr_buffers++;
	while (!cuptiActivityGetNextRecord(buffer, valid, &record)) {
		if (record->kind == CUPTI_ACTIVITY_KIND_MEMORY2)
			memory[nr_memory++] = *(CUpti_ActivityMemory4 *)record;
		else if (record->kind == CUPTI_ACTIVITY_KIND_MEMORY_POOL)
			pools[nr_pools++] = *(CUpti_ActivityMemoryPool3 *)record;
	}
	free(buffer);
}

static void memory_is_recorded(void **state)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				 .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 } };
	void *device, *pinned, *managed, *pooled;
	CUmemoryPool pool;
	size_t dropped = 1;

	(void)state;
	assert_int_equal(cuptiActivityFlushAll(0), CUPTI_ERROR_INVALID_OPERATION);
	assert_int_equal(cuptiActivityRegisterCallbacks(request, complete), CUPTI_SUCCESS);
	assert_int_equal(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMORY2), CUPTI_SUCCESS);
	assert_int_equal(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMORY_POOL), CUPTI_SUCCESS);
	assert_int_equal(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_INVALID), CUPTI_ERROR_INVALID_KIND);

	assert_int_equal(cudaMalloc(&device, 1000), cudaSuccess);
	assert_int_equal(cudaMallocHost(&pinned, 2000), cudaSuccess);
	assert_int_equal(cudaMallocManaged(&managed, 3000, cudaMemAttachGlobal), cudaSuccess);
	assert_int_equal(cuMemPoolCreate(&pool, &props), CUDA_SUCCESS);
	assert_int_equal(cudaMallocFromPoolAsync(&pooled, 4000, pool, NULL), cudaSuccess);
	assert_int_equal(cudaMalloc(&managed, SIZE_MAX / 2), cudaErrorMemoryAllocation);
	assert_int_equal(cudaGetLastError(), cudaErrorMemoryAllocation);
	assert_int_equal(cudaFreeAsync(pooled, NULL), cudaSuccess);
	assert_int_equal(cudaFree(device), cudaSuccess);
	assert_int_equal(cudaFreeHost(pinned), cudaSuccess);
	assert_int_equal(cuMemPoolTrimTo(pool, 64), CUDA_SUCCESS);
	assert_int_equal(cuMemPoolDestroy(pool), CUDA_SUCCESS);
	assert_int_equal(cuptiActivityFlushAll(0), CUPTI_SUCCESS);

	assert_int_equal(nr_memory, 7);
	assert_true(nr_buffers >= 4);
	assert_int_equal(memory[0].memoryOperationType, CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION);
	assert_int_equal(memory[0].memoryKind, CUPTI_ACTIVITY_MEMORY_KIND_DEVICE);
	assert_int_equal(memory[0].address, (uintptr_t)device);
	assert_int_equal(memory[0].bytes, 1000);
	assert_false(memory[0].isAsync);
	assert_int_equal(memory[1].memoryKind, CUPTI_ACTIVITY_MEMORY_KIND_PINNED);
	assert_int_equal(memory[2].memoryKind, CUPTI_ACTIVITY_MEMORY_KIND_MANAGED);
	assert_true(memory[3].isAsync);
	assert_int_equal(memory[3].memoryPoolConfig.utilizedSize, 4096);
	assert_int_equal(memory[4].memoryOperationType, CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE);
	assert_int_equal(memory[4].address, (uintptr_t)pooled);
	assert_int_equal(memory[4].memoryPoolConfig.utilizedSize, 0);
	assert_int_equal(memory[5].address, (uintptr_t)device);
	assert_int_equal(memory[6].bytes, 2000);
	for (unsigned i = 1; i < nr_memory; i++) {
		assert_true(memory[i].correlationId > memory[i - 1].correlationId);
		assert_true(memory[i].timestamp >= memory[i - 1].timestamp);
	}
	assert_int_equal(nr_pools, 3);
	assert_int_equal(pools[0].memoryPoolOperationType, CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_CREATED);
	assert_int_equal(pools[1].memoryPoolOperationType, CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_TRIMMED);
	assert_int_equal(pools[1].minBytesToKeep, 64);
	assert_int_equal(pools[2].memoryPoolOperationType, CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_DESTROYED);
	assert_int_equal(pools[2].address, memory[3].memoryPoolConfig.address);
	assert_int_equal(cuptiActivityGetNumDroppedRecords(NULL, 0, &dropped), CUPTI_SUCCESS);
	assert_int_equal(dropped, 0);

	assert_int_equal(cuptiActivityDisable(CUPTI_ACTIVITY_KIND_MEMORY2), CUPTI_SUCCESS);
	assert_int_equal(cuptiActivityDisable(CUPTI_ACTIVITY_KIND_MEMORY_POOL), CUPTI_SUCCESS);
	assert_int_equal(cudaMalloc(&device, 1000), cudaSuccess);
	assert_int_equal(cuptiActivityFlushAll(0), CUPTI_SUCCESS);
	assert_int_equal(nr_memory, 7);
}

/* A client's clock that needs what an allocation has locked. */
static uint64_t clock_that_calls(void)
{
	static uint64_t now;
	size_t available, total;

	assert_int_equal(cudaMemGetInfo(&available, &total), cudaSuccess);
	return ++now;
}

static void the_clock_may_be_the_clients(void **state)
{
	uint64_t now = 0;
	void *p;

	(void)state;
	assert_int_equal(cuptiActivityRegisterTimestampCallback(NULL), CUPTI_ERROR_INVALID_PARAMETER);
	assert_int_equal(cuptiActivityRegisterTimestampCallback(clock_that_calls), CUPTI_SUCCESS);
	assert_int_equal(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMORY2), CUPTI_SUCCESS);
	nr_memory = 0;
	assert_int_equal(cudaMalloc(&p, 1000), cudaSuccess);
	assert_int_equal(cudaFree(p), cudaSuccess);
	assert_int_equal(cuptiActivityFlushAll(0), CUPTI_SUCCESS);
	assert_int_equal(cuptiGetTimestamp(&now), CUPTI_SUCCESS);
	assert_int_equal(nr_memory, 2);
	assert_true(memory[0].timestamp > 0 && memory[0].timestamp < memory[1].timestamp);
	assert_true(memory[1].timestamp < now);
	assert_int_equal(cuptiActivityDisable(CUPTI_ACTIVITY_KIND_MEMORY2), CUPTI_SUCCESS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_subscriber_at_a_time),
		cmocka_unit_test(names_of_the_holder),
		cmocka_unit_test(calls_are_told_around),
		cmocka_unit_test(launches_name_their_kernel),
		cmocka_unit_test(objects_are_told),
		cmocka_unit_test(memory_is_recorded),
		cmocka_unit_test(the_clock_may_be_the_clients),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
