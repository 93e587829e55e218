/* SPDX-License-Identifier: MIT */
/*
 * What simgpu does not do it says: the documented code, a count by name, and one line where a value was
 * expected.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <cublasXt.h>
#include <cublas_v2.h>
#include <cuda.h>
#include <cusolverDn.h>

#include "simgpu/report.h"

static const struct simgpu_unsupported *reported(const char *name)
{
	const struct simgpu_report *report = simgpu_report();

	assert_int_equal(report->struct_bytes, sizeof(*report));
	for (uint32_t i = 0; i < report->nr_names; i++)
		if (!strcmp(report->names[i].name, name))
			return &report->names[i];
	return NULL;
}

/* Run CALL with stderr in a pipe and return what it wrote. */
static void capture(void (*call)(void), char *text, size_t room)
{
	int fds[2], saved = dup(2);
	ssize_t n;

	assert_int_equal(pipe(fds), 0);
	dup2(fds[1], 2);
	call();
	dup2(saved, 2);
	close(saved);
	close(fds[1]);
	n = read(fds[0], text, room - 1);
	text[n < 0 ? 0 : n] = '\0';
	close(fds[0]);
}

static void create_twice(void)
{
	cublasXtHandle_t handle = NULL;

	assert_int_equal(cublasXtCreate(&handle), CUBLAS_STATUS_NOT_SUPPORTED);
	assert_int_equal(cublasXtCreate(&handle), CUBLAS_STATUS_NOT_SUPPORTED);
	assert_null(handle);
}

static void test_counted_and_printed_once(void **state)
{
	const uint64_t before = simgpu_report()->calls;
	const char *line;
	char text[1024];

	(void)state;
	assert_null(reported("cublasXtCreate"));
	capture(create_twice, text, sizeof(text));
	line = strstr(text, "cublasXtCreate");
	assert_non_null(line);
	assert_null(strstr(line + 1, "cublasXtCreate"));
	assert_non_null(reported("cublasXtCreate"));
	assert_int_equal(reported("cublasXtCreate")->calls, 2);
	assert_int_equal(simgpu_report()->calls, before + 2);
}

static void compute(void)
{
	const float one = 1;
	cublasHandle_t handle;

	assert_int_equal(cublasCreate(&handle), CUBLAS_STATUS_SUCCESS);
	assert_int_equal(
		cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &one, NULL, 1, NULL, 1, &one, NULL, 1),
		CUBLAS_STATUS_SUCCESS);
	assert_int_equal(cublasDestroy(handle), CUBLAS_STATUS_SUCCESS);
}

/* A routine whose kernel would do nothing is no refusal. */
static void test_no_op_is_silent(void **state)
{
	const uint64_t before = simgpu_report()->calls;
	char text[256];

	(void)state;
	capture(compute, text, sizeof(text));
	assert_string_equal(text, "");
	assert_int_equal(simgpu_report()->calls, before);
}

/* Sizes that a program allocates by are always written. */
static void test_workspace_size_is_written(void **state)
{
	cusolverDnHandle_t handle;
	size_t device_bytes = SIZE_MAX, host_bytes = SIZE_MAX;
	int elements = -1;

	(void)state;
	assert_int_equal(cusolverDnCreate(&handle), CUSOLVER_STATUS_SUCCESS);
	assert_int_equal(cusolverDnSgetrf_bufferSize(handle, 8, 8, NULL, 8, &elements),
			 CUSOLVER_STATUS_SUCCESS);
	assert_int_equal(elements, 1024);
	assert_int_equal(cusolverDnXsyevd_bufferSize(handle, NULL, CUSOLVER_EIG_MODE_VECTOR,
						     CUBLAS_FILL_MODE_LOWER, 8, CUDA_R_32F, NULL, 8,
						     CUDA_R_32F, NULL, CUDA_R_32F, &device_bytes,
						     &host_bytes),
			 CUSOLVER_STATUS_SUCCESS);
	assert_int_equal(device_bytes, 4096);
	assert_int_equal(host_bytes, 4096);
	cusolverDnDestroy(handle);
}

/* cuGetProcAddress knows which version of a function belongs to which CUDA. */
static void test_versions(void **state)
{
	CUdriverProcAddressQueryResult found;
	void *plain = NULL, *old = NULL;

	(void)state;
	assert_int_equal(cuInit(0), CUDA_SUCCESS);
	assert_int_equal(cuGetProcAddress("cuMemAlloc", &plain, 13000, CU_GET_PROC_ADDRESS_DEFAULT, &found),
			 CUDA_SUCCESS);
	assert_ptr_equal(plain, (void *)cuMemAlloc);
	assert_int_equal(cuGetProcAddress("cuMemAlloc", &old, 2000, CU_GET_PROC_ADDRESS_DEFAULT, &found),
			 CUDA_SUCCESS);
	assert_ptr_not_equal(old, plain);
	cuGetProcAddress("cuNoSuchFunction", &plain, 13000, CU_GET_PROC_ADDRESS_DEFAULT, &found);
	assert_int_equal(found, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_counted_and_printed_once),
		cmocka_unit_test(test_no_op_is_silent),
		cmocka_unit_test(test_workspace_size_is_written),
		cmocka_unit_test(test_versions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
