/* SPDX-License-Identifier: MIT */
/* Objects that kernels would use: textures, green contexts, linked images, multicast objects. */
#define __CUDA_API_VERSION_INTERNAL 1
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <cuda.h>
#include <cuda_runtime_api.h>

#define MIB(n) ((size_t)(n) << 20)
#define OK(call) assert_int_equal(call, CUDA_SUCCESS)

static void textures_keep_their_descriptions(void **state)
{
	CUDA_RESOURCE_DESC resource = { .resType = CU_RESOURCE_TYPE_LINEAR }, got;
	CUDA_TEXTURE_DESC texture = { .maxAnisotropy = 5 }, same;
	CUDA_RESOURCE_VIEW_DESC view;
	CUtexObject object;
	CUdeviceptr p;

	(void)state;
	OK(cuMemAlloc_v2(&p, 4096));
	assert_int_equal(cuTexObjectCreate(&object, &resource, &texture, NULL), CUDA_ERROR_INVALID_VALUE);
	resource.res.linear.devPtr = p;
	resource.res.linear.sizeInBytes = 4096;
	resource.res.linear.numChannels = 1;
	OK(cuTexObjectCreate(&object, &resource, &texture, NULL));
	OK(cuTexObjectGetResourceDesc(&got, object));
	assert_int_equal(got.res.linear.devPtr, p);
	OK(cuTexObjectGetTextureDesc(&same, object));
	assert_int_equal(same.maxAnisotropy, 5);
	assert_int_equal(cuTexObjectGetResourceViewDesc(&view, object), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuSurfObjectDestroy(object), CUDA_ERROR_INVALID_VALUE);
	OK(cuTexObjectDestroy(object));
	assert_int_equal(cuTexObjectDestroy(object), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFree_v2(p));
}

static void textures_of_the_runtime(void **state)
{
	struct cudaChannelFormatDesc format = cudaCreateChannelDesc(32, 32, 0, 0, cudaChannelFormatKindFloat),
				     same;
	struct cudaResourceDesc resource = { .resType = cudaResourceTypeArray }, got;
	struct cudaTextureDesc texture = { .readMode = cudaReadModeElementType }, read;
	struct cudaExtent extent;
	cudaTextureObject_t object;
	cudaSurfaceObject_t surface;
	cudaMipmappedArray_t whole;
	cudaArray_t array, level;

	(void)state;
	OK(cudaMallocArray(&array, &format, 16, 8, 0));
	OK(cudaArrayGetInfo(&same, &extent, NULL, array));
	assert_memory_equal(&same, &format, sizeof(same));
	assert_int_equal(extent.height, 8);
	resource.res.array.array = array;
	OK(cudaCreateTextureObject(&object, &resource, &texture, NULL));
	OK(cudaGetTextureObjectResourceDesc(&got, object));
	assert_ptr_equal(got.res.array.array, array);
	OK(cudaGetTextureObjectTextureDesc(&read, object));
	OK(cudaDestroyTextureObject(object));
	assert_int_equal(cudaGetTextureObjectResourceDesc(&got, object), cudaErrorInvalidValue);
	OK(cudaCreateSurfaceObject(&surface, &resource));
	OK(cudaDestroySurfaceObject(surface));
	OK(cudaFreeArray(array));
	OK(cudaMallocMipmappedArray(&whole, &format, (struct cudaExtent){ 16, 8, 0 }, 3, 0));
	OK(cudaGetMipmappedArrayLevel(&level, whole, 2));
	OK(cudaArrayGetInfo(NULL, &extent, NULL, level));
	assert_int_equal(extent.width, 4);
	assert_int_equal(extent.height, 2);
	assert_int_equal(cudaFreeArray(level), cudaErrorInvalidResourceHandle);
	assert_int_equal(cudaGetMipmappedArrayLevel(&level, whole, 3), cudaErrorInvalidValue);
	OK(cudaFreeMipmappedArray(whole));
	cudaGetLastError();
}

/* The SMs of an H100 in parts; memory stays the primary context's. */
static void green_contexts_have_their_sms(void **state)
{
	CUdevResource all, parts[3], rest, mine;
	CUdevResourceDesc description;
	CUcontext context, before;
	CUgreenCtx green, of_stream;
	unsigned nr = 0;
	CUstream stream;
	CUdeviceptr p;

	(void)state;
	OK(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
	assert_int_equal(all.sm.smCount, 132);
	OK(cuDevSmResourceSplitByCount(NULL, &nr, &all, NULL, 0, 20));
	assert_int_equal(nr, 5);
	nr = 3;
	OK(cuDevSmResourceSplitByCount(parts, &nr, &all, &rest, 0, 20));
	assert_int_equal(nr, 3);
	assert_int_equal(parts[2].sm.smCount, 24);
	assert_int_equal(rest.sm.smCount, 60);
	assert_int_equal(cuDevSmResourceSplitByCount(parts, &nr, &all, NULL, 0, 133),
			 CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
	OK(cuDevResourceGenerateDesc(&description, parts, 2));
	assert_int_equal(cuGreenCtxCreate(&green, description, 0, 0), CUDA_ERROR_INVALID_VALUE);
	OK(cuGreenCtxCreate(&green, description, 0, CU_GREEN_CTX_DEFAULT_STREAM));
	OK(cuGreenCtxGetDevResource(green, &mine, CU_DEV_RESOURCE_TYPE_SM));
	assert_int_equal(mine.sm.smCount, 48);
	OK(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0));
	OK(cuStreamGetCtx_v2(stream, &context, &of_stream));
	assert_ptr_equal(of_stream, green);
	assert_null(context);
	OK(cuCtxFromGreenCtx(&context, green));
	OK(cuCtxPushCurrent_v2(context));
	OK(cuCtxGetDevResource(NULL, &mine, CU_DEV_RESOURCE_TYPE_SM));
	assert_int_equal(mine.sm.smCount, 48);
	OK(cuMemAlloc_v2(&p, 4096));
	assert_int_equal(cuCtxDestroy_v2(context), CUDA_ERROR_INVALID_CONTEXT);
	OK(cuCtxPopCurrent_v2(&before));
	OK(cuStreamDestroy_v2(stream));
	OK(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0));
	OK(cuGreenCtxDestroy(green));
	assert_int_equal(cuStreamGetGreenCtx(stream, &of_stream), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	cuStreamDestroy_v2(stream);
	assert_int_equal(cuGreenCtxDestroy(green), CUDA_ERROR_INVALID_CONTEXT);
	OK(cuMemFree_v2(p));
}

static void linked_images_have_what_their_inputs_had(void **state)
{
	char first[] = ".version 9.0\n.target sm_90\n.visible .global .u32 value = 6;\n";
	char second[] = ".version 9.0\n.target sm_90\n.visible .entry k() { ret; }\n";
	CUjit_option options[] = { CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES };
	void *values[] = { (void *)1024 };
	CUlinkState link;
	CUmodule module;
	CUdeviceptr p;
	unsigned word, nr;
	size_t bytes;
	void *image;

	(void)state;
	OK(cuLinkCreate_v2(1, options, values, &link));
	assert_int_equal(cuLinkComplete(link, &image, &bytes), CUDA_ERROR_INVALID_IMAGE);
	OK(cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, first, strlen(first), "a", 0, NULL, NULL));
	assert_int_equal(cuLinkAddFile_v2(link, CU_JIT_INPUT_PTX, "/does/not/exist", 0, NULL, NULL),
			 CUDA_ERROR_FILE_NOT_FOUND);
	OK(cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, second, sizeof(second), "b", 0, NULL, NULL));
	OK(cuLinkComplete(link, &image, &bytes));
	assert_null(values[0]);
	assert_true(bytes >= strlen(first) + strlen(second));
	OK(cuModuleLoadData(&module, image));
	OK(cuLinkDestroy(link));
	assert_int_equal(cuLinkDestroy(link), CUDA_ERROR_INVALID_HANDLE);
	OK(cuModuleGetGlobal_v2(&p, &bytes, module, "value"));
	OK(cuMemcpyDtoH_v2(&word, p, 4));
	assert_int_equal(word, 6);
	OK(cuModuleGetFunctionCount(&nr, module));
	assert_int_equal(nr, 1);
	OK(cuModuleUnload(module));
}

static void multicast_objects_know_what_is_bound(void **state)
{
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 } };
	CUmulticastObjectProp object = { .numDevices = 1, .size = MIB(4) };
	CUmemGenericAllocationHandle multicast, memory;
	size_t before, after, total, granule;
	CUdeviceptr p;

	(void)state;
	OK(cuMulticastGetGranularity(&granule, &object, CU_MULTICAST_GRANULARITY_MINIMUM));
	OK(cuMemCreate(&memory, MIB(4), &prop, 0));
	OK(cuMemGetInfo_v2(&before, &total));
	OK(cuMulticastCreate(&multicast, &object));
	assert_int_equal(cuMulticastBindMem(multicast, 0, memory, 0, MIB(4), 0), CUDA_ERROR_INVALID_VALUE);
	OK(cuMulticastAddDevice(multicast, 0));
	assert_int_equal(cuMulticastAddDevice(multicast, 0), CUDA_ERROR_INVALID_VALUE);
	OK(cuMulticastBindMem(multicast, 0, memory, 0, MIB(2), 0));
	assert_int_equal(cuMulticastBindMem(multicast, 0, memory, MIB(2), MIB(2), 0),
			 CUDA_ERROR_INVALID_VALUE);
	OK(cuMulticastBindMem(multicast, MIB(2), memory, MIB(2), MIB(2), 0));
	OK(cuMemAddressReserve(&p, MIB(4), 0, 0, 0));
	OK(cuMemMap(p, MIB(4), 0, multicast, 0));
	OK(cuMemUnmap(p, MIB(4)));
	OK(cuMemAddressFree(p, MIB(4)));
	OK(cuMulticastUnbind(multicast, 0, 0, MIB(2)));
	assert_int_equal(cuMulticastUnbind(multicast, 0, 0, MIB(2)), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemGetInfo_v2(&after, &total));
	assert_int_equal(after, before);
	OK(cuMemRelease(memory)); /* still bound */
	OK(cuMemGetInfo_v2(&after, &total));
	assert_int_equal(after, before);
	OK(cuMemRelease(multicast));
	OK(cuMemGetInfo_v2(&after, &total));
	assert_int_equal(after, before + MIB(4));
	assert_int_equal(cuMulticastAddDevice(multicast, 0), CUDA_ERROR_INVALID_VALUE);
}

static int set_up(void **state)
{
	CUcontext context;

	(void)state;
	return cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(textures_keep_their_descriptions),
		cmocka_unit_test(textures_of_the_runtime),
		cmocka_unit_test(green_contexts_have_their_sms),
		cmocka_unit_test(linked_images_have_what_their_inputs_had),
		cmocka_unit_test(multicast_objects_know_what_is_bound),
	};

	setenv("SIMGPU_PROFILE", "h100", 1);
	return cmocka_run_group_tests(tests, set_up, NULL);
}
