/* SPDX-License-Identifier: MIT */
/*
 * Which reads of device memory are told to a listener: small ones of what neither the host nor a copy of
 * its wrote.
 */
#define __CUDA_API_VERSION_INTERNAL 1
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <cuda.h>

#include "simgpu/report.h"

#define MIB(n) ((size_t)(n) << 20)

static struct {
	int nr, device;
	CUdeviceptr p;
	uint64_t bytes;
} told;

static void value_read(int device, const void *p, uint64_t bytes)
{
	told.nr++;
	told.device = device;
	told.p = (CUdeviceptr)p;
	told.bytes = bytes;
}

static const struct simgpu_listener listener = {
	.struct_bytes = sizeof(listener),
	.value_read = value_read,
};

/* How often the listener is told when the host reads BYTES at P; they must be VALUE each. */
static int reads(CUdeviceptr p, size_t bytes, char value)
{
	char *host = malloc(bytes);
	int before = told.nr;

	memset(host, 99, bytes);
	assert_int_equal(cuMemcpyDtoH_v2(host, p, bytes), CUDA_SUCCESS);
	for (size_t i = 0; i < bytes; i++)
		assert_int_equal(host[i], value);
	free(host);
	return told.nr - before;
}

static CUdeviceptr allocate(size_t bytes)
{
	CUdeviceptr p;

	assert_int_equal(cuMemAlloc_v2(&p, bytes), CUDA_SUCCESS);
	return p;
}

static void write(CUdeviceptr p, size_t bytes, char value)
{
	char *host = malloc(bytes);

	memset(host, value, bytes);
	assert_int_equal(cuMemcpyHtoD_v2(p, host, bytes), CUDA_SUCCESS);
	free(host);
}

static void what_nobody_wrote_is_told(void **state)
{
	CUdeviceptr p = allocate(4096);

	(void)state;
	assert_int_equal(reads(p + 8, 4, 0), 1);
	assert_int_equal(told.device, 0);
	assert_int_equal(told.p, p + 8);
	assert_int_equal(told.bytes, 4);
	assert_int_equal(reads(p, 64, 0), 1);
	assert_int_equal(reads(p, 65, 0), 0);
	cuMemFree_v2(p);
}

static void what_the_host_wrote_is_not(void **state)
{
	CUdeviceptr p = allocate(4096);

	(void)state;
	write(p, 16, 5);
	assert_int_equal(reads(p, 16, 5), 0);
	assert_int_equal(reads(p + 12, 4, 5), 0);
	assert_int_equal(reads(p + 16, 1, 0), 1);
	assert_int_equal(cuMemsetD8_v2(p + 16, 5, 16), CUDA_SUCCESS);
	assert_int_equal(reads(p, 32, 5), 0);
	assert_int_equal(cuMemsetD8_v2(p, 0, 32), CUDA_SUCCESS);
	assert_int_equal(reads(p, 32, 0), 0);
	cuMemFree_v2(p);
	p = allocate(4096);
	assert_int_equal(reads(p, 16, 0), 1);
	cuMemFree_v2(p);
}

static void copies_carry_what_is_known(void **state)
{
	CUdeviceptr p = allocate(4096), q = allocate(4096);

	(void)state;
	write(p + 8, 8, 7);
	assert_int_equal(cuMemcpyDtoD_v2(q + 100, p, 24), CUDA_SUCCESS);
	assert_int_equal(reads(q + 108, 8, 7), 0);
	assert_int_equal(reads(q + 100, 8, 0), 1);
	assert_int_equal(reads(q + 116, 8, 0), 1);
	write(q, 200, 1);
	assert_int_equal(cuMemcpyDtoD_v2(q + 100, p + 1024, 24), CUDA_SUCCESS);
	assert_int_equal(reads(q + 100, 24, 0), 1);
	assert_int_equal(reads(q + 96, 4, 1), 0);
	assert_int_equal(reads(q + 124, 4, 1), 0);
	cuMemFree_v2(p);
	cuMemFree_v2(q);
}

static void what_is_too_large_to_be_carried_is_told(void **state)
{
	CUdeviceptr p = allocate(MIB(4));

	(void)state;
	write(p, MIB(1), 3);
	assert_int_equal(reads(p, 8, 3), 0);
	write(p, MIB(1) + 1, 4);
	assert_int_equal(reads(p, 8, 0), 1);
	assert_int_equal(cuMemsetD8_v2(p, 3, MIB(2)), CUDA_SUCCESS);
	assert_int_equal(reads(p, 8, 0), 1);
	assert_int_equal(cuMemsetD8_v2(p, 0, MIB(2)), CUDA_SUCCESS);
	assert_int_equal(reads(p, 8, 0), 0);
	cuMemFree_v2(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_nobody_wrote_is_told),
		cmocka_unit_test(what_the_host_wrote_is_not),
		cmocka_unit_test(copies_carry_what_is_known),
		cmocka_unit_test(what_is_too_large_to_be_carried_is_told),
	};
	CUcontext ctx;

	if (cuInit(0) || cuDevicePrimaryCtxRetain(&ctx, 0) || cuCtxSetCurrent(ctx))
		return 1;
	simgpu_listen(&listener);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
